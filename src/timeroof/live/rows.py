"""The table of ops: one row per op, shapes, module and phase, with time and amounts of a step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl

from timeroof.core.columns import DataType
from timeroof.core.machine import DRAM, Machine
from timeroof.core.profile import TIMELINE_COLUMNS
from timeroof.core.shapes import SHAPE, Shape
from timeroof.core.vocabulary import IdleCause
from timeroof.live.accounting import GAP, Account, Floats
from timeroof.live.calls import Counted, dtype_of
from timeroof.live.costing import stated
from timeroof.live.frameworks import Context
from timeroof.live.memory import Traffic
from timeroof.live.recording import (
    NO_MATCH,
    OP_SCOPE,
    USER_SCOPE,
    CompiledKernel,
    Described,
    Ints,
    align,
    align_recurring,
    contexts_of,
)
from timeroof.model.stats import spread
from timeroof.work.call import input_shape
from timeroof.work.cost import Cost, amounts as amounts_of
from timeroof.work.counting import as_cost
from timeroof.work.families.collectives import is_collective


class RowKey(NamedTuple):
    """What is one row: ops that agree in all of this."""

    name: str
    shape: Shape | None
    dtype: str | None
    module: str | None
    phase: str
    thread: int
    source: str | None = None


@dataclass
class Rows:
    """Rows by key, and which op is in which."""

    keys: list[RowKey] = field(default_factory=list)
    of_described: list[int] = field(default_factory=list)
    stated: dict[int, Cost] = field(default_factory=dict)
    # The program's ops in a compiled kernel.
    fused: dict[int, str] = field(default_factory=dict)
    with_lines: bool = False
    # The steps are stretches of a loop that begin and end anywhere.
    is_recurring: bool = False
    unmatched: int = 0
    events: int = 0
    _places: dict[RowKey, int] = field(default_factory=dict)

    def place(self, key: RowKey) -> int:
        """The row of a key, new or known."""
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = len(self.keys)
            self.keys.append(key)
        return found


@dataclass(frozen=True)
class Timed:
    """Seconds and calls per timed step (lines) and row (columns), and the row of every event.
    `profiled` are the seconds with the profiler's own cost."""

    seconds: Floats
    profiled: Floats
    calls: Floats
    row_of_event: list[Ints]


def phases_of(
    ops: Sequence[Described], found: Sequence[Context], accounts: Sequence[Account]
) -> list[str]:
    """Phases of described ops; where an annotation was open when the step ended (the optimizer's
    step holds our hook), from the timed step, which has it. A module that is seen has ended
    before, so it is inside the optimizer's step, not around it: it is its closure's."""
    phases = [c.phase for c in found]
    for place, timed in _timed_phases(ops, accounts).items():
        is_closure = timed == "optimizer" and found[place].is_firm
        if phases[place] in ("other", "forward") and not is_closure:
            phases[place] = timed
    return phases


def _timed_phases(ops: Sequence[Described], accounts: Sequence[Account]) -> dict[int, str]:
    """Phases that annotations of a timed step tell, by the place of the described op. Of the first
    timed step; what that did not do (an optimizer that does more with every step, as LBFGS) from
    the longest one."""
    seen: dict[int, str | None] = {}
    longest = max(range(len(accounts)), key=lambda i: len(accounts[i].step), default=0)
    for a in [a for i, a in enumerate(accounts) if i in (0, longest)]:
        if len(seen) == len(ops):
            break
        for event, place in enumerate(align(a.step, list(ops)).tolist()):
            if place != NO_MATCH:
                seen.setdefault(place, a.phase[event])
    return {place: phase for place, phase in seen.items() if phase is not None}


