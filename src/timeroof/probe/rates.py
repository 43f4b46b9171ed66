"""A measured rate: its best, its median and how far it scatters."""

from __future__ import annotations

from dataclasses import dataclass

from timeroof.probe.sampling import Samples


@dataclass(frozen=True)
class Figure:
    """Amount per second over several samples."""

    rate_per_s: float
    median_per_s: float
    spread: float
    samples: int

    @classmethod
    def of(cls, samples: Samples, amount: float) -> Figure:
        """The figure of samples in each of which one repetition does an amount.

        >>> Figure.of(Samples([2.0, 4.0]), amount=8.0).rate_per_s
        4.0
        """
        return cls(
            rate_per_s=amount / samples.best_s,
            median_per_s=amount / samples.median_s,
            spread=samples.spread,
            samples=len(samples.times_s),
        )

    def better(self, other: Figure | None) -> Figure:
        """The higher of two figures."""
        return self if other is None or self.rate_per_s >= other.rate_per_s else other
