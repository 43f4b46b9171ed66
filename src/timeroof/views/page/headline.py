"""The first screen of the page in words and shares: time, efficiency, ladder, limiters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.units import format_amount, format_percent, format_seconds, format_work
from timeroof.model.totals import unexplained_words
from timeroof.views.palette import LIMITER_WORDS

if TYPE_CHECKING:
    from timeroof.core.report import Report, Totals

# Below this known share of the time, no gain is promised in words.
MOSTLY_UNKNOWN = 0.5


def percent(share: float | None) -> str:
    """A share as a percentage; what is next to nothing is called so.

    >>> percent(0.5478), percent(6e-9), percent(0.0)
    ('55 %', '< 0.01 %', '0 %')
    """
    return "< 0.01 %" if share is not None and 0 < share < 1e-4 else format_percent(share)


@dataclass(frozen=True)
class Card:
    """One number of the headline; `value` is the plain number behind the text."""

    key: str
    label: str
    text: str
    value: float | None
    hint: str


@dataclass(frozen=True)
class Rung:
    """One rung of the ladder of limits; a share of the measured time, none where unknown."""

    key: str
    label: str
    hint: str
    seconds: float | None
    text: str
    share: float | None


@dataclass(frozen=True)
class Part:
    """A part of a stacked bar; one below 0 is a notch at its end."""

    key: str
    label: str
    seconds: float
    text: str
    percent: str
    share: float


def time_label(totals: Totals) -> str:
    """What the measured seconds are seconds of."""
    if totals.steps is not None and totals.steps.unprofiled_s is not None:
        return "Step time"
    return "Run time" if totals.wall_s is not None else "Kernel time"


def is_empty(report: Report) -> bool:
    """Whether nothing was measured: sums over no rows are not 0 but unknown."""
    return not len(report.profile)


def _empty_cards(report: Report) -> list[Card]:
    """The headline of a run without rows; its step may have been seen without instruments."""
    wall_s = report.totals.wall_s
    shown = "unknown" if wall_s is None else format_seconds(wall_s)
    keys = ("efficiency", "recoverable_s", "known_time_share")
    others = zip(keys, ("Efficiency", "Recoverable", "Known"), strict=True)
    return [
        Card("measured_s", time_label(report.totals), shown, wall_s, "no row was recorded"),
        *(Card(key, label, "unknown", None, "nothing to judge") for key, label in others),
    ]


def cards(report: Report) -> list[Card]:
    """The numbers that a reader takes away in ten seconds."""
    if is_empty(report):
        return _empty_cards(report)
    totals = report.totals
    measured, recoverable = totals.ladder.measured_s, totals.recoverable_s
    share = recoverable / measured if recoverable is not None and measured else None
    kernels = percent(totals.kernel_efficiency)
    hint = f"lower bound over elapsed time; kernels alone {kernels}"
    gained = f"at most, of every kernel at its bound: {percent(share)} of the time"
    counted = totals.known_time_share
    known = "of the time is in rows whose FLOPs and bytes are both known"
    return [
        Card("measured_s", time_label(totals), format_seconds(measured), measured, _steps(report)),
        Card("efficiency", "Efficiency", percent(totals.efficiency), totals.efficiency, hint),
        Card("recoverable_s", "Recoverable", format_seconds(recoverable), recoverable, gained),
        Card("known_time_share", "Known", percent(counted), counted, known),
    ]


def _steps(report: Report) -> str:
    totals = report.totals
    rows = f"{_counted(len(report.profile), 'row')}, {_counted(totals.launches, 'launch', 'es')}"
    if totals.steps is not None and totals.steps.count:
        seen = "1 step" if totals.steps.count == 1 else f"{totals.steps.count:,} steps"
        unprofiled = "unprofiled; " if totals.steps.unprofiled_s is not None else ""
        return f"{unprofiled}{seen} seen; {rows}"
    if totals.wall_s is not None:
        return f"wall clock; kernels {format_seconds(totals.kernel_s)}; {rows}"
    return f"sum over the rows, gaps not included; {rows}"


def _counted(count: float | None, noun: str, plural: str = "s") -> str:
    """A count with its noun.

    >>> _counted(1, "row"), _counted(1640, "launch", "es"), _counted(2.5, "launch", "es")
    ('1 row', '1,640 launches', '2.5 launches')
    """
    if count is None:
        return f"unknown {noun}{plural}"
    whole = f"{count:,.0f}" if count >= 100 or float(count).is_integer() else f"{count:.3g}"
    return f"{whole} {noun}{'' if whole == '1' else plural}"


def ladder(report: Report) -> list[Rung]:
    """From the run as it was down to one ideal kernel."""
    limits = report.totals.ladder
    steps = (
        ("measured_s", "As it ran", "idle included"),
        ("roof_s", "Every kernel at its roof", "same work, same launches"),
        ("fused_s", "Each phase perfectly fused", "intermediates never reach memory"),
        ("ideal_s", "One ideal kernel", "the whole step fused into one"),
    )
    whole = limits.measured_s
    rungs = []
    for key, label, hint in steps:
        seconds = None if is_empty(report) else getattr(limits, key)
        share = seconds / whole if seconds is not None and whole else None
        rungs.append(Rung(key, label, hint, seconds, format_seconds(seconds), share))
    return rungs


def limiter_parts(totals: Totals) -> list[Part]:
    """Seconds of rows by what limits them, of the kinds that have any."""
    return _parts(totals.by_limiter, LIMITER_WORDS)


def idle_parts(totals: Totals) -> list[Part]:
    """Busy and idle seconds of the wall clock, idle by cause where it is known, and the rest.

    They sum to the wall clock. Where profiled steps were slower than unprofiled ones, what is
    unexplained is below 0: a notch past the end of the wall clock.
    """
    idle_s, by_cause = totals.idle_s, totals.idle_by_cause
    if totals.kernel_s is None or totals.wall_s is None or idle_s is None or idle_s <= 0:
        return []
    seconds = {"busy": totals.kernel_s, **{f"idle: {k}": v for k, v in by_cause.items()}}
    rest = idle_s - sum(by_cause.values())
    if rest > 1e-3 * idle_s:
        seconds["idle"] = rest
    seconds["unexplained"] = totals.unexplained_s or 0.0
    return _parts(seconds, {})


def seconds_words(report: Report) -> str:
    """Which seconds a reader of a live run sees, and what of them is unexplained."""
    totals, steps = report.totals, report.totals.steps
    if steps is None or totals.unexplained_s is None:
        return ""
    words = [
        f"All times are seconds of an unprofiled step ({format_seconds(totals.wall_s)}).",
        "Kernels and idle time were measured in profiled steps"
        f" ({format_seconds(steps.profiled_s)}), less profiler overhead.",
        unexplained_words(totals) or "Together they explain the whole step.",
    ]
    return " ".join(words)


def sum_text(parts: list[Part]) -> str:
    """What the parts of a bar sum to."""
    return format_seconds(sum(part.seconds for part in parts)) if parts else ""


def _parts(seconds: dict[str, float], words: dict[str, str]) -> list[Part]:
    whole = sum(s for s in seconds.values() if s > 0) or 1.0
    return [
        Part(key, words.get(key, key), s, format_seconds(s), percent(s / whole), s / whole)
        for key, s in seconds.items()
        if s
    ]


def verdict_sentence(report: Report) -> str:
    """What the run is bound by and where seconds could come back, in one or two sentences."""
    totals = report.totals
    if is_empty(report):
        return "Nothing was measured."
    if totals.ladder.measured_s is None:
        return "No kernel was timed."
    if report.machine is None:
        return "No machine is known for this run, so nothing is bounded: name one with --machine."
    parts = sorted(limiter_parts(totals), key=lambda part: -part.seconds)
    if not parts:
        return "No kernel took any time."
    first = parts[0]
    by = "of unknown limit" if first.key == "unknown" else f"bound by {first.label}"
    words = [f"{first.percent} of the kernel time is {by}"]
    words += [f"{part.percent} by {part.label}" for part in parts[1:3] if part.share >= 0.05]
    known = totals.known_time_share
    if known is not None and known < MOSTLY_UNKNOWN:
        return (
            f"{', '.join(words)}. FLOPs and bytes are known for only {percent(known)} of it:"
            " efficiency and recoverable time say little until more is counted."
        )
    return f"{', '.join(words)}. {_gap_sentence(report)}".strip()


def _gap_sentence(report: Report) -> str:
    gaps = report.rows["gap_s"].drop_nulls()
    gaps = gaps.filter(gaps > 0).sort(descending=True)
    whole = float(gaps.sum())
    if not whole:
        return ""
    reach = int((gaps.cum_sum() < 0.8 * whole).sum()) + 1
    rows = "1 row holds" if reach == 1 else f"{reach:,} of {len(report.profile):,} rows hold"
    return f"{rows} 80 % of what better kernels could bring back ({format_seconds(whole)})."


def amounts_line(totals: Totals) -> str:
    """Total work in a line."""
    # From the level next to the cores outwards.
    levels = sorted(totals.bytes.items(), key=lambda item: (item[0] == "dram", item[0]))
    moved = [(level.upper(), float(v)) for level, v in levels if v is not None]
    texts = [f"{format_amount(v, 'B')} at {level}" for level, v in moved]
    return ", ".join([*format_work(totals.flops), *texts])


def origin_rows(report: Report) -> list[tuple[str, str, int, str]]:
    """How every kind of number came about: what, origin, rows, share of the time."""
    rows = report.profile.kernels
    whole = float(rows["time_s"].sum()) or 1.0
    found = []
    for name in (c for c in rows.columns if c.startswith("origin.")):
        groups = rows.group_by(name).agg(pl.len(), pl.col("time_s").sum())
        groups = groups.sort("time_s", descending=True)
        found += [
            (name.removeprefix("origin."), origin or "unknown", count, percent(s / whole))
            for origin, count, s in groups.iter_rows()
        ]
    return found