def described_rows(
    ops: Sequence[Described], counted: Sequence[Counted], found: Sequence[Context],
    phases: Sequence[str], compiled: Sequence[CompiledKernel] = (), with_lines: bool = False,
) -> Rows:  # fmt: skip
    """A row for every different described op that does work of its own."""
    rows = Rows(with_lines=with_lines)
    for op, c, context, phase in zip(ops, counted, found, phases, strict=True):
        line = context.source if with_lines else None
        key = RowKey(
            op.name, input_shape(c.call), dtype_of(c.call), context.module, phase, op.thread, line
        )
        is_row = op.scope == OP_SCOPE and not c.cost.free
        row = rows.place(key) if is_row else -1
        rows.of_described.append(row)
        if is_row and op.kernel is not None:
            rows.fused[row] = " + ".join(compiled[op.kernel].ops)
    return rows


def timed_rows(rows: Rows, ops: Sequence[Described], accounts: Sequence[Account]) -> Timed:
    """Put the events of all timed steps into rows; new ones for what was not described. The time of
    ops that do no work of their own is noted as the dispatcher's."""
    described = list(ops)
    row_of_event = [_rows_of_events(rows, described, a) for a in accounts]
    shape = (len(accounts), len(rows.keys))
    seconds, profiled, calls = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for line, (a, at) in enumerate(zip(accounts, row_of_event, strict=True)):
        own = (at >= 0) & (a.owner == np.arange(len(at)))
        np.add.at(seconds[line], at[own], a.self_ns[own] / 1e9)
        np.add.at(profiled[line], at[own], a.raw_ns[own] / 1e9)
        np.add.at(calls[line], at[own], 1.0)
        nobody = (at < 0) & (a.is_op > 0)
        a.idle_ns[IdleCause.DISPATCH] += int(a.self_ns[nobody].sum())
    return Timed(seconds, profiled, calls, row_of_event)


def _rows_of_events(rows: Rows, ops: list[Described], a: Account) -> Ints:
    matches = np.full(len(a.step), NO_MATCH)
    if ops:
        aligned = align_recurring if rows.is_recurring else align
        matches = aligned(a.step, ops)
        _match_repeated(rows, ops, a, matches)
    found = np.full(len(a.step), -1, np.int64)
    for event in np.flatnonzero(a.is_op).tolist():
        owner = int(a.owner[event])
        if owner != event:
            found[event] = found[owner]
            continue
        rows.events += 1
        if matches[event] != NO_MATCH:
            found[event] = rows.of_described[matches[event]]
            continue
        found[event] = _new_row(rows, a, event)
    return found


def _match_repeated(rows: Rows, ops: list[Described], a: Account, matches: Ints) -> None:
    """What a timed step did more often than the described one (a loop went round once more) is the
    same, where all described ops between the same neighbours do the same: they differ in their
    phase at most, as that of a step's last ops is known where they were timed."""
    missing = np.flatnonzero(matches == NO_MATCH)
    if not len(missing) or rows.is_recurring:
        return
    known: dict[tuple[str | None, ...], dict[str, int]] = {}
    different: set[tuple[str | None, ...]] = set()
    places = [p for p, op in enumerate(ops) if op.scope != USER_SCOPE]
    for place, (both, *_) in zip(places, contexts_of([ops[p].name for p in places]), strict=True):
        same = known.setdefault(both, {})
        if any(not _does_the_same(rows, other, place) for other in same.values()):
            different.add(both)
        row = rows.of_described[place]
        same.setdefault(rows.keys[row].phase if row >= 0 else "", place)
    for thread in np.unique(a.step.thread[missing]).tolist():
        events = np.flatnonzero((a.step.thread == thread) & (a.step.scope != USER_SCOPE))
        names = [a.step.names[n] for n in a.step.name[events].tolist()]
        for event, (both, *_) in zip(events.tolist(), contexts_of(names), strict=True):
            if matches[event] == NO_MATCH and both in known and both not in different:
                same = known[both]
                matches[event] = same.get(a.phase[event] or "other", next(iter(same.values())))


def _does_the_same(rows: Rows, one: int, other: int) -> bool:
    first, second = rows.of_described[one], rows.of_described[other]
    if first == second or min(first, second) < 0:
        return first == second
    return rows.keys[first]._replace(phase="") == rows.keys[second]._replace(phase="")


