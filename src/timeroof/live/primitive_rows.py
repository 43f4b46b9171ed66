"""Primitives of oneDNN and MKL as rows below their ops: an op's time is split, never doubled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from statistics import median
from typing import Any

import numpy as np
import polars as pl

from timeroof.core.machine import Machine
from timeroof.core.resources import DRAM
from timeroof.live.accounting import Account, account
from timeroof.live.mkl_calls import NOBODY, Caller, callers_of, mkl_cost
from timeroof.live.rows import Rows
from timeroof.sources.live.torch_run.alignment import NO_MATCH, align
from timeroof.sources.live.torch_run.recording import (
    Described,
    Ints,
    PrimitiveSeen,
    PrimitiveStep,
    Recording,
)
from timeroof.work import Cost, count
from timeroof.work import amounts as amounts_of
from timeroof.work.cost import unknown
from timeroof.work.onednn import call_from_onednn

MOVERS = ("reorder", "concat", "shuffle", "zero_pad")
MKL = "mkl"
# By how much the products of MKL's calls may differ from their op's.
MISMATCH = 0.02
# kind, implementation, propagation, formats, problem; of MKL: "mkl", routine, flags, "", sizes
Key = tuple[str, str, str, str, str]


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
    shares, outside = _shares(recording, rows, list(ops), _contracting(table))
    if not shares:
        return table, []
    lines: list[dict[str, Any]] = []
    next_id = len(rows.keys)
    for line in table.iter_rows(named=True):
        spent = shares.get(line["id"])
        if spent is None or not _adds_up(line, spent):
            lines.append(line)
            continue
        below = _of_the_op(spent, line["time_s"])
        made = _split(line, below, units, machine, next_id)
        next_id += len(made) - 1
        lines += made
    notes = [f"{outside} primitives ran outside any op that was seen"] if outside else []
    return pl.DataFrame(lines, infer_schema_length=None), notes


def _of_the_op(
    spent: dict[Key, tuple[float, float]], time_s: float
) -> dict[Key, tuple[float, float]]:
    """Shares of the op's time, and calls. The libraries time their own work, so that the cost of
    telling about it is not in these seconds; together they never exceed the op's."""
    total_s = max(time_s, sum(ns for ns, _ in spent.values()) * 1e-9) or 1.0
    return {key: (ns * 1e-9 / total_s, calls) for key, (ns, calls) in spent.items()}


def _adds_up(line: dict[str, Any], below: dict[Key, tuple[float, float]]) -> bool:
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


Spent = dict[int, dict[Key, tuple[float, float]]]


def _shares(
    recording: Recording, rows: Rows, ops: list[Described], contracting: dict[int, float | None]
) -> tuple[Spent, int]:
    """Per row and kind of primitive: its nanoseconds and its calls a step.

    Medians over the steps, as one step may have been disturbed.
    """
    steps = [_spent(seen, rows, ops, contracting) for seen in recording.primitive_steps]
    found: Spent = {}
    for row in dict.fromkeys(row for spent, _ in steps for row in spent):
        kinds = dict.fromkeys(key for spent, _ in steps for key in spent.get(row, {}))
        seen_in = [spent[row] for spent, _ in steps if row in spent]
        medians = {key: (_median(key, 0, seen_in), _median(key, 1, seen_in)) for key in kinds}
        found[row] = medians
    return found, max((outside for _, outside in steps), default=0)


def _median(key: Key, place: int, steps: list[dict[Key, tuple[float, float]]]) -> float:
    return float(median([step.get(key, (0.0, 0.0))[place] for step in steps]))


def _spent(
    seen: PrimitiveStep, rows: Rows, ops: list[Described], contracting: dict[int, float | None]
) -> tuple[Spent, int]:
    """Nanoseconds and calls per row and primitive in one step."""
    found = account(seen.timed, 0.0)
    matches = align(seen.timed, ops)
    cut = found.cut
    sums: dict[int, dict[Key, tuple[float, float]]] = defaultdict(dict)
    outside = 0
    events = _innermost(cut.start_ns, cut.end_ns, cut.owner, seen.primitives)
    for primitive, event in zip(seen.primitives, events, strict=True):
        row = rows.of_described[matches[event]] if event >= 0 and matches[event] >= 0 else -1
        if row < 0:
            outside += 1
            continue
        ns, calls = sums[row].get(_key(primitive), (0.0, 0.0))
        sums[row][_key(primitive)] = (ns + primitive.duration_ns, calls + 1)
    outside += _add_mkl(seen, found, matches, rows, ops, contracting, sums)
    return sums, outside


