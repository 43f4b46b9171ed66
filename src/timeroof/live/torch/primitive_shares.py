"""Which share of an op's time each primitive of oneDNN and MKL takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from timeroof.live.accounting import Account, account
from timeroof.live.rows import Rows
from timeroof.live.torch.alignment import NO_MATCH, align
from timeroof.live.torch.mkl_calls import NOBODY, Caller, callers_of
from timeroof.live.torch.recording import Described, Ints, PrimitiveSeen, PrimitiveStep, Recording

MKL = "mkl"
# kind, implementation, propagation, formats, problem; of MKL: "mkl", routine, flags, "", sizes
Key = tuple[str, str, str, str, str]
# Per kind of primitive: its share of the op's time, and its calls a step.
Below = dict[Key, tuple[float, float]]
Shares = dict[int, Below]
# Per kind of primitive: nanoseconds by the library's own clock, per call of the op.
Clocked = dict[Key, float]
# The least of all steps, and the middle one.
Durations = tuple[Clocked, Clocked]
# A primitive of a step: its row, the event of its op, what it is, nanoseconds.
Seen = tuple[int, int, Key, float]


def shares_of(
    recording: Recording, rows: Rows, ops: list[Described], contracting: dict[int, float | None]
) -> tuple[Shares, dict[int, Durations], int]:
    """Shares per row, durations per row, and how many primitives ran outside any op.

    The libraries' durations are held against their ops' time in the same step: another step
    may have been disturbed by other programs. Medians over the steps.
    """
    steps = [_of_step(seen, rows, ops, contracting) for seen in recording.primitive_steps]
    found: Shares = {}
    clocked: dict[int, Durations] = {}
    for row in dict.fromkeys(row for step in steps for row in step.shares):
        seen_in = [step.shares[row] for step in steps if row in step.shares]
        times = [step.each_ns[row] for step in steps if row in step.each_ns]
        by_key: dict[Key, list[float]] = defaultdict(list)
        for key, ns in (item for clock in times for item in clock.items()):
            by_key[key].append(ns)
        clocked[row] = (
            {key: min(all_ns) for key, all_ns in by_key.items()},
            {key: float(median(all_ns)) for key, all_ns in by_key.items()},
        )
        kinds = dict.fromkeys(key for below in seen_in for key in below)
        below = {key: (_median(key, 0, seen_in), _median(key, 1, seen_in)) for key in kinds}
        found[row] = _at_most_all({key: value for key, value in below.items() if value[1] > 0})
    outside = max((step.outside for step in steps), default=0)
    return {row: below for row, below in found.items() if below}, clocked, outside


def no_shorter(below: Below, clocked: Durations, calls: float, time_s: float) -> Below:
    """Shares of an op's time that give no primitive less than the library's clock says.

    In the steps that show primitives an op also writes lines, and what that costs is an estimate:
    for short ops it may take a part of the primitive with it. Where all together would have more
    than the op, those give way that varied (a copy into fresh memory), down to their least.

    >>> key, copy = ("convolution", "jit", "", "", ""), ("reorder", "jit", "", "", "")
    >>> seen = {key: (0.6, 1.0), copy: (0.3, 1.0)}
    >>> no_shorter(seen, ({key: 75.0, copy: 10.0}, {key: 75.0, copy: 50.0}), 1.0, 1e-7)[key]
    (0.75, 1.0)
    """
    if time_s <= 0:
        return below
    unit = calls / (time_s * 1e9)
    least, middle = ({key: ns * unit for key, ns in clock.items()} for clock in clocked)
    most = {key: max(share, middle.get(key, 0.0)) for key, (share, _) in below.items()}
    floor = {key: min(least.get(key, 0.0), most[key]) for key in below}
    over, under = sum(most.values()), sum(floor.values())
    if over <= 1.0:
        kept = most
    elif under >= 1.0:
        kept = {key: share / under for key, share in floor.items()}
    else:
        part = (1.0 - under) / (over - under)
        kept = {key: floor[key] + (most[key] - floor[key]) * part for key in below}
    return {key: (kept[key], count) for key, (_, count) in below.items()}


@dataclass(frozen=True)
class _Step:
    shares: Shares
    each_ns: dict[int, Clocked]
    outside: int


def _median(key: Key, place: int, steps: list[Below]) -> float:
    return float(median([step.get(key, (0.0, 0.0))[place] for step in steps]))


def _at_most_all(below: Below) -> Below:
    total = max(1.0, sum(share for share, _ in below.values()))
    return {key: (share / total, calls) for key, (share, calls) in below.items()}


def _of_step(
    step: PrimitiveStep, rows: Rows, ops: list[Described], contracting: dict[int, float | None]
) -> _Step:
    """Shares, calls and durations per row and primitive in one step."""
    found = account(step.timed, 0.0)
    matches = align(step.timed, ops)
    row_of = {
        e: rows.of_described[matches[e]] for e in np.flatnonzero(found.is_op).tolist()
        if matches[e] != NO_MATCH
    }  # fmt: skip
    seen, outside = _onednn(step, found, matches, rows)
    more, nobody = _mkl(step, found, matches, row_of, ops, contracting, {row for row, *_ in seen})
    seen += more
    op_ns: dict[int, float] = defaultdict(float)
    ops_of: dict[int, int] = defaultdict(int)
    for event, row in row_of.items():
        op_ns[row] += float(found.self_ns[event])
        ops_of[row] += 1
    each_ns: dict[int, Clocked] = defaultdict(lambda: defaultdict(float))
    for row, _, key, ns in seen:
        each_ns[row][key] += ns / max(ops_of[row], 1)
    shares = _shares(seen, op_ns, telling_ns(seen, found.self_ns))
    return _Step(shares, each_ns, outside + nobody)


def telling_ns(seen: Sequence[Seen], self_ns: Any) -> float:
    """What writing one line costs its op: an op's time less its primitive's, where it has one.

    The lower quartile, as ops do a little more than calling a library.
    """
    lines: dict[int, list[float]] = defaultdict(list)
    for _, event, _, ns in seen:
        lines[event].append(ns)
    more = sorted(
        max(0.0, float(self_ns[event]) - ns[0]) for event, ns in lines.items() if len(ns) == 1
    )
    return more[len(more) // 4] if more else 0.0


def _shares(seen: Sequence[Seen], op_ns: dict[int, float], line_ns: float) -> Shares:
    sums: dict[int, Below] = defaultdict(dict)
    for row, _, key, ns in seen:
        before, calls = sums[row].get(key, (0.0, 0.0))
        sums[row][key] = (before + ns, calls + 1)
    found: Shares = {}
    for row, below in sums.items():
        inside = sum(ns for ns, _ in below.values())
        lines = sum(calls for _, calls in below.values())
        whole = max(inside, op_ns.get(row, 0.0) - lines * line_ns) or 1.0
        found[row] = {key: (ns / whole, calls) for key, (ns, calls) in below.items()}
    return found


def _onednn(
    step: PrimitiveStep, found: Account, matches: Ints, rows: Rows
) -> tuple[list[Seen], int]:
    """oneDNN's primitives, which say when they ran; how many belong to no op."""
    cut = found.cut
    events = _innermost(cut.start_ns, cut.end_ns, cut.owner, step.primitives)
    seen: list[Seen] = []
    for primitive, event in zip(step.primitives, events, strict=True):
        row = rows.of_described[matches[event]] if event >= 0 and matches[event] >= 0 else -1
        if row >= 0:
            seen.append((row, event, _key(primitive), float(primitive.duration_ns)))
    return seen, len(step.primitives) - len(seen)


