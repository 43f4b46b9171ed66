"""The table of ops: one row per op, shapes, module and phase, with time and amounts of a step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from timeroof.core.machine import Machine
from timeroof.core.profile import TIMELINE_COLUMNS
from timeroof.core.resources import DRAM
from timeroof.core.vocabulary import IdleCause
from timeroof.live.accounting import Account, Floats
from timeroof.live.memory import Traffic
from timeroof.live.torch.alignment import GAP, NO_MATCH, align
from timeroof.live.torch.calls import Counted, dtype_of, shape_text
from timeroof.live.torch.compiling import is_compiled, is_glue
from timeroof.live.torch.contexts import ENGINE, Context
from timeroof.live.torch.costing import stated
from timeroof.live.torch.recording import CompiledKernel, Described, Ints
from timeroof.model.stats import spread
from timeroof.work.cost import Cost
from timeroof.work.cost import amounts as amounts_of
from timeroof.work.counting import as_cost

Key = tuple[str, str | None, str | None, str | None, str, int, str | None]


@dataclass
class Rows:
    """Rows by key (name, shape, dtype, module, phase, thread, line), and which op is in which."""

    keys: list[Key] = field(default_factory=list)
    of_described: list[int] = field(default_factory=list)
    stated: dict[int, Cost] = field(default_factory=dict)
    # The program's ops in a compiled kernel.
    fused: dict[int, str] = field(default_factory=dict)
    with_lines: bool = False
    unmatched: int = 0
    events: int = 0
    _places: dict[Key, int] = field(default_factory=dict)

    def place(self, key: Key) -> int:
        """The row of a key, new or known."""
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = len(self.keys)
            self.keys.append(key)
        return found


@dataclass(frozen=True)
class Timed:
    """Seconds and calls per timed step (lines) and row (columns), and the row of every event.

    `profiled` are the seconds with the profiler's own cost.
    """

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
    """Phases that annotations of a timed step tell, by the place of the described op.

    Of the first timed step; what that did not do (an optimizer that does more with every
    step, as LBFGS) from the longest one.
    """
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
        shape, dtype = shape_text(c.call), dtype_of(c.call)
        key = (op.name, shape, dtype, context.module, phase, op.thread, line)
        is_row = op.scope == 0 and not c.cost.free
        row = rows.place(key) if is_row else -1
        rows.of_described.append(row)
        if is_row and op.kernel is not None:
            rows.fused[row] = " + ".join(compiled[op.kernel].ops)
    return rows


def timed_rows(rows: Rows, ops: Sequence[Described], accounts: Sequence[Account]) -> Timed:
    """Put the events of all timed steps into rows; new ones for what was not described.

    The time of ops that do no work of their own is noted as the dispatcher's.
    """
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
    matches = align(a.step, ops) if ops else np.full(len(a.step), NO_MATCH)
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


def _new_row(rows: Rows, a: Account, event: int) -> int:
    name = a.step.names[a.step.name[event]]
    phase, thread = a.phase[event] or "other", int(a.step.thread[event])
    figures = stated(name)
    if figures is None:
        rows.unmatched += 1
        return rows.place((name, None, None, None, phase, thread, None))
    row = rows.place((str(figures["name"]), None, None, None, phase, thread, None))
    rows.stated[row] = as_cost({k: v for k, v in figures.items() if v is not None and k != "name"})
    return row


# Amounts of rows: what the described ops of each add up to.


Amounts = dict[str, float | None]


def op_amounts(
    counted: Sequence[Counted], found: Traffic | None, units: Collection[str]
) -> list[Amounts]:
    """Amounts of every described op; bytes at each level from the residency model.

    Compiled kernels whose tensors were not seen move what their code says, at every level.
    """
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


def stated_amounts(cost: Cost, units: Collection[str]) -> Amounts:
    """Amounts of a region whose cost the user stated."""
    return dict(amounts_of(cost, units))


def matrix_units(machine: Machine | None) -> list[str]:
    """The tensor precisions that a machine has."""
    if machine is None:
        return []
    names = {c.resource.removeprefix("flop/") for c in machine.ceilings}
    return sorted(n for n in names if n.endswith("-tensor"))


def launches_of(ops: Sequence[Described], counted: Sequence[Counted]) -> list[int]:
    """Launches of every op: 1 where it does work of its own, at whatever depth.

    A dozen ops inside one call of Python (an LSTM's cells) and a dozen calls count alike; views,
    and ops that only call others, do not count.
    """
    return [int(_works(op, one.cost)) for op, one in zip(ops, counted, strict=True)]


def _works(op: Described, cost: Cost) -> bool:
    if is_compiled(op.name):
        return True
    # Annotations, nodes of autograd and wrappers are not ops.
    is_op = op.scope == 0 and not op.name.startswith(ENGINE) and not is_glue(op.name, op.sequence)
    return is_op and not cost.free


def summed(rows: Rows, listed: Sequence[Amounts]) -> list[Amounts]:
    """Amounts per row; unknown where one op's is. Rows without described ops have none."""
    names = sorted({name for amount in listed for name in amount})
    totals: list[Amounts] = [{} for _ in rows.keys]
    for row, amount in zip(rows.of_described, listed, strict=True):
        if row < 0:
            continue
        total = totals[row]
        known = amount.get("flop/fp32", 0.0) is not None
        for name in names:
            value = amount.get(name, 0.0 if known or not name.startswith("flop/") else None)
            before = total.get(name, 0.0)
            total[name] = None if value is None or before is None else before + value
    return totals


# The kernels' table of a profile, and the timeline of one step.


MOST_SEGMENTS = 100_000


def kernel_table(
    rows: Rows,
    timed: Timed,
    totals: Sequence[Amounts],
    described: tuple[list[float], list[float]],
    chosen: Sequence[int],
) -> pl.DataFrame:
    """One line per row that ran in the timed steps."""
    seconds = timed.seconds[list(chosen)].mean(axis=0)
    profiled = timed.profiled[list(chosen)].mean(axis=0)
    calls = timed.calls[list(chosen)].mean(axis=0)
    names = _amount_names(totals)
    lines = [
        _line(row, rows, timed, seconds[row], calls[row], described)
        | {"timed_s": profiled[row]}
        | _amounts(_at(totals, row), names, calls[row], described[1][row : row + 1])
        for row in np.flatnonzero(calls > 0).tolist()
    ]
    numbers = dict.fromkeys(
        (*names, "calls", "launches", "time_s", "timed_s", "time_spread"), pl.Float64
    )
    return pl.DataFrame(lines, schema_overrides=numbers, infer_schema_length=None)


def _at(totals: Sequence[Amounts], row: int) -> Amounts | None:
    return totals[row] if row < len(totals) and totals[row] else None


def _amount_names(totals: Sequence[Amounts]) -> list[str]:
    found = sorted({n for total in totals for n in total if n != "user"})
    return found or ["flop/fp32", DRAM]


def _line(
    row: int, rows: Rows, timed: Timed, time_s: float, calls: float,
    described: tuple[list[float], list[float]],
) -> dict[str, Any]:  # fmt: skip
    name, shape, dtype, module, phase, thread, source = rows.keys[row]
    samples = timed.seconds[:, row].tolist()
    launches, seen = (d[row] if row < len(d) else 0.0 for d in described)
    return {
        "id": row,
        "kind": "kernel" if row in rows.fused else "op",
        "name": name,
        "op": rows.fused.get(row, name),
        "shape": shape,
        "dtype": dtype,
        "module": module,
        "phase": phase,
        "stream": f"thread {thread}",
        "device": "cpu",
        "calls": calls,
        "launches": launches * calls / seen if seen else (calls if row in rows.stated else 0.0),
        "time_s": time_s,
        "time_spread": spread(samples),
        "samples": samples,
        "origin.time": "measured",
    } | ({"label.source": source} if rows.with_lines else {})


def _amounts(
    total: Amounts | None, names: Sequence[str], calls: float, seen: Sequence[float]
) -> dict[str, Any]:
    """A row's amounts, scaled where the timed steps called it more or less often."""
    if total is None:
        return dict.fromkeys(names)
    stated = "user" in total
    scale = calls if stated else calls / seen[0] if seen and seen[0] else 1.0
    found: dict[str, Any] = {}
    for name in names:
        value = total.get(name, 0.0)
        found[name] = None if value is None else value * scale
    flops, moved = ("user", "user") if stated else ("counted", "modelled")
    return found | {"origin.flops": flops, f"origin.bytes/{DRAM.split('/')[1]}": moved}


def timeline(account: Account, row_of_event: Any) -> pl.DataFrame:
    """The segments of one step in order, without the profiler's time; gaps bear their cause."""
    cut = account.cut
    event = np.where(cut.owner == GAP, 0, cut.owner)
    empty = not len(row_of_event)
    row = np.full(len(cut.owner), -1) if empty else row_of_event[account.owner[event]]
    row = np.where(cut.owner == GAP, -1, row)
    thread = np.full(len(event), account.step.main_thread)
    # Segments cover the step without overlap: each begins where the one before it ends.
    duration_s = (cut.end_ns - cut.start_ns) * account.kept / 1e9
    if not empty:
        thread = np.where(cut.owner == GAP, account.step.main_thread, account.step.thread[event])
    table = pl.DataFrame(
        {
            "start_s": np.cumsum(duration_s) - duration_s,
            "duration_s": duration_s,
            "stream": [f"thread {t}" for t in thread.tolist()],
            "kernel": [None if r < 0 else r for r in row.tolist()],
            "idle_cause": [
                None
                if r >= 0
                else IdleCause.PYTHON.value
                if o == GAP
                else account.cause_of(o).value
                for r, o in zip(row.tolist(), cut.owner.tolist(), strict=True)
            ],
        },
        schema=TIMELINE_COLUMNS,
    )
    return table.head(MOST_SEGMENTS)
