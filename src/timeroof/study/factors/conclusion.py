"""What a factor's analysis hands on: effects with their certainty, a verdict, words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from timeroof.core.report import Finding
from timeroof.model.stats import Ratio, holm


@dataclass(frozen=True)
class Effect:
    """One comparison: the time of `other` over the time of `base`, all else equal."""

    group: str
    base: str
    other: str
    ratio: Ratio
    kernels: tuple[int, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    # Other programs ran meanwhile: nothing is claimed.
    disturbed: bool = False
    # Corrected for all comparisons of its factor; set by `settle`.
    p: float = 1.0

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

    def evidence(self) -> dict[str, Any]:
        """The comparison as plain data."""
        return {
            "group": self.group,
            "base": self.base,
            "other": self.other,
            "time_ratio": _digits(self.ratio.value),
            "interval": [_digits(self.ratio.low), _digits(self.ratio.high)],
            "chance": _digits(self.p),
            "verdict": self.verdict,
            "disturbed": self.disturbed,
            **self.facts,
        }


@dataclass(frozen=True)
class Conclusion:
    """What one factor came to: found or not, in words, with the effects behind it."""

    factor: str
    found: bool
    title: str
    # Sentences, the most telling first.
    points: tuple[str, ...]
    effects: tuple[Effect, ...] = ()
    kernels: tuple[int, ...] = ()
    # What the chart needs beyond the effects, and what a script may want.
    facts: dict[str, Any] = field(default_factory=dict)
    action: str | None = None
    # Sentences that hold whatever the times say; they come last.
    always: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that is said."""
        return (*self.points, *self.always)

    @property
    def state(self) -> str:
        """found, not found, or open where all comparisons were disturbed."""
        if self.found:
            return "found"
        disturbed = bool(self.effects) and all(effect.disturbed for effect in self.effects)
        return "open" if disturbed or (not self.facts and not self.effects) else "not found"

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
            kernels=sorted(set(self.kernels)),
            action=self.action,
            evidence={
                "found": self.found,
                "comparisons": [effect.evidence() for effect in self.effects],
                **self.facts,
            },
        )


def settle(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """Effects with their chances corrected for how many there are."""
    corrected = holm([effect.ratio.p for effect in effects])
    return tuple(replace(e, p=p) for e, p in zip(effects, corrected, strict=True))


def left_open(conclusion: Conclusion) -> Conclusion:
    """A conclusion all of whose comparisons were disturbed says so, and nothing of their times."""
    effects = conclusion.effects
    if not effects or not all(effect.disturbed for effect in effects):
        return conclusion
    name = conclusion.title.partition(":")[0]
    return replace(
        conclusion,
        title=f"{name}: it cannot be told on a busy machine",
        points=(
            *unclear_points(effects),
            f"Compared: {', '.join(sorted({effect.group.split(' ')[0] for effect in effects}))}.",
            "Run it again with --fresh while nothing else runs.",
        ),
    )


def unclear_points(effects: Sequence[Effect]) -> list[str]:
    """Sentences on comparisons that the samples cannot decide."""
    disturbed = sum(effect.disturbed for effect in effects)
    count = sum(effect.verdict == "unclear" and not effect.disturbed for effect in effects)
    told = []
    if disturbed:
        told.append(
            f"{disturbed} of {len(effects)} comparisons are left open: other programs used the"
            " processor meanwhile."
        )
    if count:
        told.append(
            f"In {count} of {len(effects)} comparisons the samples scatter too much, or are too"
            " few, to tell."
        )
    return told


def _digits(value: float) -> float:
    """A number with the digits that it deserves in a file."""
    return float(f"{value:.4g}")