def _new_row(rows: Rows, a: Account, event: int) -> int:
    name = a.step.names[a.step.name[event]]
    phase, thread = a.phase[event] or "other", int(a.step.thread[event])
    figures = stated(name)
    if figures is None:
        rows.unmatched += 1
        return rows.place(RowKey(name, None, None, None, phase, thread))
    row = rows.place(RowKey(str(figures["name"]), None, None, None, phase, thread))
    rows.stated[row] = as_cost({k: v for k, v in figures.items() if v is not None and k != "name"})
    return row


# Amounts of rows: what the described ops of each add up to.


Amounts = dict[str, float | None]


def op_amounts(
    counted: Sequence[Counted], found: Traffic | None, units: Collection[str]
) -> list[Amounts]:
    """Amounts of every described op; bytes at each level from the residency model. Compiled kernels
    whose tensors were not seen move what their code says, at every level."""
    listed: list[Amounts] = []
    for place, c in enumerate(counted):
        amount = dict(amounts_of(c.cost, units))
        if found is not None and c.cost.bytes is not None:
            for level, values in found.by_level.items():
                moved = c.cost.bytes if c.without_tensors else float(values[place])
                amount[f"byte/{level}"] = moved
        elif c.cost.bytes is None:
            amount[DRAM] = None
        listed.append(amount)
    return listed


def matrix_units(machine: Machine | None) -> list[str]:
    """The tensor precisions that a machine has."""
    if machine is None:
        return []
    names = {c.resource.removeprefix("flop/") for c in machine.ceilings}
    return sorted(n for n in names if n.endswith("-tensor"))


def launches_of(ops: Sequence[Described], counted: Sequence[Counted]) -> list[int]:
    """Launches of every op: 1 where it does work of its own, at whatever depth. A dozen ops inside
    one call of Python (an LSTM's cells) and a dozen calls count alike; views, and ops that only
    call others, do not count."""
    return [int(_works(op, one.cost)) for op, one in zip(ops, counted, strict=True)]


def _works(op: Described, cost: Cost) -> bool:
    # Annotations and nodes of autograd are not ops; what only surrounds others is free.
    return op.kernel is not None or (op.scope == OP_SCOPE and not cost.free)


@dataclass
class Total:
    """What the described ops of a row add up to, or what the user stated of one call."""

    amounts: Amounts = field(default_factory=dict)
    launches: float = 0.0
    calls: float = 0.0
    stated: bool = False

    def scale(self, calls: float) -> float:
        """By which amounts grow where the timed steps called it more or less often."""
        if self.stated:
            return calls
        return calls / self.calls if self.calls else 1.0


def totals_of(
    rows: Rows, listed: Sequence[Amounts], launches: Sequence[int], units: Collection[str]
) -> list[Total]:
    """Totals per row, unknown where one op's amount is; what a user states wins."""
    names = sorted({name for amount in listed for name in amount})
    totals = [Total() for _ in rows.keys]
    for row, amount, launched in zip(rows.of_described, listed, launches, strict=True):
        if row >= 0:
            totals[row].launches += launched
            totals[row].calls += 1
            _add(totals[row].amounts, amount, names)
    for row, cost in rows.stated.items():
        totals[row] = Total(dict(amounts_of(cost, units)), launches=1.0, calls=1.0, stated=True)
    return totals


def _add(total: Amounts, amount: Amounts, names: Sequence[str]) -> None:
    known = amount.get("flop/fp32", 0.0) is not None
    for name in names:
        value = amount.get(name, 0.0 if known or not name.startswith("flop/") else None)
        before = total.get(name, 0.0)
        total[name] = None if value is None or before is None else before + value


# The kernels' table of a profile, and the timeline of one step.


MOST_SEGMENTS = 100_000


