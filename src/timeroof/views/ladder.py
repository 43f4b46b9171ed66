"""How fast a run could be: as it ran, every kernel at its limit, fused, ideal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from timeroof.core.units import format_seconds
from timeroof.views.doubts import is_empty
from timeroof.views.overview import percent

if TYPE_CHECKING:
    from timeroof.core.report import Report


class Rung(msgspec.Struct, frozen=True):
    """One rung of it, with its share of the measured time."""

    key: str
    label: str
    hint: str
    seconds: float
    text: str
    share: float | None
    percent: str


def ladder(report: Report) -> list[Rung]:
    """From the run as it was down to one ideal kernel; only the rungs that are known."""
    limits = report.totals.ladder
    steps = (
        ("measured_s", "As it ran", "idle included"),
        ("roof_s", "Every kernel at its limit", "same work, same launches"),
        ("fused_s", "Each phase perfectly fused", "intermediates never reach memory"),
        ("ideal_s", "One ideal kernel", "the whole step fused into one"),
    )
    whole = limits.measured_s
    rungs = []
    for key, label, hint in steps:
        seconds = None if is_empty(report) else getattr(limits, key)
        if seconds is not None:
            share = seconds / whole if whole else None
            text = format_seconds(seconds)
            rungs.append(Rung(key, label, hint, seconds, text, share, percent(share)))
    return rungs
