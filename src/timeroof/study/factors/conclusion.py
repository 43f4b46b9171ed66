"""What a factor's analysis hands on: effects with their certainty, a verdict, words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from timeroof.core.report import Finding
from timeroof.model.stats import Ratio, holm, in_turns_beside_others, two_samples
from timeroof.study.judged_cases import Row

# Evidence as it is written to JSON.
Facts = dict[str, Any]


@dataclass(frozen=True)
class Effect:
    """One comparison: the time of `other` over the time of `base`, all else equal."""

    group: str
    base: str
    other: str
    ratio: Ratio
    kernels: tuple[int, ...]
    facts: Facts = field(default_factory=dict)
    # Other programs ran meanwhile: nothing is claimed.
    disturbed: bool = False
    # Corrected for all comparisons of its factor; set by `settle`.
    p: float = 1.0

    @property
    def kind(self) -> str:
        """What is compared, where a factor compares several things."""
        return str(self.facts.get("kind", ""))

    @property
    def real(self) -> bool:
        """Whether the difference counts: unlikely by chance, beyond the spread, undisturbed."""
        return self.ratio.counts(self.p) and not self.disturbed

    @property
    def verdict(self) -> str:
        """slower, faster, same, or unclear where the samples cannot tell."""
        if self.real:
            return "slower" if self.ratio.value > 1 else "faster"
        return "same" if self.ratio.settled and not self.disturbed else "unclear"

    def evidence(self) -> Facts:
        """The comparison as plain data."""
        return {
            "group": self.group,
            "base": self.base,
            "other": self.other,
            "time_ratio": digits(self.ratio.value),
            "interval": [digits(self.ratio.low), digits(self.ratio.high)],
            "chance": digits(self.p),
            "verdict": self.verdict,
            "disturbed": self.disturbed,
            **self.facts,
        }


def compared(
    title: str, base: tuple[str, Row], other: tuple[str, Row], facts: Facts,
    per: Callable[[Row], float | None] = lambda row: 1.0,
) -> Effect | None:  # fmt: skip
    """The samples of two named rows, each over its amount; None where there are too few."""
    rows = (base[1], other[1])
    samples = [[s / (per(row) or math.nan) for s in row.samples] for row in rows]
    ratio, disturbed = ratio_of(rows, samples)
    if ratio is None:
        return None
    ids = tuple(row.id for row in rows)
    return Effect(title, base[0], other[0], ratio, ids, facts, disturbed)


def ratio_of(
    rows: tuple[Row, Row], samples: Sequence[Sequence[float]]
) -> tuple[Ratio | None, bool]:
    """How many times the second is of the first, and whether neighbours forbid a claim.

    Beside other programs only CPU times of one thread, taken in turns, are compared.
    """
    first, second = samples
    if not any(row.busy for row in rows):
        return two_samples(first, second), False
    if not in_one_turn(rows):
        return two_samples(first, second), True
    return in_turns_beside_others(first, second), False


def in_one_turn(rows: Sequence[Row]) -> bool:
    """Whether rows were timed in turns, each by the CPU time of its one thread."""
    return all(row.timed_alone for row in rows) and len({row.turn for row in rows}) == 1


@dataclass(frozen=True)
class Conclusion:
    """What one factor came to: found or not, in words, with the effects behind it."""

    factor: str
    found: bool
    title: str
    # Sentences, the most telling first.
    points: Sequence[str]
    effects: tuple[Effect, ...] = ()
    # Rows beyond those of the effects.
    kernels: Sequence[int] = ()
    # What the chart needs beyond the effects, and what a script may want.
    facts: Facts = field(default_factory=dict)
    action: str | None = None
    # Sentences that hold whatever the times say; they come last.
    always: Sequence[str] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that is said."""
        return (*self.points, *unclear_points(self.effects), *self.always)

    @property
    def disturbed(self) -> bool:
        """Whether other programs ran during every comparison."""
        return bool(self.effects) and all(effect.disturbed for effect in self.effects)

    @property
    def state(self) -> str:
        """found, not found, or open where all comparisons were disturbed."""
        if self.found:
            return "found"
        return "open" if self.disturbed or not (self.facts or self.effects) else "not found"

    @property
    def why(self) -> str:
        """All sentences as one text."""
        return " ".join(self.sentences)

    def finding(self) -> Finding:
        """The same as a finding of a report."""
        return Finding(
            code=f"study/{self.factor}",
            title=self.title,
            why=self.why,
            kernels=sorted({*self.kernels, *(i for e in self.effects for i in e.kernels)}),
            action=self.action,
            evidence={
                "found": self.found,
                "comparisons": [effect.evidence() for effect in self.effects],
                **self.facts,
            },
        )

    def left_open(self) -> Conclusion:
        """The same; where all comparisons were disturbed it says nothing of their times."""
        if not self.disturbed:
            return self
        ops = sorted({effect.group.split(" ")[0] for effect in self.effects})
        again = "Run it again with --fresh while nothing else runs."
        return replace(
            self,
            title=f"{self.title.partition(':')[0]}: it cannot be told on a busy machine",
            points=(),
            always=(f"Compared: {', '.join(ops)}.", again, *self.always),
        )


def settle(effects: Sequence[Effect | None]) -> tuple[Effect, ...]:
    """Effects with their chances corrected for how many there are."""
    known = [effect for effect in effects if effect is not None]
    corrected = holm([effect.ratio.p for effect in known])
    return tuple(replace(e, p=p) for e, p in zip(known, corrected, strict=True))


def unclear_points(effects: Sequence[Effect]) -> list[str]:
    """Sentences on comparisons that the samples cannot decide."""
    disturbed = sum(effect.disturbed for effect in effects)
    count = sum(effect.verdict == "unclear" and not effect.disturbed for effect in effects)
    told = {
        f"{disturbed} of {len(effects)} comparisons are left open: other programs used the"
        " processor meanwhile.": disturbed,
        f"In {count} of {len(effects)} comparisons the samples scatter too much, or are too"
        " few, to tell.": count,
    }
    return [text for text, holds in told.items() if holds]


def digits(value: float) -> float:
    """A number with the digits that it deserves in a file."""
    return float(f"{value:.4g}")
