"""Primitives of oneDNN and MKL as rows below their ops: an op's time is split, never doubled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import polars as pl

from timeroof.core.machine import Machine
from timeroof.core.resources import DRAM
from timeroof.live.rows import Rows
from timeroof.live.torch.mkl_calls import mkl_cost
from timeroof.live.torch.primitive_shares import MKL, Below, Key, no_shorter, shares_of
from timeroof.live.torch.recording import Described, Recording
from timeroof.read.onednn import MOVERS
from timeroof.work import Cost, count
from timeroof.work.cost import amounts as amounts_of
from timeroof.work.cost import unknown
from timeroof.work.onednn import call_from_onednn

# Which part of an op's work each of its primitives does: every amount by the same of theirs.


# What a primitive's own line tells apart; bytes and page faults follow all of its FLOPs.
_TOLD = ("flop/", "contraction_flops", "padding_flops")


def parts_of(
    amounts: Mapping[str, float | None],
    costs: Sequence[Cost],
    calls: Sequence[float],
    units: Collection[str],
) -> dict[str, list[float | None]]:
    """Per amount of an op, the part of each primitive.

    A sum for a bias is vector work of the primitive that does it, and takes nothing of the
    products: both gradients of a convolution have as many, in their format.

    >>> product, sums = Cost(contraction={"bf16": 9.0}), Cost(contraction={"bf16": 9.0},
    ...     other={"fp32": 4.0})
    >>> parts_of({"flop/bf16": 18.0, "flop/fp32": 4.0}, [product, sums], [1.0, 1.0], ())
    {'flop/bf16': [9.0, 9.0], 'flop/fp32': [0.0, 4.0]}
    """
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
    """Parts of an amount by weight that sum to it, whole numbers where it is one.

    >>> whole_parts(10.0, [1 / 3, 2 / 3]), whole_parts(None, [1.0])
    ([3.0, 7.0], [None])
    """
    if total is None:
        return [None] * len(weights)
    if not float(total).is_integer():
        return [total * weight for weight in weights]
    edges, run = [0.0], 0.0
    for weight in weights:
        run += weight
        edges.append(float(round(total * run)))
    return [after - before for before, after in pairwise(edges)]


# By how much the products of MKL's calls may differ from their op's.
MISMATCH = 0.02
# A smaller rest of an op beside its primitives is within what two clocks differ by.
LEAST_REST = 0.2
# No clock sees a smaller share of an op.
LEAST_SHARE = 1e-6


def split_primitives(
    table: pl.DataFrame,
    recording: Recording,
    rows: Rows,
    ops: Sequence[Described],
    units: Collection[str],
    machine: Machine | None,
) -> tuple[pl.DataFrame, list[str]]:
    """The table with primitives split off their ops' time, and notes."""
    if not recording.primitive_steps or not ops:
        return table, []
    shares, clocked, outside = shares_of(recording, rows, list(ops), _contracting(table))
    if not shares:
        return table, []
    lines: list[dict[str, Any]] = []
    next_id = len(rows.keys)
    for line in table.iter_rows(named=True):
        below = shares.get(line["id"])
        if below is None or not line["time_s"] or not _adds_up(line, below):
            lines.append(line)
            continue
        below = no_shorter(below, clocked[line["id"]], line["calls"], line["time_s"])
        lines += split_line(line, below, units, machine, next_id)
        next_id += len(below)
    notes = [f"{outside} primitives ran outside any op that was seen"] if outside else []
    return pl.DataFrame(lines, infer_schema_length=None), notes


def _adds_up(line: dict[str, Any], below: Below) -> bool:
    """Whether MKL's calls, which are only matched by order, do the products of their op."""
    if not any(key[0] == MKL for key in below):
        return True
    own = line.get("contraction_flops")
    done = [_cost(key).contraction_flops for key in below if key[0] == MKL]
    if own is None or any(flops is None for flops in done):
        return True
    calls = [count for key, (_, count) in below.items() if key[0] == MKL]
    total = sum((flops or 0.0) * count for flops, count in zip(done, calls, strict=True))
    return bool(abs(total - own) <= MISMATCH * own)


def _contracting(table: pl.DataFrame) -> dict[int, float | None]:
    """Rows that may call MKL (products, what factorises or transforms), and products per call."""
    named = pl.col("name").str.contains("linalg|fft|cholesky|solve|svd|triangular|lu_")
    if "contraction_flops" not in table.columns:
        table = table.with_columns(pl.lit(None, pl.Float64).alias("contraction_flops"))
    works = pl.col("contraction_flops").fill_null(0.0) > 0
    each = pl.when(works).then(pl.col("contraction_flops") / pl.col("calls"))
    return dict(table.filter(named | works).select("id", each.alias("each")).iter_rows())