def _add_mkl(
    seen: PrimitiveStep, found: Account, matches: Ints, rows: Rows, ops: list[Described],
    contracting: dict[int, float | None], sums: Spent,
) -> int:  # fmt: skip
    """Add MKL's calls to the sums; how many belong to no op."""
    if not seen.mkl:
        return 0
    row_of = {
        e: rows.of_described[matches[e]] for e in np.flatnonzero(found.is_op).tolist()
        if matches[e] != NO_MATCH
    }  # fmt: skip
    callers = [
        Caller(e, float(found.self_ns[e]), ops[matches[e]], contracting[row])
        for e, row in row_of.items() if row in contracting and row not in sums
    ]  # fmt: skip
    events = callers_of(seen.mkl, callers)
    for call, event in zip(seen.mkl, events, strict=True):
        if event != NOBODY:
            key = (MKL, call.routine, call.flags, "", "x".join(map(str, call.sizes)))
            below = sums.setdefault(row_of[event], {})
            ns, calls = below.get(key, (0.0, 0.0))
            below[key] = (ns + call.duration_ns, calls + 1)
    return sum(event == NOBODY for event in events)


def _innermost(start: Any, end: Any, owner: Any, primitives: Sequence[PrimitiveSeen]) -> list[int]:
    """The event whose own segment holds the middle of each primitive."""
    middles = np.array([p.start_ns + p.duration_ns // 2 for p in primitives], np.int64)
    at = np.searchsorted(start, middles, side="right") - 1
    inside = (at >= 0) & (middles < end[np.maximum(at, 0)])
    return np.where(inside, owner[np.maximum(at, 0)], -1).tolist()  # type: ignore[no-any-return]


def _key(primitive: PrimitiveSeen) -> Key:
    words = (*primitive.words, *[""] * 7)
    return words[0], words[1], words[2], words[3], primitive.words[-1]


def _split(
    line: dict[str, Any],
    below: dict[Key, tuple[float, float]],
    units: Collection[str],
    machine: Machine | None,
    first_id: int,
) -> list[dict[str, Any]]:
    """An op's row and its primitives' rows; work goes to the primitives that compute."""
    costs = {key: _cost(key) for key in below}
    working = [k for k in below if k[0] not in MOVERS]
    weights = _weights(working, costs, below)
    amounts = [n for n in line if "/" in n and not n.startswith("origin.")]
    amounts += [n for n in ("contraction_flops", "padding_flops", "fault") if n in line]
    made = [dict(line)]
    made[0]["time_s"] *= max(0.0, 1.0 - sum(share for share, _ in below.values()))
    made[0]["samples"] = [s * made[0]["time_s"] / line["time_s"] if line["time_s"] else 0.0
                          for s in line["samples"]]  # fmt: skip
    for number, (key, (share, calls)) in enumerate(below.items()):
        row = _row(line, key, share, calls, first_id + number)
        for name in amounts:
            row[name] = None if line[name] is None else line[name] * weights.get(key, 0.0)
        if key[0] in MOVERS:
            row |= _moved(costs[key], calls, amounts, units, machine)
        made.append(row)
    if working and _does_all(working, costs, below, line):
        made[0] |= {n: 0.0 for n in amounts if n != "fault" and line[n] is not None}
    elif working:
        _keep_the_rest(made, line, weights, amounts)
    return made


def _does_all(
    working: list[Key], costs: dict[Key, Cost], below: dict[Key, tuple[float, float]],
    line: dict[str, Any],
) -> bool:  # fmt: skip
    """Whether primitives do all of an op's work: oneDNN's always, MKL's where it is one call."""
    return any(k[0] != MKL for k in working) or sum(below[k][1] for k in working) <= line["calls"]


def _keep_the_rest(
    made: list[dict[str, Any]], line: dict[str, Any], weights: dict[Key, float], amounts: list[str]
) -> None:
    """Many products inside an op (attention): they have its products, it keeps all the rest."""
    flops = [n for n in amounts if n.startswith("flop/") and line[n]]
    products = line.get("contraction_flops")
    for row, weight in zip(made[1:], weights.values(), strict=True):
        row |= {n: 0.0 for n in amounts if line[n] is not None}
        if flops and products:
            row[flops[0]] = row["contraction_flops"] = products * weight
    if flops and products:
        made[0][flops[0]] = max(0.0, line[flops[0]] - products)
        made[0]["contraction_flops"] = 0.0


def _weights(
    working: list[Key], costs: dict[Key, Cost], below: dict[Key, tuple[float, float]]
) -> dict[Key, float]:
    flops = {k: (costs[k].flops or 0.0) * below[k][1] for k in working}
    total = sum(flops.values())
    if total <= 0:
        return {k: 1.0 / len(working) for k in working}
    return {k: f / total for k, f in flops.items()}


def _row(line: dict[str, Any], key: Key, share: float, calls: float, number: int) -> dict[str, Any]:
    kind, implementation, propagation, formats, problem = key
    name = f"onednn::{kind} {implementation} {propagation}".removesuffix(" undef")
    if kind == MKL:
        name = f"mkl::{implementation} {propagation}".strip()
    return line | {
        "id": number,
        "kind": "primitive",
        "name": name,
        "op": line["op"],
        "shape": problem or line["shape"],
        "parent": line["id"],
        "calls": calls,
        "launches": 0.0,
        "time_s": line["time_s"] * share,
        "samples": [s * share for s in line["samples"]],
        "label.formats": formats or None,
    }


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