def kernel_table(
    rows: Rows, timed: Timed, totals: Sequence[Total], chosen: Sequence[int],
    quantile: float | None = None,
) -> pl.DataFrame:  # fmt: skip
    """One line per row that ran in the timed steps; its time is the mean of the chosen ones, or,
    where other programs had the CPUs, a low quantile of each row's own times."""
    at = list(chosen)
    calls = timed.calls[at].mean(axis=0)
    seconds, profiled = (
        column[at].mean(axis=0) if quantile is None
        else low_quantile(column, timed.calls, calls, quantile)
        for column in (timed.seconds, timed.profiled)
    )  # fmt: skip
    names = sorted({n for total in totals for n in total.amounts}) or ["flop/fp32", DRAM]
    lines = [
        _line(row, rows, timed.seconds[:, row].tolist(), totals[row], float(calls[row]))
        | {"time_s": seconds[row], "timed_s": profiled[row]}
        | _amounts(totals[row], names, float(calls[row]))
        for row in np.flatnonzero(calls > 0).tolist()
    ]
    numbers = dict.fromkeys(
        (*names, "calls", "launches", "time_s", "timed_s", "time_spread"), pl.Float64
    )
    types: dict[str, DataType] = {**numbers, "shape": SHAPE}
    return pl.DataFrame(lines, schema_overrides=types, infer_schema_length=None)


def low_quantile(seconds: Floats, calls: Floats, usual: Floats, quantile: float) -> Floats:
    """Of every row (column) the quantile of its time per call over steps, times its usual calls."""
    per_call = np.divide(seconds, calls, out=np.full(calls.shape, np.nan), where=calls > 0)
    ran = calls.any(axis=0)
    found = np.zeros(calls.shape[1])
    found[ran] = np.nanquantile(per_call[:, ran], quantile, axis=0)
    return found * usual


def _line(
    row: int, rows: Rows, samples: list[float], total: Total, calls: float
) -> dict[str, object]:
    key = rows.keys[row]
    line: dict[str, object] = {
        "id": row,
        "kind": "kernel" if row in rows.fused else _kind(key.name),
        "name": key.name,
        "op": rows.fused.get(row, key.name),
        "shape": key.shape,
        "dtype": key.dtype,
        "module": key.module,
        "phase": key.phase,
        "stream": f"thread {key.thread}",
        "device": "cpu",
        "calls": calls,
        "launches": total.launches * total.scale(calls),
        "time_spread": spread(samples),
        "samples": samples,
        "origin.time": "measured",
    }
    return line | {"label.source": key.source} if rows.with_lines else line


def _kind(op: str) -> str:
    return "collective" if is_collective(op) else "op"


def _amounts(total: Total, names: Sequence[str], calls: float) -> dict[str, object]:
    """A row's amounts in the timed steps; nothing is known where it was neither seen nor stated."""
    if not total.amounts:
        return dict.fromkeys(names)
    scale = total.scale(calls)
    values = {name: total.amounts.get(name, 0.0) for name in names}
    scaled = {name: None if value is None else value * scale for name, value in values.items()}
    flops, moved = ("user", "user") if total.stated else ("counted", "modelled")
    return {**scaled, "origin.flops": flops, "origin.bytes/dram": moved}


def timeline(account: Account, row_of_event: Ints) -> pl.DataFrame:
    """The segments of one step in order, without the profiler's time; gaps bear their cause."""
    cut, main = account.cut, account.step.main_thread
    # A gap's owner, -1, is the last place.
    row = np.append(row_of_event[account.owner], -1)[cut.owner]
    thread = np.append(account.step.thread, main)[cut.owner]
    # Segments cover the step without overlap: each begins where the one before it ends.
    duration_s = (cut.end_ns - cut.start_ns) * account.kept / 1e9
    causes = [
        None if r >= 0 else IdleCause.PYTHON if o == GAP else account.cause_of(o)
        for r, o in zip(row.tolist(), cut.owner.tolist(), strict=True)
    ]
    table = pl.DataFrame(
        {
            "start_s": np.cumsum(duration_s) - duration_s,
            "duration_s": duration_s,
            "stream": [f"thread {t}" for t in thread.tolist()],
            "kernel": [None if r < 0 else r for r in row.tolist()],
            "idle_cause": [None if cause is None else cause.value for cause in causes],
        },
        schema=TIMELINE_COLUMNS,
    )
    return table.head(MOST_SEGMENTS)