def _mkl(
    step: PrimitiveStep, found: Account, matches: Ints, row_of: dict[int, int],
    ops: list[Described], contracting: dict[int, float | None], taken: set[int],
) -> tuple[list[Seen], int]:  # fmt: skip
    """MKL's calls, which are matched by order; how many belong to no op."""
    if not step.mkl:
        return [], 0
    ends_ns = step.timed.end_ns
    callers = [
        Caller(
            e, float(found.self_ns[e]), ops[matches[e]], contracting[row], int(ends_ns[e])
        )
        for e, row in row_of.items() if row in contracting and row not in taken
    ]  # fmt: skip
    events = callers_of(step.mkl, callers)
    seen: list[Seen] = []
    for call, event in zip(step.mkl, events, strict=True):
        if event != NOBODY:
            key = (MKL, call.routine, call.flags, "", "x".join(map(str, call.sizes)))
            seen.append((row_of[event], event, key, float(call.duration_ns)))
    return seen, len(step.mkl) - len(seen)


def _innermost(start: Any, end: Any, owner: Any, primitives: Sequence[PrimitiveSeen]) -> list[int]:
    """The event whose own segment holds the middle of each primitive."""
    middles = np.array([p.start_ns + p.duration_ns // 2 for p in primitives], np.int64)
    at = np.searchsorted(start, middles, side="right") - 1
    inside = (at >= 0) & (middles < end[np.maximum(at, 0)])
    return np.where(inside, owner[np.maximum(at, 0)], -1).tolist()  # type: ignore[no-any-return]


def _key(primitive: PrimitiveSeen) -> Key:
    words = (*primitive.words, *[""] * 7)
    return words[0], words[1], words[2], words[3], primitive.words[-1]
