"""A CPU measured from end to end: sittings, the sweep between them, latency, page faults."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from timeroof.core.errors import UsageError
from timeroof.core.machine import Ceiling, MemoryLevel, Scope
from timeroof.core.units import format_cores
from timeroof.probe.cpu.bandwidth import HEAD_BYTES, levels_of, sample_walk
from timeroof.probe.cpu.ceilings import limits_of, measured_ceilings, order_problems, widened
from timeroof.probe.cpu.crew import Crew
from timeroof.probe.cpu.ir import architecture, host_cpu_name, host_features
from timeroof.probe.cpu.threads import Team
from timeroof.probe.cpu.topology import (
    MIB,
    Features,
    Topology,
    available_memory,
    find_microarchitecture,
    read_features,
    read_topology,
    total_memory,
)
from timeroof.probe.sampling import Budget, Clock, Plan, Steps, SweepPoint, Watch, recorded

# A further sitting is worth its time while it still raises a ceiling by more than this.
STILL_RISING = 0.02
QUICK_LATENCY_BYTES = 64 * MIB
MOST_SITTINGS = {True: 3, False: 6}
# How often the holders of all ceilings get a short visit while other things are measured.
VISIT_EVERY_S = 1.5
LEAST_VISITS = 10


@dataclass
class CpuFindings:
    """Everything found on a CPU."""

    topology: Topology
    features: Features
    cpus: dict[Scope, tuple[int, ...]]
    ceilings: list[Ceiling] = field(default_factory=list)
    memory: list[MemoryLevel] = field(default_factory=list)
    clocks: list[Clock] = field(default_factory=list)
    sweep: list[SweepPoint] = field(default_factory=list)
    # Seconds of a load that needs the result of the one before it, by level.
    latency_s: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def scope_cpus(topology: Topology, threads: int | None) -> dict[Scope, tuple[int, ...]]:
    """The CPUs of each scope: one core, the first socket, and all (or so many threads)."""
    cores = topology.cores
    if threads is not None and not 1 <= threads <= len(cores):
        raise UsageError(
            f"{threads} threads asked for, but {format_cores(len(cores))} can be used",
            advice=f"use --threads 1 to {len(cores)}" if len(cores) > 1 else "use --threads 1",
        )
    everything = cores[: threads or len(cores)]
    socket = tuple(cpu for cpu in topology.sockets[0] if cpu in everything)
    return {"core": everything[:1], "socket": socket or everything, "all": everything}


class _Visits:
    """Short looks at every ceiling, spread over the run. On a shared host the memory of a virtual
    machine can be at half its speed for seconds: a ceiling that is looked at in many moments comes
    out the same in the next run."""

    def __init__(self, crews: Sequence[Crew], budget: Budget, *, quick: bool) -> None:
        self._crews, self._budget, self._quick = crews, budget, quick
        self._last_s, self._count = budget.used_s(), 0

    def __call__(self) -> None:
        """Visit if it is time."""
        if not self._over and self._budget.used_s() - self._last_s >= VISIT_EVERY_S:
            for crew in self._crews:
                crew.visit()
            self._last_s, self._count = self._budget.used_s(), self._count + 1

    def complete(self) -> None:
        """What is missing to the least number, as far as time allows."""
        while self._count < LEAST_VISITS and not self._over:
            time.sleep(VISIT_EVERY_S / 4)
            self()

    @property
    def _over(self) -> bool:
        return self._quick or not self._budget.left(0.9)


def measure_cpu(
    *, quick: bool, threads: int | None, steps: Steps, budget: Budget, root: Path = Path("/"),
    topology: Topology | None = None,
) -> CpuFindings:  # fmt: skip
    """Measure this CPU; `topology` stands in for what the system says."""
    features = read_features(architecture(), host_features(), root)
    shape = topology or read_topology(root)
    cpus = scope_cpus(shape, threads)
    found = CpuFindings(shape, features, cpus)
    found.notes += shape.notes
    watch = Watch(root)
    if find_microarchitecture(host_cpu_name()) is None:
        found.notes.append(
            f"{host_cpu_name()} is not in the table of microarchitectures: there are no"
            " theoretical ceilings to check the measured ones against."
        )
    with ExitStack() as stack:
        crews = _crews(stack, shape, cpus, features, root, found, quick=quick)
        visits = _Visits(crews, budget, quick=quick)
        _sit(crews, found, steps, budget, visits, quick=quick)
        _latency(crews, found, steps, visits, quick=quick)
        if not watch.warnings():
            for held in (held for crew in crews for held in crew.levels):
                held.settle()
        fastest_hz = max((c.clock.rate_per_s for c in crews if c.clock is not None), default=0.0)
        for crew in crews:
            _conclude(crew, fastest_hz, found)
    found.ceilings = widened(found.ceilings)
    found.memory = _memory_levels(found, root)
    return found


def _crews(
    stack: ExitStack, shape: Topology, cpus: dict[Scope, tuple[int, ...]], features: Features,
    root: Path, found: CpuFindings, *, quick: bool,
) -> list[Crew]:  # fmt: skip
    free = available_memory(root)
    most = (free or 8192 * MIB) // 4
    crews: dict[tuple[int, ...], Crew] = {}
    for scope, own in cpus.items():
        if own in crews:
            continue
        team = stack.enter_context(Team(own))
        crews[own] = Crew.make(scope, team, levels_of(shape, own, most), features, quick=quick)
        if not team.pinned:
            found.notes.append("Threads cannot be pinned to cores here, so figures vary more.")
    return list(crews.values())


def _sit(
    crews: Sequence[Crew], found: CpuFindings, steps: Steps, budget: Budget, visits: _Visits, *,
    quick: bool,
) -> None:  # fmt: skip
    """Sittings at the ceilings with the sweep in between, until they stop rising. Several, spread
    over the run: a disturbance of a few seconds then spoils only one."""
    for crew in crews:
        crew.take_clock()
    for sitting in range(MOST_SITTINGS[quick]):
        rates = [crew.rates() for crew in crews]
        for crew in crews:
            steps.begin(f"ceilings of {format_cores(crew.team.size)}, sitting {sitting + 1}", 2.0)
            crew.take_flops()
            crew.take_levels(budget.left)
            crew.take_faults()
            crew.take_clock()
        if sitting == 0:
            _sweep(crews, found, steps, budget, visits)
        rising = any(
            rate > old.get(name, 0.0) * (1 + STILL_RISING)
            for old, crew in zip(rates, crews, strict=True)
            for name, rate in crew.rates().items()
        )
        wrong = any(order_problems(crew) for crew in crews)
        if (sitting > 0 and not (rising or wrong)) or not budget.left(0.85):
            break


def _sweep(
    crews: Sequence[Crew], found: CpuFindings, steps: Steps, budget: Budget, visits: _Visits
) -> None:
    for crew in crews:
        steps.begin(f"bandwidth over the working set, {format_cores(crew.team.size)}", 6.0)
        if not crew.take_sweep(lambda: budget.left(0.75), visits):
            found.notes.append(
                f"The bandwidth curve of {format_cores(crew.team.size)} has fewer points, to keep"
                " the time limit."
            )
        found.sweep += crew.sweep


def _latency(
    crews: Sequence[Crew], found: CpuFindings, steps: Steps, visits: _Visits, *, quick: bool
) -> None:
    one = crews[0]
    steps.begin("latency", 2.0)
    plan = Plan(sample_s=1e-3, most=12) if quick else Plan(sample_s=2e-3, most=25)
    most = QUICK_LATENCY_BYTES if quick else one.memory[0].size_bytes
    for held in one.levels:
        with recorded(found.errors):
            size = min(held.level.anchors[0], most - HEAD_BYTES)
            walk = sample_walk(one.team, one.memory[0], size, plan)
            found.latency_s[held.level.name] = walk.best_s
        visits()
    visits.complete()


def _conclude(crew: Crew, fastest_hz: float, found: CpuFindings) -> None:
    limits = limits_of(crew, find_microarchitecture(host_cpu_name()), fastest_hz)
    ceilings, errors = measured_ceilings(crew, limits)
    ceilings += limits.ceilings(tuple(found.features.units)) if limits else []
    ceilings += crew.fault_ceilings()
    found.warnings += order_problems(crew)
    found.errors += [error for error in (*crew.errors, *errors) if error not in found.errors]
    own = found.cpus[crew.scope]
    for scope in (scope for scope, cpus in found.cpus.items() if cpus == own):
        found.ceilings += [msgspec.structs.replace(c, scope=scope) for c in ceilings]
        if crew.clock is not None:
            rate = limits.clock_hz if limits else crew.clock.rate_per_s
            found.clocks.append(Clock(scope=scope, threads=len(own), rate_per_s=rate))


def _memory_levels(found: CpuFindings, root: Path) -> list[MemoryLevel]:
    shape = found.topology
    sizes = {f"l{n}": shape.capacity(n, shape.cores) for n in shape.levels() if n <= 3}
    total = total_memory(root)
    return [
        MemoryLevel(
            level=level,
            size_bytes=size,
            source="system" if shape.caches_known or level == "dram" else "assumed",
            latency_s=found.latency_s.get(level),
        )
        for level, size in (sizes | ({"dram": total} if total else {})).items()
    ]
