"""One scope being measured: its pinned threads, their memory and the figures so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from timeroof.core.resources import Scope
from timeroof.probe.cpu.bandwidth import (
    Level,
    LevelFigures,
    Setup,
    measure_levels,
    measure_point,
    measure_sweep,
    sweep_sizes,
)
from timeroof.probe.cpu.compute import (
    PRECISIONS,
    measure_clock,
    measure_flops,
    variant_name,
    variants,
)
from timeroof.probe.cpu.features import Features
from timeroof.probe.cpu.latency import PAGES, SIZE_BYTES, fault_cost, sample_faults
from timeroof.probe.cpu.streams import PATTERNS
from timeroof.probe.cpu.threads import Region, Team, regions
from timeroof.probe.measurement import FaultCost, Figure, SweepPoint, recorded
from timeroof.probe.sampling import Plan, Samples

# Slack for arrays that begin on pages of their own.
SLACK_BYTES = 64 * 1024
# Patterns per level that a visit looks at: in an odd moment another one may lead.
VISITED = 2
QUICK_CURVES = ("read", "update")


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
    # The best of each sitting per level: where they differ, something outside changed.
    sittings: dict[str, list[float]] = field(default_factory=dict)
    # Touches of fresh memory per kind of pages.
    faults: dict[str, Samples] = field(default_factory=dict)
    # The DRAM variant without huge pages, by its name.
    small_pages: dict[str, float] = field(default_factory=dict)

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

    def take_clock(self) -> float:
        """Measure the clock once more; the median of this time, for comparing."""
        median_hz = 0.0
        with recorded(self.errors):
            figure = measure_clock(self.team, self.plan)
            self.clock, median_hz = figure.better(self.clock), figure.median_per_s
        return median_hz

    def take_flops(self) -> None:
        """Measure every kind of instruction, or after the first time the fastest ones."""
        for precision in PRECISIONS:
            held = self.flops.setdefault(precision, {})
            fastest = max((figure.rate_per_s for figure in held.values()), default=0.0)
            for width, fma in variants(self.features, quick=self.quick):
                name = variant_name(width, fma=fma)
                if name in held and held[name].rate_per_s < 0.9 * fastest:
                    continue
                self._take_variant(precision, width, fma=fma)

    def _take_variant(self, precision: str, width: int, *, fma: bool) -> None:
        held, name = self.flops[precision], variant_name(width, fma=fma)
        with recorded(self.errors):
            figure = measure_flops(
                self.team, precision, width, fma=fma, features=self.features, plan=self.plan
            )
            held[name] = figure.better(held.get(name))

    def take_levels(self, may_go_on: Callable[[], bool]) -> None:
        """Measure every level at its anchors."""
        sitting = [LevelFigures(held.level) for held in self.levels]
        measure_levels(
            self.setup(self.plan),
            sitting,
            quick=self.quick,
            errors=self.errors,
            may_go_on=may_go_on,
        )
        for held, new in zip(self.levels, sitting, strict=True):
            # Short of time, a sitting has only some patterns: no fair comparison with a whole one.
            if new.best is not None and may_go_on():
                rates = self.sittings.setdefault(f"byte/{held.level.name}", [])
                rates.append(new.best.figure.rate_per_s)
            for points in new.moments.values():
                for point in points:
                    held.take(point)

    def take_faults(self, kinds: Sequence[str] = tuple(PAGES)) -> None:
        """Touch fresh memory, with every kind of pages that can be asked for."""
        size, samples = (SIZE_BYTES // 2, 10) if self.quick else (SIZE_BYTES, 30)
        for pages in kinds:
            with recorded(self.errors):
                found = sample_faults(self.team, pages, size_bytes=size, samples=samples)
                if found is not None:
                    held = self.faults.get(pages)
                    self.faults[pages] = held.joined(found) if held else found

    def fault_costs(self) -> list[FaultCost]:
        """What fresh memory costs, per kind of pages."""
        return [fault_cost(pages, self.team.size, found) for pages, found in self.faults.items()]

    def visit(self) -> None:
        """Measure once more what holds each ceiling: a short look at another moment."""
        for precision, figures in self.flops.items():
            fastest = max(figures, key=lambda name: figures[name].rate_per_s, default="")
            for width, fma in variants(self.features, quick=self.quick):
                if variant_name(width, fma=fma) == fastest:
                    self._take_variant(precision, width, fma=fma)
        setup = self.setup(self.plan)
        for held in self.levels:
            for point in held.leaders(VISITED):
                with recorded(self.errors):
                    size, width = point.size_bytes, point.width_bits
                    held.take(measure_point(setup, point.pattern, size, width))
        self.take_faults(("default",))

    def take_small_pages(self) -> None:
        """The best DRAM pattern once more in small pages, which most programs have.

        A virtual machine pays twice for each miss of the TLB: there, DRAM with huge pages can
        be half as fast again.
        """
        best = self.levels[-1].best
        if best is None:
            return
        size = self.levels[-1].level.anchors[-1]
        memory = regions(self.team, size // self.team.size + SLACK_BYTES, huge=False)
        setup = Setup(self.team, memory, self.features, self.plan)
        with recorded(self.errors):
            point = measure_point(setup, best.pattern, size, best.width_bits)
            self.small_pages = {f"{best.pattern.name}, small pages": point.figure.rate_per_s}

    def setup(self, plan: Plan) -> Setup:
        """The crew as the bandwidth measurements need it."""
        return Setup(self.team, self.memory, self.features, plan)

    def take_sweep(self, may_go_on: Callable[[], bool], between: Callable[[], None]) -> bool:
        """Measure the curve over the working set; False if time ran out."""
        sizes = sweep_sizes([held.level for held in self.levels], self.team.size, quick=self.quick)
        plan = Plan(sample_s=5e-4, most=10) if self.quick else Plan(sample_s=1e-3, most=15)
        self.sweep = measure_sweep(
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
            f"byte/{held.level.name}": held.best.figure.rate_per_s
            for held in self.levels
            if held.best is not None
        }
        for precision, figures in self.flops.items():
            if figures:
                found[f"flop/{precision}"] = max(f.rate_per_s for f in figures.values())
        return found
