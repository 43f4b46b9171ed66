"""Primitives of oneDNN as rows below their ops: an op's time is split, never doubled."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from timeroof.core.machine import DRAM, Machine
from timeroof.core.shapes import SHAPE
from timeroof.live.accounting import Account, account
from timeroof.live.memory import caches_above
from timeroof.live.recording import (
    NO_MATCH,
    Described,
    Ints,
    PrimitiveSeen,
    PrimitiveStep,
    Recording,
    align,
)
from timeroof.live.rows import Rows
from timeroof.read.onednn import MOVERS, parse_execution
from timeroof.work import Cost, count
from timeroof.work.call import Call, input_shape
from timeroof.work.cost import amounts as amounts_of
from timeroof.work.onednn import call_from_onednn
from timeroof_recorder.torch.timing import TIMESTAMP

# A smaller rest of an op beside its primitives is within what two clocks differ by.
LEAST_REST = 0.2
# No clock sees a smaller share of an op.
LEAST_SHARE = 1e-6
NO_TIMES = (
    "oneDNN's lines have no time stamps, its primitives are not shown: set"
    f" {TIMESTAMP}=1 before the program starts"
)
# A row of the kernels' table by column.
Line = dict[str, Any]


class Key(NamedTuple):
    """What tells primitives of an op apart."""

    kind: str
    implementation: str
    propagation: str
    formats: str
    problem: str

    @classmethod
    def of(cls, primitive: PrimitiveSeen) -> Key:
        """From the words of a line."""
        kind, implementation, propagation, formats = (*primitive.words, *[""] * 4)[:4]
        return cls(kind, implementation, propagation, formats, primitive.words[-1])

    @property
    def name(self) -> str:
        """As a row shows it."""
        words = f"onednn::{self.kind} {self.implementation} {self.propagation}"
        return words.removesuffix(" undef")

    @property
    def cost(self) -> Cost:
        """What one call owes."""
        return count(self.call)

    @property
    def call(self) -> Call:
        """The call that the primitive is."""
        return call_from_onednn(self.kind, self.propagation, self.formats, self.problem)


class Part(NamedTuple):
    """A primitive's share of its op's time, and its calls a step. `least_ns` and `middle_ns` are by
    oneDNN's own clock, per call of the op, over all steps."""

    share: float
    calls: float
    least_ns: float = 0.0
    middle_ns: float = 0.0


class Seen(NamedTuple):
    """A primitive of a step: the row and the event of its op, what it is, how long it took."""

    row: int
    event: int
    key: Key
    ns: float


Below = dict[Key, Part]


def split_primitives(
    table: pl.DataFrame, recording: Recording, rows: Rows, units: Collection[str],
    machine: Machine | None,
) -> tuple[pl.DataFrame, list[str]]:  # fmt: skip
    """The table with primitives split off their ops' time, and notes."""
    steps = [_of_step(seen, rows, recording.described) for seen in recording.primitive_steps]
    below_of = _over_steps([parts for parts, _ in steps])
    if not below_of:
        return table, [NO_TIMES] if any(outside is None for _, outside in steps) else []
    lines: list[Line] = []
    next_id = len(rows.keys)
    for line in table.iter_rows(named=True):
        below = below_of.get(line["id"])
        if below is None or not line["time_s"]:
            lines.append(line)
            continue
        below = no_shorter(below, line["calls"], line["time_s"])
        lines += split_line(line, below, units, machine, next_id)
        next_id += len(below)
    outside = max(outside or 0 for _, outside in steps)
    notes = [f"{outside} primitives ran outside any op that was seen."] if outside else []
    shapes = {"shape": SHAPE}
    return pl.DataFrame(lines, infer_schema_length=None, schema_overrides=shapes), notes


# Which share of an op's time each of its primitives takes.


