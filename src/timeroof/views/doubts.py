"""Why the numbers of a run may not be trusted, and what to do: the banner above everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import polars as pl

from timeroof.core.notes import CONTENDED, UNTRUSTED
from timeroof.core.units import format_percent
from timeroof.views.plain import clip

if TYPE_CHECKING:
    from timeroof.core.report import Report

# Above this share of the run without a limit, or with noisy times, shares say little.
MOSTLY = 0.5
# Below this share of the time kernels above their limit do not matter to the whole.
LEAST_ABOVE = 0.02
LONGEST_NAME = 40
QUIET = "Measure again while nothing else runs."
MORE_STEPS = "Run more steps."
# What to do about a warning, by its code. Warnings that are not here say it themselves.
ADVICE = {
    CONTENDED: QUIET,
    UNTRUSTED: QUIET,
    "unexplained": QUIET,
    "no-unprofiled-step": MORE_STEPS,
    "block-once": "In a loop, say where each step ends with p.step(), or decorate the function of"
    " a step with @timeroof.profile: then steps are timed without instruments, too.",
    "not-described": MORE_STEPS,
    "cut-off": "Record the trace again, or read on with care.",
    "damaged": "Record the trace again, or read on with care.",
}
NOISY = "TR901"
UNKNOWN = "TR902"
# What a machine is called that was measured as it is.
HERE = "here"
# Said by the banner in words of its own.
OWN = ("no-machine", "no-device")


class Doubt(msgspec.Struct, frozen=True):
    """A reason not to trust the numbers, and what to do about it."""

    text: str
    advice: str = ""
    code: str = ""


def is_empty(report: Report) -> bool:
    """Whether nothing was measured: sums over no rows are not 0 but unknown."""
    return not len(report.profile)


def doubts_of(report: Report) -> list[Doubt]:
    """Every reason that is at hand, the gravest first."""
    warned = [note for note in report.notes if note.level != "info" and note.code not in OWN]
    doubts = [Doubt(str(note), ADVICE.get(note.code, ""), note.code) for note in warned]
    found = [*_unknown(report), *_noisy(report), *_above_roof(report), *doubts]
    # Where the times say nothing, that comes first.
    return sorted(found, key=lambda doubt: doubt.code != UNTRUSTED)


def _unknown(report: Report) -> list[Doubt]:
    if is_empty(report):
        return []
    if report.machine is None:
        words = "No machine is named, so the limits of the kernels are unknown."
        return [Doubt(words, "Add --machine NAME; `timeroof machines` lists them.", "no-machine")]
    totals = report.totals
    paused_s = totals.steps.pause_s or 0.0 if totals.steps is not None else 0.0
    whole = sum(s for s in totals.by_class.values() if s > 0) - paused_s
    unknown = totals.by_class.get("unknown", 0.0)
    if not whole or unknown <= MOSTLY * whole:
        return []
    share = format_percent(unknown / whole)
    words = f"{share} of the run has no FLOP or byte counts, so its limit is unknown."
    cure = next((f.action for f in report.findings if f.code == UNKNOWN), None)
    return [Doubt(words, cure or "", "mostly-unknown")]


def _noisy(report: Report) -> list[Doubt]:
    finding = next((f for f in report.findings if f.code == NOISY), None)
    share = None if finding is None else finding.evidence.get("noisy_share")
    if share is None or share < MOSTLY:
        return []
    words = f"Kernels with {format_percent(share)} of the time vary by 20 % or more between calls."
    return [Doubt(words, "Measure more steps on a quiet machine.", "noisy")]


def _above_roof(report: Report) -> list[Doubt]:
    """Kernels that beat their limit: a limit of the whole that contains them is none."""
    above = report.rows.filter(pl.col("above_roof").is_not_null())
    whole_s = float(report.rows["time_s"].sum())
    if not above.height or float(above["time_s"].sum()) < LEAST_ABOVE * whole_s:
        return []
    worst = above.sort("kernel_efficiency", descending=True, nulls_last=True).row(0, named=True)
    kernels = "1 kernel runs" if above.height == 1 else f"{above.height} kernels run"
    share = format_percent(worst["kernel_efficiency"])
    name = clip(worst["short_name"] or "", LONGEST_NAME)
    words = f"{kernels} faster than the limit, {name} at {share} of it ({worst['above_roof']})."
    return [Doubt(words, _machine_advice(report), "above-roof")]


def _machine_advice(report: Report) -> str:
    """What to check first: a measurement may be of another hour, a datasheet of another device."""
    if report.machine is not None and report.machine.name == HERE:
        return (
            "The machine may be faster now than when it was measured: `timeroof machine --fresh`"
            " measures it anew. Then check the counts."
        )
    return "Check the machine and the counts."
