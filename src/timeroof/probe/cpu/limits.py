"""What ports and clock allow: theoretical ceilings, and the refusal of what lies above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from timeroof.core.machine import Ceiling
from timeroof.core.resources import Scope
from timeroof.probe.cpu.bandwidth import LevelFigures, Point
from timeroof.probe.cpu.microarchitectures import Microarchitecture

# The clock is not the same in every millisecond: a value may lie this far above.
TOLERANCE = 0.03


@dataclass(frozen=True)
class Limits:
    """A microarchitecture at a measured clock on a number of cores."""

    core: Microarchitecture
    clock_hz: float
    threads: int
    scope: Scope

    def flops_per_s(self, precision: str) -> float:
        """FLOPs per second that the FMA ports allow."""
        return self.core.flops_per_cycle(precision) * self.clock_hz * self.threads

    def bytes_per_s(self, loads: int, stores: int) -> float:
        """Bytes per second that the load and store ports allow a pattern."""
        return self.core.bytes_per_cycle(loads, stores) * self.clock_hz * self.threads

    @property
    def _source(self) -> str:
        return (
            f"{self.core.title} ports × {self.clock_hz / 1e9:.2f} GHz (clock measured with a chain"
            f" of dependent adds) × {self.threads} core" + ("s" if self.threads > 1 else "")
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


def refuse_points(figures: LevelFigures, limits: Limits | None) -> list[str]:
    """Take points above the ports' limit out of a level; one message for each."""
    if limits is None:
        return []
    errors = []
    for name, point in list(figures.by_pattern.items()):
        allowed = limits.bytes_per_s(point.pattern.loads, point.pattern.stores)
        if point.figure.rate_per_s > allowed * (1 + TOLERANCE):
            del figures.by_pattern[name]
            errors.append(_message(f"byte/{figures.level.name} ({name})", point, allowed))
    return errors


def _message(what: str, point: Point, allowed: float) -> str:
    return impossible(what, point.figure.rate_per_s, allowed, "B/s")


def refuse_flops(
    rates: dict[str, float], precision: str, limits: Limits | None
) -> tuple[dict[str, float], list[str]]:
    """Compute variants without those above the limit, and one message for each of these."""
    if limits is None:
        return rates, []
    allowed = limits.flops_per_s(precision)
    kept = {name: rate for name, rate in rates.items() if rate <= allowed * (1 + TOLERANCE)}
    errors = [
        impossible(f"flop/{precision} ({name})", rate, allowed, "FLOP/s")
        for name, rate in rates.items()
        if name not in kept
    ]
    return kept, errors


def impossible(what: str, rate_per_s: float, allowed_per_s: float, unit: str) -> str:
    """The message for a value that cannot be."""
    return (
        f"{what}: {rate_per_s / 1e9:.1f} G{unit} is above the {allowed_per_s / 1e9:.1f} that ports"
        " and clock allow: an error of the probe, not used as a ceiling; please report it"
    )
