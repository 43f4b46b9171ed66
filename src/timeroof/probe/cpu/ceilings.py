"""Figures of a crew as the ceilings of a machine, without those that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import msgspec

from timeroof.core.machine import Ceiling, Scope
from timeroof.core.units import format_cores
from timeroof.probe.cpu.bandwidth import LevelFigures
from timeroof.probe.cpu.crew import Crew
from timeroof.probe.cpu.topology import Microarchitecture
from timeroof.probe.sampling import AGAIN, Figure

# The clock is not the same in every millisecond, and read low beside other programs: a value may
# lie this far above. A probe in error, whose loop a compiler took out, is above it by more.
TOLERANCE = 0.1


@dataclass(frozen=True)
class Limits:
    """A microarchitecture at a measured clock on a number of cores."""

    core: Microarchitecture
    clock_hz: float
    threads: int
    scope: Scope
    clock_origin: str = "measured with a chain of dependent adds"

    def flops_per_s(self, precision: str) -> float:
        """FLOPs per second that the FMA ports allow."""
        return self.core.flops_per_cycle(precision) * self.clock_hz * self.threads

    def bytes_per_s(self, loads: int, stores: int) -> float:
        """Bytes per second that the load and store ports allow a pattern."""
        return self.core.bytes_per_cycle(loads, stores) * self.clock_hz * self.threads

    @property
    def _source(self) -> str:
        return (
            f"{self.core.title} ports × {self.clock_hz / 1e9:.2f} GHz (clock"
            f" {self.clock_origin}) × {self.threads} core" + ("s" if self.threads > 1 else "")
        )

    def ceilings(self, reduced: Sequence[str] = ()) -> list[Ceiling]:
        """Theoretical ceilings: compute per precision, L1, and L2 where it is known."""
        per_cycle: dict[str, float] = {
            f"flop/{p}": self.core.flops_per_cycle(p) for p in ("fp64", "fp32")
        }
        short = dict(self.core.short_operations)
        per_cycle |= {f"flop/{p}": short[p] for p in reduced if p in short}
        per_cycle["byte/l1"] = self.core.bytes_per_cycle(2, 1)
        if self.core.l2_bytes is not None:
            per_cycle["byte/l2"] = self.core.l2_bytes
        return [self._ceiling(resource, amount) for resource, amount in per_cycle.items()]

    def _ceiling(self, resource: str, per_cycle: float) -> Ceiling:
        unit = "bytes" if resource.startswith("byte") else "operations"
        return Ceiling(
            resource=resource,
            rate=per_cycle * self.clock_hz * self.threads,
            origin="theoretical",
            scope=self.scope,
            threads=self.threads,
            source=f"{per_cycle:g} {unit} per cycle and core: {self._source}",
        )


def _refused(what: str, rate_per_s: float, allowed_per_s: float, unit: str) -> str | None:
    if rate_per_s <= allowed_per_s * (1 + TOLERANCE):
        return None
    return (
        f"{what}: {rate_per_s / 1e9:.1f} G{unit} is above the {allowed_per_s / 1e9:.1f} that ports"
        " and clock allow: an error of the probe, not used as a ceiling; please report it"
    )


def limits_of(crew: Crew, core: Microarchitecture | None, fastest_hz: float = 0.0) -> Limits | None:
    """What this crew's cores allow, or None where nothing is known about them. Beside other
    programs a team's clock may be read at half of what it is: FLOPs that need more prove it, up to
    the clock that any team of this machine has shown."""
    if core is None or crew.clock is None:
        return None
    limits = Limits(core, crew.clock.rate_per_s, crew.team.size, crew.scope)
    proven_hz = max(
        (
            figure.rate_per_s / (core.flops_per_cycle(precision) * crew.team.size)
            for precision, figures in crew.flops.items()
            for figure in figures.values()
        ),
        default=0.0,
    )
    proven_hz = min(proven_hz, fastest_hz)
    if proven_hz <= limits.clock_hz:
        return limits
    return replace(limits, clock_hz=proven_hz, clock_origin="shown by the fastest multiply-adds")


def measured_ceilings(crew: Crew, limits: Limits | None) -> tuple[list[Ceiling], list[str]]:
    """The crew's measured ceilings, and an error for each value that was refused."""
    flops, flop_errors = _flop_ceilings(crew, limits)
    levels, level_errors = _level_ceilings(crew, limits)
    return flops + levels, flop_errors + level_errors


