"""What a factor's analysis hands on: effects with their certainty, a verdict, words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from timeroof.core.report import Finding
from timeroof.model.stats import Ratio, holm, in_turns_beside_others, two_samples
from timeroof.study.judged_cases import Row

# Evidence as it is written to JSON.
Facts = dict[str, Any]
NAMES = {
    "intensity": "Arithmetic intensity",
    "locality": "Cache locality",
    "autotune": "Auto-tuning",
    "launch": "Launch overhead",
    "precision": "Matrix units",
}


@dataclass(frozen=True)
class Effect:
    """One comparison: the time of `other` over the time of `base`, all else equal."""

    group: str
    base: str
    other: str
    ratio: Ratio
    kernels: tuple[int, ...]
    facts: Facts = field(default_factory=dict)
    # Other programs ran meanwhile, and nothing is claimed of wall times beside them.
    disturbed: bool = False
    # Other programs ran meanwhile: CPU times were compared, with more care.
    beside_others: bool = False
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

    @property
    def why_unclear(self) -> str:
        """Why nothing can be claimed, in a few words."""
        span = f"{times(self.ratio.low)} to {times(self.ratio.high)}"
        if self.disturbed:
            return "other programs used the processor"
        where = "too close to tell beside other programs" if self.beside_others else "too close"
        return f"{self.other} against {self.base} is {span}, {where}"

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
            "beside_others": self.beside_others,
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
    ids, beside = tuple(row.id for row in rows), any(row.busy for row in rows)
    names = base[0], other[0]
    return Effect(title, *names, ratio, ids, facts, disturbed, beside and not disturbed)


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


class Bar(NamedTuple):
    """A bar of a factor's small chart: what, how long, and the number as it is written."""

    label: str
    value: float
    text: str


@dataclass(frozen=True)
class Conclusion:
    """What one factor came to: one sentence with a number, and the effects behind it."""

    factor: str
    # Whether the factor was found to matter; that it was found not to is an answer too.
    found: bool
    # One plain sentence with its number.
    sentence: str
    # More sentences, the most telling first.
    points: Sequence[str]
    effects: tuple[Effect, ...] = ()
    # Rows beyond those of the effects.
    kernels: Sequence[int] = ()
    # What the chart needs beyond the effects, and what a script may want.
    facts: Facts = field(default_factory=dict)
    action: str | None = None
    # Sentences that hold whatever the times say; they come last.
    always: Sequence[str] = ()
    # What the sentence is about, and its chart.
    lead: Effect | None = None
    bars: Sequence[Bar] = ()
    # Why nothing can be said; None where the sentence stands.
    open_because: str | None = None

    @property
    def name(self) -> str:
        """The factor as it is written."""
        return NAMES[self.factor]

    @property
    def title(self) -> str:
        """Factor and sentence in one line."""
        return f"{self.name}: {self.sentence}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that is said beside the sentence."""
        return (*self.points, *unclear_points(self.effects), *self.always)

    @property
    def concluded(self) -> bool:
        """Whether there is an answer."""
        return self.open_because is None

    @property
    def state(self) -> str:
        """found, not found, or open."""
        return "open" if not self.concluded else "found" if self.found else "not found"

    @property
    def why(self) -> str:
        """All sentences as one text."""
        return " ".join(self.sentences)

    def finding(self, paper: str | None = None) -> Finding:
        """The same as a finding of a report; `paper` is what the authors' numbers say."""
        return Finding(
            code=f"study/{self.factor}",
            title=self.title,
            why=self.why,
            kernels=sorted({*self.kernels, *(i for e in self.effects for i in e.kernels)}),
            action=self.action,
            evidence={
                "found": self.found,
                "concluded": self.concluded,
                "open_because": self.open_because,
                "sentence": self.sentence,
                "paper": paper,
                "bars": [bar._asdict() for bar in self.bars],
                "lead": self.lead.evidence() if self.lead else None,
                "comparisons": [effect.evidence() for effect in self.effects],
                **self.facts,
            },
        )


def leading(effects: Sequence[Effect]) -> Effect | None:
    """The comparison that a sentence is about: of the preferred ones the first that counts, else
    the first that is settled, else the first."""
    ranks = {"slower": 0, "faster": 0, "same": 1, "unclear": 2}
    return min(effects, key=lambda effect: ranks[effect.verdict], default=None)


def undecided(lead: Effect) -> str | None:
    """Why a comparison decides nothing; None where it does."""
    return lead.why_unclear if lead.verdict == "unclear" else None


INCONCLUSIVE = "Inconclusive on this run."
AGAIN = "Run it again with --fresh while nothing else runs."


def times(value: float) -> str:
    """A ratio as it is written: digits that it deserves.

    >>> times(1.034), times(2.66), times(56.2), times(0.47), times(134_217_728)
    ('1.03×', '2.7×', '56×', '0.47×', '134,000,000×')
    """
    if value >= 10_000:
        return f"{float(f'{value:.3g}'):,.0f}×"
    form = ".2f" if value < 1.995 else ".1f" if value < 9.95 else ".0f"
    return f"{value:{form}}×"


def settle(effects: Sequence[Effect | None]) -> tuple[Effect, ...]:
    """Effects with their chances corrected for how many there are."""
    known = [effect for effect in effects if effect is not None]
    corrected = holm([effect.ratio.p for effect in known])
    return tuple(replace(e, p=p) for e, p in zip(known, corrected, strict=True))


def unclear_points(effects: Sequence[Effect]) -> list[str]:
    """Sentences on comparisons that the samples cannot decide."""
    disturbed = sum(effect.disturbed for effect in effects)
    count = sum(effect.verdict == "unclear" and not effect.disturbed for effect in effects)
    of = f"of {len(effects)} comparisons"
    texts = {
        f"{disturbed} {of} are open, because other programs used the processor. {AGAIN}": disturbed,
        f"{count} {of} are open: run-to-run noise is larger than the difference.": count,
    }
    return [text for text, holds in texts.items() if holds]


def digits(value: float) -> float:
    """A number with the digits that it deserves in a file."""
    return float(f"{value:.4g}")