def split_line(
    line: dict[str, Any],
    below: Below,
    units: Collection[str],
    machine: Machine | None,
    first_id: int,
) -> list[dict[str, Any]]:
    """An op's row as rows of its primitives, and one of its own where it did more than call them.

    Time follows work: primitives that do all of it have all of the time, but for a rest that is
    too long to be chance, which owes no work of its own. Where an op has no row of its own,
    the working primitive that took longest stands for it in the timeline.
    """
    below = {key: seen for key, seen in below.items() if seen[0] > LEAST_SHARE}
    if not below:
        return [line]
    costs = {key: _cost(key) for key in below}
    working = [k for k in below if k[0] not in MOVERS] or list(below)
    does_all = _does_all(working, below, line)
    rest = max(0.0, 1.0 - sum(share for share, _ in below.values()))
    if rest < LEAST_REST or (does_all and all(k[0] == MKL for k in working)):
        below = _whole_time(below)
        rest = 0.0
    amounts = [n for n in line if "/" in n and not n.startswith("origin.")]
    amounts += [n for n in ("contraction_flops", "padding_flops", "fault") if n in line]
    made = [_row(line, key, *below[key], first_id + place) for place, key in enumerate(below)]
    _give(made, line, amounts, costs, below, working, units)
    for row, key in zip(made, below, strict=True):
        if key not in working:
            row.update(_moved(costs[key], below[key][1], amounts, units, machine))
    if not rest:
        stands = [row for row, key in zip(made, below, strict=True) if key in working]
        return _without_op(made, stands, line)
    own = line | _timed(line, rest)
    if does_all:
        # All that the op must move, its primitives move: the rest owes nothing more.
        own |= {n: 0.0 for n in amounts if line[n] is not None}
    else:
        _keep_the_rest(own, made, line, amounts)
    return [own, *made]


def _whole_time(below: Below) -> Below:
    """Shares that sum to one."""
    total = sum(share for share, _ in below.values())
    return {key: (share / total, calls) for key, (share, calls) in below.items()}


def _without_op(
    made: list[dict[str, Any]], working: list[dict[str, Any]], line: dict[str, Any]
) -> list[dict[str, Any]]:
    """Primitives in place of their op: its launches and its id go to the longest that works."""
    for row in made:
        row["parent"] = None
    longest = max(working, key=lambda row: float(row["time_s"]))
    longest |= {"id": line["id"], "launches": line["launches"]}
    if len(made) == 1:
        longest |= {"calls": line["calls"], "origin.time": line["origin.time"]}
    return made


def _does_all(working: list[Key], below: Below, line: dict[str, Any]) -> bool:
    """Whether primitives do all of an op's work: oneDNN's always, MKL's where it is one call."""
    return any(k[0] != MKL for k in working) or sum(below[k][1] for k in working) <= line["calls"]


def _give(
    made: list[dict[str, Any]], line: dict[str, Any], amounts: list[str], costs: dict[Key, Cost],
    below: Below, working: list[Key], units: Collection[str],
) -> None:  # fmt: skip
    """The op's amounts to its primitives that work; what only moves data has none of them."""
    rows = dict(zip(below, made, strict=True))
    owed = {name: line[name] for name in amounts}
    for row in made:
        row |= {name: None if total is None else 0.0 for name, total in owed.items()}
    calls = [below[key][1] for key in working]
    parts = parts_of(owed, [costs[key] for key in working], calls, units)
    for name, given in parts.items():
        for key, part in zip(working, given, strict=True):
            rows[key][name] = part


def _keep_the_rest(
    own: dict[str, Any], made: list[dict[str, Any]], line: dict[str, Any], amounts: list[str]
) -> None:
    """Many products inside an op (attention): they have its products, it keeps all the rest."""
    flops = [n for n in amounts if n.startswith("flop/") and line[n]]
    products = line.get("contraction_flops")
    for row in made:
        part = row.get("contraction_flops")
        row |= {n: 0.0 for n in amounts if line[n] is not None}
        if flops and products:
            row[flops[0]] = row["contraction_flops"] = part
    if flops and products:
        own[flops[0]] = max(0.0, line[flops[0]] - products)
        own["contraction_flops"] = 0.0


def _timed(line: dict[str, Any], share: float) -> dict[str, Any]:
    """A share of an op's time: the op's is measured, how it divides is the libraries' word."""
    return {
        "time_s": line["time_s"] * share,
        "timed_s": line["timed_s"] * share,
        "samples": [s * share for s in line["samples"]],
        "origin.time": "modelled",
    }


def _row(line: dict[str, Any], key: Key, share: float, calls: float, number: int) -> dict[str, Any]:
    kind, implementation, propagation, formats, problem = key
    name = f"onednn::{kind} {implementation} {propagation}".removesuffix(" undef")
    if kind == MKL:
        name = f"mkl::{implementation} {propagation}".strip()
    return (
        line
        | _timed(line, share)
        | {
            "id": number,
            "kind": "primitive",
            "name": name,
            "op": line["op"],
            "shape": problem or line["shape"],
            "parent": line["id"],
            "calls": calls,
            "launches": 0.0,
            "label.formats": formats or None,
        }
    )


def _cost(key: Key) -> Cost:
    kind, routine, propagation, formats, problem = key
    if kind == MKL:
        sizes = [int(w) for w in problem.split("x") if w]
        return mkl_cost(routine, sizes) or unknown("sizes are not in the line")
    return count(call_from_onednn(kind, propagation, formats, problem))


def _moved(
    cost: Cost, calls: float, amounts: list[str], units: Collection[str], machine: Machine | None
) -> dict[str, float | None]:
    """A primitive that only moves data: no FLOPs, and at each level what no cache could hold."""
    none = ("flop/", "contraction_flops", "padding_flops")
    found: dict[str, float | None] = {n: 0.0 for n in amounts if n.startswith(none)}
    counted = amounts_of(cost, units).get(DRAM)
    caches = {"l1": 0, "l2": _size(machine, "l1"), "l3": _size(machine, "l2")}
    caches["dram"] = (machine.largest_cache_bytes or 0) if machine is not None else 0
    for level, cache in caches.items():
        if f"byte/{level}" in amounts:
            least = None if counted is None else max(0.0, counted - 2 * cache) * calls
            found[f"byte/{level}"] = least
    return found


def _size(machine: Machine | None, level: str) -> int:
    return (machine.memory_size(level) or 0) if machine is not None else 0
