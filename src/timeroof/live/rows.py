"""The table of ops: one row per op, shapes, module and phase, with time and amounts of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from timeroof.core.vocabulary import IdleCause
from timeroof.live.accounting import Account, Floats
from timeroof.live.calls import Counted, dtype_of, shape_text
from timeroof.live.torch.alignment import NO_MATCH, align
from timeroof.live.torch.arrays import Ints
from timeroof.live.torch.contexts import Context
from timeroof.live.torch.costing import stated
from timeroof.live.torch.recording import CompiledKernel, Described
from timeroof.work.cost import Cost
from timeroof.work.user import as_cost

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
