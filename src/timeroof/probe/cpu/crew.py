"""One scope being measured: its pinned threads, their memory and the figures so far."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from timeroof.core.machine import FAULT, Ceiling, Scope
from timeroof.model import stats
from timeroof.probe.cpu import bandwidth, compute
from timeroof.probe.cpu.bandwidth import SIZE_BYTES, Level, LevelFigures, Setup, sample_faults
from timeroof.probe.cpu.compute import measure_flops
from timeroof.probe.cpu.streams import PATTERNS
from timeroof.probe.cpu.threads import Region, Team, regions
from timeroof.probe.cpu.topology import Features
from timeroof.probe.sampling import Figure, Plan, Samples, SweepPoint, recorded

# Slack for arrays that begin on pages of their own.
SLACK_BYTES = 64 * 1024
# Patterns per level that a visit looks at: in an odd moment another one may lead.
VISITED = 2
QUICK_CURVES = ("read", "update")
# Fresh pages are zeroed, so their cost moves with the memory: what one sample in ten reaches is
# what the system can do, as the single best is luck.
REPEATED_FAULT = 0.1


@dataclass
class Crew:
    """Figures of one scope; a later sitting only ever raises them."""

    scope: Scope
    team: Team
    features: Features
    levels: list[LevelFigures]
    quick: bool
    plan: Plan
    clock: Figure | None = None
    flops: dict[str, dict[str, Figure]] = field(default_factory=dict)
    sweep: list[SweepPoint] = field(default_factory=list)
    memory: list[Region] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    faults: Samples | None = None

    @classmethod
    def make(
        cls, scope: Scope, team: Team, levels: Sequence[Level], features: Features, *, quick: bool
    ) -> Crew:
        """A crew with its memory, which is the expensive part of it."""
        plan = Plan(sample_s=1e-3, most=14) if quick else Plan(sample_s=1.5e-3, most=25)
        figures = [LevelFigures(level) for level in levels]
        crew = cls(scope, team, features, figures, quick, plan)
        crew.memory = regions(team, levels[-1].anchors[-1] // team.size + SLACK_BYTES)
        return crew

    def take_clock(self) -> None:
        """Measure the clock once more."""
        with recorded(self.errors):
            self.clock = compute.measure_clock(self.team, self.plan).better(self.clock)

    def take_flops(self, least_share: float = 0.9) -> None:
        """Measure every vector width, after the first time those near the fastest."""
        widths = self.features.widths_bits[-2:] if self.quick else self.features.widths_bits
        for precision in compute.PRECISIONS:
            held = self.flops.setdefault(precision, {})
            fastest = max((figure.rate_per_s for figure in held.values()), default=0.0)
            for width in widths:
                name = compute.variant_name(width, fma=self.features.fma)
                if name in held and held[name].rate_per_s < least_share * fastest:
                    continue
                with recorded(self.errors):
                    figure = measure_flops(self.team, precision, width, self.features, self.plan)
                    held[name] = figure.better(held.get(name))

    def take_levels(self, may_go_on: Callable[[], bool]) -> None:
        """Measure every level at its anchors."""
        setup, errors = self.setup(self.plan), self.errors
        bandwidth.measure_levels(
            setup, self.levels, quick=self.quick, errors=errors, may_go_on=may_go_on
        )

    def take_faults(self) -> None:
        """Touch fresh memory."""
        size, samples = (SIZE_BYTES // 2, 10) if self.quick else (SIZE_BYTES, 30)
        with recorded(self.errors):
            found = sample_faults(self.team, size_bytes=size, samples=samples)
            self.faults = self.faults.joined(found) if self.faults else found

    def fault_ceilings(self) -> list[Ceiling]:
        """Pages touched first per second, where that was measured."""
        if self.faults is None:
            return []
        rate = 1.0 / stats.quantile(self.faults.times_s, REPEATED_FAULT)
        source = f"first touch of fresh memory, pages of {mmap.PAGESIZE} bytes"
        figure = Figure(rate, self.faults.spread)
        return [figure.ceiling(FAULT, source, scope=self.scope, threads=self.team.size)]

    def visit(self) -> None:
        """Measure once more what holds each ceiling: a short look at another moment."""
        self.take_flops(least_share=1.0)
        setup = self.setup(self.plan)
        for held in self.levels:
            for point in held.leaders(VISITED):
                with recorded(self.errors):
                    size, width = point.size_bytes, point.width_bits
                    held.take(bandwidth.measure_point(setup, point.pattern, size, width))
        self.take_faults()

    def setup(self, plan: Plan) -> Setup:
        """The crew as the bandwidth measurements need it."""
        return Setup(self.team, self.memory, self.features, plan)

    def take_sweep(self, may_go_on: Callable[[], bool], between: Callable[[], None]) -> bool:
        """Measure the curve over the working set; False if time ran out."""
        levels = [held.level for held in self.levels]
        sizes = bandwidth.sweep_sizes(levels, self.team.size, quick=self.quick)
        plan = Plan(sample_s=5e-4, most=10) if self.quick else Plan(sample_s=1e-3, most=15)
        self.sweep = bandwidth.measure_sweep(
            self.setup(plan),
            sizes,
            self.levels,
            errors=self.errors,
            patterns=QUICK_CURVES if self.quick else tuple(PATTERNS),
            may_go_on=may_go_on,
            between=between,
        )
        return bool(self.sweep) and self.sweep[-1].size_bytes >= 0.99 * sizes[-1]

    def rates(self) -> dict[str, float]:
        """The ceilings so far, to see whether another sitting still raises them."""
        found = {
            f"byte/{held.level.name}": held.best.rate_per_s for held in self.levels if held.best
        }
        for precision, figures in self.flops.items():
            if figures:
                found[f"flop/{precision}"] = max(f.rate_per_s for f in figures.values())
        return found