def _of_step(
    step: PrimitiveStep, rows: Rows, ops: list[Described]
) -> tuple[dict[int, Below], int | None]:
    """Parts per row in one step, and how many primitives belong to no op (None: nobody knows).
    oneDNN's durations are held against their ops' time in the same step: another step may have been
    disturbed by other programs."""
    primitives = primitives_in(step.lines)
    if not primitives:
        return {}, None
    found, matches = account(step.timed, 0.0), align(step.timed, ops)
    events = _events_of(primitives, found)
    row_of = {
        event: rows.of_described[matches[event]]
        for event in np.flatnonzero(found.is_op).tolist()
        if matches[event] != NO_MATCH
    }
    seen = [
        Seen(row_of[event], event, Key.of(primitive), float(primitive.duration_ns))
        for primitive, event in zip(primitives, events, strict=True)
        if row_of.get(event, -1) >= 0
    ]
    return parts_of_rows(seen, row_of, found.self_ns), len(events) - len(seen)


def _events_of(primitives: Sequence[PrimitiveSeen], found: Account) -> list[int]:
    """The event whose own segment holds the middle of each primitive, or -1."""
    cut = found.cut
    middles = np.array([p.start_ns + p.duration_ns // 2 for p in primitives], np.int64)
    at = np.searchsorted(cut.start_ns, middles, side="right") - 1
    inside = (at >= 0) & (middles < cut.end_ns[np.maximum(at, 0)])
    events: list[int] = np.where(inside, cut.owner[np.maximum(at, 0)], -1).tolist()
    return events


def parts_of_rows(
    seen: Sequence[Seen], row_of: Mapping[int, int], self_ns: Ints
) -> dict[int, Below]:
    """The parts of primitives in their ops' time, less what writing their lines cost."""
    line_ns = telling_ns(seen, self_ns)
    op_ns: Counter[int] = Counter()
    for event, row in row_of.items():
        op_ns[row] += int(self_ns[event])
    op_calls = Counter(row_of.values())
    by_row: dict[int, dict[Key, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row, _, key, ns in seen:
        by_row[row][key].append(ns)
    parts: dict[int, Below] = {}
    for row, by_key in by_row.items():
        lines = sum(map(len, by_key.values()))
        inside_ns = sum(map(sum, by_key.values()))
        whole_ns = max(inside_ns, op_ns[row] - lines * line_ns) or 1.0
        parts[row] = {}
        for key, all_ns in by_key.items():
            ns = sum(all_ns)
            each_ns = ns / op_calls[row]
            parts[row][key] = Part(ns / whole_ns, float(len(all_ns)), each_ns, each_ns)
    return parts


def telling_ns(seen: Sequence[Seen], self_ns: Ints) -> float:
    """What writing one line costs its op: an op's time less its primitive's, where it has one. The
    lower quartile, as ops do a little more than calling a library."""
    lines: dict[int, list[float]] = defaultdict(list)
    for primitive in seen:
        lines[primitive.event].append(primitive.ns)
    more = sorted(max(0.0, self_ns[event] - ns[0]) for event, ns in lines.items() if len(ns) == 1)
    return float(more[len(more) // 4]) if more else 0.0


def _over_steps(steps: Sequence[dict[int, Below]]) -> dict[int, Below]:
    """Medians over the steps that have a row; all shares of an op are at most all of it."""
    found: dict[int, Below] = {}
    for row in dict.fromkeys(row for step in steps for row in step):
        seen_in = [step[row] for step in steps if row in step]
        below = {key: _middle(key, seen_in) for key in dict.fromkeys(k for b in seen_in for k in b)}
        below = {key: part for key, part in below.items() if part.calls > 0}
        if below:
            found[row] = _scaled(below, 1 / max(1.0, _total(below)))
    return found


def _middle(key: Key, steps: Sequence[Below]) -> Part:
    nothing = Part(0.0, 0.0)
    clock = [step[key].middle_ns for step in steps if key in step]
    share, calls = (median(step.get(key, nothing)[i] for step in steps) for i in (0, 1))
    return Part(float(share), float(calls), min(clock), float(median(clock)))


def no_shorter(below: Below, calls: float, time_s: float) -> Below:
    """Shares of an op's time that give no primitive less than the library's clock says.

    In the steps that show primitives an op also writes lines, and what that costs is an estimate:
    for short ops it may take a part of the primitive with it. Where all together would have more
    than the op, those give way that varied (a copy into fresh memory), down to their least.

    >>> product, copy = Key("convolution", "jit", "", "", ""), Key("reorder", "jit", "", "", "")
    >>> seen = {product: Part(0.6, 1.0, 75.0, 75.0), copy: Part(0.3, 1.0, 10.0, 50.0)}
    >>> no_shorter(seen, 1.0, 1e-7)[product].share
    0.75
    """
    if time_s <= 0:
        return below
    unit = calls / (time_s * 1e9)
    most = {key: max(part.share, part.middle_ns * unit) for key, part in below.items()}
    floor = {key: min(part.least_ns * unit, most[key]) for key, part in below.items()}
    over, under = sum(most.values()), sum(floor.values())
    if over <= 1.0:
        kept = most
    elif under >= 1.0:
        kept = {key: share / under for key, share in floor.items()}
    else:
        room = (1.0 - under) / (over - under)
        kept = {key: floor[key] + (most[key] - floor[key]) * room for key in below}
    return {key: part._replace(share=kept[key]) for key, part in below.items()}


def _total(below: Below) -> float:
    return sum(part.share for part in below.values())


def _scaled(below: Below, factor: float) -> Below:
    return {key: part._replace(share=part.share * factor) for key, part in below.items()}


# An op's row as rows of its primitives.


def split_line(
    line: Line, below: Below, units: Collection[str], machine: Machine | None, first_id: int
) -> list[Line]:
    """Rows of an op's primitives, and one of its own where it did more than call them.

    Time follows work: primitives do all of it and have all of the time, but for a rest that is
    too long to be chance, which owes no work of its own. Where an op has no row of its own,
    the working primitive that took longest stands for it in the timeline.
    """
    below = {key: part for key, part in below.items() if part.share > LEAST_SHARE}
    if not below:
        return [line]
    rest = max(0.0, 1.0 - _total(below))
    if rest < LEAST_REST:
        below, rest = _scaled(below, 1 / _total(below)), 0.0
    amounts = [n for n in line if "/" in n and not n.startswith("origin.")]
    amounts += [n for n in ("contraction_flops", "padding_flops", "fault") if n in line]
    working = [key for key in below if key.kind not in MOVERS] or list(below)
    made = {key: _row(line, key, below[key], first_id + at) for at, key in enumerate(below)}
    for key in below:
        if key not in working:
            made[key] |= _moved(key, below[key].calls, amounts, units, machine)
    calls = [below[key].calls for key in working]
    owed = {name: line[name] for name in amounts}
    for name, parts in parts_of(owed, [key.cost for key in working], calls, units).items():
        for key, part in zip(working, parts, strict=True):
            made[key][name] = part
    if rest:
        # All that the op must move, its primitives move: the rest owes nothing more.
        own = line | _timed(line, rest) | {n: 0.0 for n in amounts if line[n] is not None}
        return [own, *made.values()]
    return _without_op(list(made.values()), [made[key] for key in working], line)


def _row(line: Line, key: Key, part: Part, number: int) -> Line:
    own = {
        "id": number,
        "kind": "primitive",
        "name": key.name,
        "shape": input_shape(key.call) if key.problem else line["shape"],
        "parent": line["id"],
        "calls": part.calls,
        "launches": 0.0,
        "label.formats": key.formats or None,
        "label.problem": key.problem or None,
    }
    return line | _timed(line, part.share) | own


def _timed(line: Line, share: float) -> Line:
    return {
        "time_s": line["time_s"] * share,
        "timed_s": line["timed_s"] * share,
        "samples": [s * share for s in line["samples"]],
        "origin.time": "modelled",
    }


def _without_op(made: list[Line], working: list[Line], line: Line) -> list[Line]:
    """Primitives in place of their op: its launches and its id go to the longest that works."""
    for row in made:
        row["parent"] = None
    longest = max(working, key=lambda row: float(row["time_s"]))
    longest |= {"id": line["id"], "launches": line["launches"]}
    if len(made) == 1:
        longest |= {"calls": line["calls"], "origin.time": line["origin.time"]}
    return made


# What a primitive's own line tells apart; bytes and page faults follow all of its FLOPs.
_TOLD = ("flop/", "contraction_flops", "padding_flops")


def parts_of(
    amounts: Mapping[str, float | None], costs: Sequence[Cost], calls: Sequence[float],
    units: Collection[str],
) -> dict[str, list[float | None]]:  # fmt: skip
    """Per amount of an op, the part of each primitive that works. A sum for a bias is vector work
    of the primitive that does it, and takes nothing of the products: both gradients of a
    convolution have as many, in their format."""
    told = [amounts_of(cost, units) for cost in costs]
    flops = [(cost.flops or 0.0) * n for cost, n in zip(costs, calls, strict=True)]
    # Calls that tell no sizes are held to be alike.
    usual = _shares(flops) or _shares(calls) or [1.0 / len(costs)] * len(costs)
    found: dict[str, list[float | None]] = {}
    for name, total in amounts.items():
        own = [(t.get(name) or 0.0) * n for t, n in zip(told, calls, strict=True)]
        weights = _shares(own) if name.startswith(_TOLD) else None
        found[name] = whole_parts(total, weights or usual)
    return found


def _shares(values: Sequence[float]) -> list[float] | None:
    total = sum(values)
    return [value / total for value in values] if total > 0 else None


def whole_parts(total: float | None, weights: Sequence[float]) -> list[float | None]:
    """Parts of an amount by weight that sum to it, whole numbers where it is one."""
    if total is None:
        return [None] * len(weights)
    if not float(total).is_integer():
        return [total * weight for weight in weights]
    edges, run = [0.0], 0.0
    for weight in weights:
        run += weight
        edges.append(float(round(total * run)))
    return [after - before for before, after in pairwise(edges)]


def _moved(
    key: Key, calls: float, amounts: list[str], units: Collection[str], machine: Machine | None
) -> Line:
    """A primitive that only moves data: no FLOPs, and at each level what no cache could hold."""
    found: Line = {n: 0.0 for n in amounts if n.startswith((*_TOLD, "fault"))}
    counted = amounts_of(key.cost, units).get(DRAM)
    caches = {"l1": 0, "dram": 0} | (dict(caches_above(machine)) if machine is not None else {})
    for level, cache in caches.items():
        least = None if counted is None else max(0.0, counted - 2 * cache) * calls
        found |= {f"byte/{level}": least} if f"byte/{level}" in amounts else {}
    return found


# oneDNN's lines of a step, as primitives that ran.


def primitives_in(lines: Sequence[bytes]) -> list[PrimitiveSeen]:
    """The executed primitives of lines that have a time stamp.

    >>> line = b"onednn_verbose,v1,1000.5,primitive,exec,cpu,reorder,jit,undef,f,,,2x2,0.25"
    >>> [(seen.words[0], seen.start_ns, seen.duration_ns) for seen in primitives_in([line])]
    [('reorder', 1000500000, 250000)]
    """
    ran = [parse_execution(line.decode("utf-8", "replace").strip()) for line in lines]
    return [
        PrimitiveSeen(each.words, int(each.timestamp_ms * 1e6), int(each.time_ms * 1e6))
        for each in ran
        if each is not None and each.timestamp_ms is not None
    ]
