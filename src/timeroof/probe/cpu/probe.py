"""A CPU measured from end to end: sittings, the sweep between them, latency, page faults."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from timeroof.core.errors import UsageError
from timeroof.core.machine import Ceiling, MemoryLevel
from timeroof.core.resources import Scope
from timeroof.core.units import format_cores
from timeroof.probe.cpu.bandwidth import (
    detect_capacities,
    levels_of,
    sweep_sizes,
    with_detected_caches,
)
from timeroof.probe.cpu.ceilings import (
    fault_ceilings,
    for_scope,
    limits_of,
    measured_ceilings,
    order_problems,
    widened,
)
from timeroof.probe.cpu.crew import Crew
from timeroof.probe.cpu.features import (
    Features,
    Microarchitecture,
    find_microarchitecture,
    read_features,
)
from timeroof.probe.cpu.ir import architecture, host_cpu_name, host_features
from timeroof.probe.cpu.latency import latency_curve, measure_latency
from timeroof.probe.cpu.threads import Team, regions
from timeroof.probe.cpu.topology import MIB, Topology, available_memory, read_topology
from timeroof.probe.measurement import (
    Budget,
    Clock,
    FaultCost,
    Latency,
    Steps,
    SweepPoint,
    recorded,
)
from timeroof.probe.sampling import Plan, Watch, clock_warning, sittings_warning, two_states_warning

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
    latency: list[Latency] = field(default_factory=list)
    faults: list[FaultCost] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def scopes(self) -> dict[Scope, int]:
        """The number of cores of each scope."""
        return {scope: len(own) for scope, own in self.cpus.items()}


def _are(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {format_cores(count)}"


def scope_cpus(topology: Topology, threads: int | None) -> dict[Scope, tuple[int, ...]]:
    """The CPUs of each scope: one core, the first socket, and all (or so many threads)."""
    cores = topology.cores
    if threads is not None and not 1 <= threads <= len(cores):
        raise UsageError(
            f"{threads} threads asked for, but there {_are(len(cores))} to use",
            advice=f"use --threads 1 to {len(cores)}" if len(cores) > 1 else "use --threads 1",
        )
    everything = cores[: threads or len(cores)]
    socket = tuple(cpu for cpu in topology.sockets[0] if cpu in everything)
    return {"core": everything[:1], "socket": socket or everything, "all": everything}


class _Visits:
    """Short looks at every ceiling, spread over the run.

    On a shared host the memory of a virtual machine can be at half its speed for seconds: a
    ceiling that is looked at in many moments comes out the same in the next run.
    """

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
    *,
    quick: bool,
    threads: int | None,
    steps: Steps,
    budget: Budget,
    root: Path = Path("/"),
    topology: Topology | None = None,
) -> CpuFindings:
    """Measure this CPU; `topology` stands in for what the system says."""
    features = read_features(architecture(), host_features(), root)
    shape = topology or read_topology(root)
    if not shape.caches_known:
        steps.begin("looking for the caches", 1.0)
        shape = _find_caches(shape)
    cpus = scope_cpus(shape, threads)
    found = CpuFindings(shape, features, cpus)
    found.notes += shape.notes
    core = find_microarchitecture(host_cpu_name())
    watch = Watch(root)
    if core is None:
        found.notes.append(
            f"no entry for {host_cpu_name()} in the table of microarchitectures: no theoretical"
            " ceilings, and figures are not checked against ports and clock"
        )
    with ExitStack() as stack:
        crews = _crews(stack, shape, cpus, features, root, found, quick=quick)
        visits = _Visits(crews, budget, quick=quick)
        _sit(crews, found, steps, budget, visits, quick=quick)
        _latency(crews, found, steps, visits, quick=quick)
        if not watch.warnings():
            _settle(crews, found)
        _conclude(crews, cpus, core, found)
    found.memory = _memory_levels(shape, root)
    return found


def _find_caches(shape: Topology) -> Topology:
    """Cache sizes from the latency of one core, for systems that do not tell them."""
    levels = levels_of(shape, shape.cores[:1], 256 * MIB)
    with Team(shape.cores[:1]) as team:
        region = regions(team, levels[-1].anchors[-1] + MIB)[0]
        plan = Plan(sample_s=1e-3, least=3, most=5)
        curve = latency_curve(team, region, sweep_sizes(levels, 1, quick=False), plan)
    return with_detected_caches(shape, detect_capacities(curve))


def _crews(
    stack: ExitStack,
    shape: Topology,
    cpus: dict[Scope, tuple[int, ...]],
    features: Features,
    root: Path,
    found: CpuFindings,
    *,
    quick: bool,
) -> list[Crew]:
    """One crew per different set of cores: scopes with the same cores share one."""
    free = available_memory(root)
    most = (free or 8192 * MIB) // 4
    crews: dict[tuple[int, ...], Crew] = {}
    for scope, own in cpus.items():
        if own in crews:
            continue
        team = stack.enter_context(Team(own))
        crews[own] = Crew.make(scope, team, levels_of(shape, own, most), features, quick=quick)
        if not team.pinned:
            found.notes.append("threads cannot be pinned to cores here: figures scatter more")
    return list(crews.values())


def _sit(
    crews: Sequence[Crew],
    found: CpuFindings,
    steps: Steps,
    budget: Budget,
    visits: _Visits,
    *,
    quick: bool,
) -> None:
    """Sittings at the ceilings with the sweep in between, until they stop rising.

    Several, spread over the run: a disturbance of a few seconds then spoils only one.
    """
    before = [crew.take_clock() for crew in crews]
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
        rising = any(_rises(old, crew.rates()) for old, crew in zip(rates, crews, strict=True))
        wrong = any(order_problems(crew) for crew in crews)
        if (sitting > 0 and not (rising or wrong)) or not budget.left(0.85):
            break
    for crew in crews:
        crew.take_small_pages()
    for crew, median_hz in zip(crews, before, strict=True):
        warning = clock_warning(median_hz, crew.take_clock())
        if warning is not None and warning not in found.warnings:
            found.warnings.append(warning)


def _sweep(
    crews: Sequence[Crew], found: CpuFindings, steps: Steps, budget: Budget, visits: _Visits
) -> None:
    for crew in crews:
        steps.begin(f"bandwidth over the working set, {format_cores(crew.team.size)}", 6.0)
        if not crew.take_sweep(lambda: budget.left(0.75), visits):
            found.notes.append(
                f"the sweep of {format_cores(crew.team.size)} was cut short to keep the time limit"
            )
        found.sweep += crew.sweep


def _rises(old: dict[str, float], new: dict[str, float]) -> bool:
    return any(rate > old.get(name, 0.0) * (1 + STILL_RISING) for name, rate in new.items())


def _latency(
    crews: Sequence[Crew], found: CpuFindings, steps: Steps, visits: _Visits, *, quick: bool
) -> None:
    one = crews[0]
    steps.begin("latency", 2.0)
    clock_hz = one.clock.rate_per_s if one.clock else None
    plan = Plan(sample_s=1e-3, most=12) if quick else Plan(sample_s=2e-3, most=25)
    most = QUICK_LATENCY_BYTES if quick else one.memory[0].size_bytes
    for held in one.levels:
        with recorded(found.errors):
            latency = measure_latency(
                one.team, one.memory[0], held.level, clock_hz=clock_hz, plan=plan, most_bytes=most
            )
            found.latency.append(latency)
        visits()
    visits.complete()


def _settle(crews: Sequence[Crew], found: CpuFindings) -> None:
    """Keep what is usual where nothing in this system explains that moments differ."""
    for crew in crews:
        for held in crew.levels:
            held.settle()
            if held.rare is not None and held.best is not None:
                name = f"byte/{held.level.name}"
                crew.sittings.pop(name, None)
                usual, rare = held.best.figure.rate_per_s, held.rare.figure.rate_per_s
                found.warnings.append(
                    two_states_warning(f"{name} of {format_cores(crew.team.size)}", usual, rare)
                )


def _conclude(
    crews: Sequence[Crew],
    cpus: dict[Scope, tuple[int, ...]],
    core: Microarchitecture | None,
    found: CpuFindings,
) -> None:
    by_cpus = {cpus[crew.scope]: crew for crew in crews}
    found.faults = [cost for crew in crews for cost in crew.fault_costs()]
    if not any(cost.pages == "huge pages" for cost in found.faults):
        found.notes.append("huge pages cannot be asked for here")
    for crew in crews:
        found.warnings += order_problems(crew)
        for name, rates in crew.sittings.items():
            warning = sittings_warning(f"{name} of {format_cores(crew.team.size)}", rates)
            found.warnings += [warning] if warning else []
        found.errors += [error for error in crew.errors if error not in found.errors]
    for scope, own in cpus.items():
        crew = by_cpus[own]
        limits = limits_of(crew, core)
        ceilings, errors = measured_ceilings(crew, limits)
        if limits is not None:
            ceilings += limits.ceilings(tuple(found.features.units))
        found.ceilings += ceilings if scope == crew.scope else for_scope(ceilings, scope)
        found.errors += [error for error in errors if error not in found.errors]
        if crew.clock is not None:
            found.clocks.append(
                Clock(
                    scope=scope,
                    threads=len(own),
                    rate_per_s=crew.clock.rate_per_s,
                    median_per_s=crew.clock.median_per_s,
                )
            )
    found.ceilings += fault_ceilings(found.faults, found.scopes)
    found.ceilings = widened(found.ceilings)
    _note_shared_cores(crews, found)


def _note_shared_cores(crews: Sequence[Crew], found: CpuFindings) -> None:
    """Cores that a virtual machine reports may be the two threads of one real core."""
    one, most = (crew.rates().get("flop/fp64", 0.0) for crew in (crews[0], crews[-1]))
    size = crews[-1].team.size
    share = most / (one * size) if one else 1.0
    if size > 1 and share < 0.7:
        found.warnings.append(
            f"{size} cores together reach only {share:.0%} of {size} times one core: other"
            " programs were running, or cores of this (virtual) machine share one real core"
        )


def _memory_levels(shape: Topology, root: Path) -> list[MemoryLevel]:
    source = "system" if shape.caches_known else "inferred from latency over the working set"
    found = [
        MemoryLevel(level=f"l{level}", size_bytes=shape.capacity(level, shape.cores), source=source)
        for level in shape.levels()
        if level <= 3
    ]
    total = total_memory(root)
    if total:
        found.append(MemoryLevel(level="dram", size_bytes=total, source="system"))
    return found


def total_memory(root: Path = Path("/")) -> int | None:
    """Bytes of memory of the machine, or None where the system does not say."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith("MemTotal")), None)
