"""TR901."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_percent

NOISY = 0.2
MIN_TIME_SHARE = 0.2
FEW_STEPS = 3


class NoisyMeasurement(Rule):
    """Times that vary too much, or were taken too few times, to build on.

    **What.** Rows with a fifth of the run or more whose samples spread by 20 % or more; or
    fewer than three steps.

    **Why.** A difference smaller than the spread is chance. Other programs, a changing clock
    and a cold start are the usual reasons.

    **Example.** Two steps, measured while a browser is open.

    **Seconds.** None are claimed.

    **Silent** where there are no samples and the number of steps is not known.
    """

    code = "TR901"
    name = "noisy-measurement"
    title = "The measurement is noisy or short"
    actions = {
        "any": "Measure more steps on a quiet machine. End other programs, pin threads, and fix"
        " the clock where you can."
    }

    def claims(self, context: Context) -> list[Claim]:
        """Noise and brevity."""
        rows = context.rows.filter(pl.col("time_spread") >= NOISY)
        share = float(rows["time_s"].sum()) / (float(context.rows["time_s"].sum()) or 1.0)
        steps = context.totals.steps
        short = steps is not None and steps.count < FEW_STEPS
        if share < MIN_TIME_SHARE and not short:
            return []
        words = []
        if share >= MIN_TIME_SHARE:
            words.append(
                f"{format_percent(share)} of the time is in {context.noun}s whose samples spread"
                f" by {format_percent(NOISY)} or more."
            )
        if steps is not None and short:
            words.append(f"{_only(steps.count)}; use {FEW_STEPS} or more.")
        evidence = {"noisy_share": share, "steps": steps.count if steps is not None else None}
        noisy = f"{format_percent(share)} of the time varies by {format_percent(NOISY)} or more"
        few = _only(steps.count if steps else 0)
        title = noisy if share >= MIN_TIME_SHARE else few
        return self.inform(context, rows, " ".join(words), evidence, title=title)


def _only(count: int) -> str:
    return "Only 1 step was measured" if count == 1 else f"Only {count} steps were measured"