def _flop_ceilings(crew: Crew, limits: Limits | None) -> tuple[list[Ceiling], list[str]]:
    found, errors = [], []
    for precision, figures in crew.flops.items():
        kept = dict(figures)
        for name, figure in figures.items() if limits else ():
            allowed = limits.flops_per_s(precision) if limits else 0.0
            what = f"flop/{precision} ({name})"
            if error := _refused(what, figure.rate_per_s, allowed, "FLOP/s"):
                errors.append(error)
                del kept[name]
        if kept:
            rates = {name: figure.rate_per_s for name, figure in kept.items()}
            best = max(rates, key=lambda name: rates[name])
            source = f"micro-kernel: {best}, best of samples"
            found.append(_ceiling(crew, f"flop/{precision}", kept[best], source, rates))
    return found, errors


def _level_ceilings(crew: Crew, limits: Limits | None) -> tuple[list[Ceiling], list[str]]:
    found, errors = [], []
    for held in crew.levels:
        errors += _refuse_points(held, limits) if limits else []
        best = held.best
        if best is not None:
            source = (
                f"micro-kernel: {best.pattern.name} with {best.width_bits}-bit vectors over"
                f" {best.size_bytes} bytes, useful bytes, best of samples"
            )
            rates = {name: point.rate_per_s for name, point in held.by_pattern.items()}
            found.append(_ceiling(crew, f"byte/{held.level.name}", best.figure, source, rates))
    return found, errors


def _ceiling(crew: Crew, what: str, best: Figure, source: str, rates: dict[str, float]) -> Ceiling:
    scope, threads = crew.scope, crew.team.size
    return best.ceiling(what, source, scope=scope, threads=threads, variants=rates)


def _refuse_points(figures: LevelFigures, limits: Limits) -> list[str]:
    errors = []
    for name, point in list(figures.by_pattern.items()):
        allowed = limits.bytes_per_s(point.pattern.loads, point.pattern.stores)
        what = f"byte/{figures.level.name} ({name})"
        if error := _refused(what, point.rate_per_s, allowed, "B/s"):
            del figures.by_pattern[name]
            errors.append(error)
    return errors


def order_problems(crew: Crew) -> list[str]:
    """Where a level is faster than the one nearer to the core, which cannot be."""
    found = []
    known = [(held.level.name, held.best.rate_per_s) for held in crew.levels if held.best]
    for (inner, fast), (outer, slow) in pairwise(known):
        if fast < slow:
            found.append(
                f"{outer.upper()} was measured faster than {inner.upper()} on"
                f" {format_cores(crew.team.size)}, so something disturbed the measurement. {AGAIN}"
            )
    return found


def widened(ceilings: list[Ceiling]) -> list[Ceiling]:
    """More cores are never a lower roof: one of them alone could do what it does alone. Where
    several together came out below one (a busy machine, a host whose memory others use), the wider
    scope takes the narrower one's figure and says so."""
    order: list[Scope] = ["core", "socket", "all"]
    best: dict[str, Ceiling] = {}
    found: list[Ceiling] = []
    for ceiling in sorted(ceilings, key=lambda c: order.index(c.scope)):
        held = best.get(ceiling.resource)
        if ceiling.origin != "measured" or held is None or held.rate <= ceiling.rate:
            kept = ceiling
        else:
            slower = f"; {ceiling.threads} threads together were not faster"
            source = f"{held.source or ''}".removesuffix(slower) + slower
            kept = msgspec.structs.replace(
                held, scope=ceiling.scope, threads=ceiling.threads, source=source
            )
        if ceiling.origin == "measured":
            best[ceiling.resource] = kept
        found.append(kept)
    return found
