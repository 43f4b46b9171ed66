"""What one execution used, counted from the compiled programs (HLO) that XLA really ran."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from timeroof.core.machine import DRAM, Machine
from timeroof.live.rows import matrix_units
from timeroof.read.xla.programs import Programs, Thunk, thunks_of
from timeroof.read.xla.space import planes
from timeroof.study.worker.counting import Used, least_bytes
from timeroof.work.cost import amounts as amounts_of
from timeroof.work.hlo.buffers import Buffers
from timeroof.work.locality.accesses import Range

# Runs a function with the framework's profiler writing into a folder.
Traced = Callable[[Callable[[], object], str], None]


def executed(run: Callable[[], object], traced: Traced) -> list[Thunk]:
    """The ops of one execution, in the order in which they began."""
    with TemporaryDirectory(prefix="timeroof-") as folder:
        traced(run, folder)
        files = sorted(Path(folder).rglob("*.xplane.pb"))
        found = list(planes(files[-1].read_bytes())) if files else []
    host = [line for p in found if p.name.startswith("/host:CPU") for line in p.lines()]
    return sorted(thunks_of(host, Programs(found)), key=lambda thunk: thunk.start_ps)


def used(thunks: list[Thunk], machine: Machine | None, *, cold: bool) -> Used:
    """Amounts of executed ops: FLOPs by their instructions, bytes by where their arrays lie."""
    units = matrix_units(machine)
    totals: dict[str, float | None] = {"flop/fp32": 0.0}
    unknown: set[str] = set()
    for thunk in thunks:
        if thunk.linked is None:
            unknown.add(thunk.op)
            totals = dict.fromkeys(totals)
            continue
        cost = thunk.linked.program.cost(thunk.linked.instruction)
        if not cost.known:
            unknown.add(cost.unknown or thunk.op)
        for name, value in amounts_of(cost, units).items():
            before = totals.get(name, 0.0)
            totals[name] = None if value is None or before is None else before + value
    contraction = totals.pop("contraction_flops", 0.0)
    if totals.pop(DRAM, 0.0) is None or not thunks:
        totals[DRAM] = None
    else:
        totals |= _bytes(thunks, machine, cold=cold)
    return Used(totals, contraction, float(len(thunks)), sorted(unknown))


def _bytes(thunks: list[Thunk], machine: Machine | None, *, cold: bool) -> dict[str, float | None]:
    """The least bytes at every level: an ideal cache over the allocations of each program."""
    buffers: dict[int, Buffers] = {}
    counts: dict[int, int] = {}
    ranges: list[list[Range]] = []
    lasting: set[tuple[int, object]] = set()
    for thunk in thunks:
        if thunk.linked is None:
            continue
        program, instruction = thunk.linked
        if id(program) not in buffers:
            buffers[id(program)] = Buffers(program)
            lasting |= {(id(program), one) for one in buffers[id(program)].lasting()}
        counts[id(instruction)] = counts.get(id(instruction), -1) + 1
        own = buffers[id(program)].ranges(instruction, counts[id(instruction)])
        ranges.append([((id(program), s), at, size, kind) for s, at, size, kind in own])
    return least_bytes(ranges, lasting, machine, cold=cold)
