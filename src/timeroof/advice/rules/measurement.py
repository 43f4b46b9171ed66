"""What makes the numbers themselves doubtful."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_percent, format_seconds

NOISY = 0.2
MIN_NOISY_SHARE = 0.2
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
        "any": "Measure more steps on a quiet machine: end other programs, pin threads, fix"
        " the clock where you may, and leave the first steps out."
    }

    def claims(self, context: Context) -> list[Claim]:
        """Noise and brevity."""
        rows = context.rows.filter(pl.col("time_spread") >= NOISY)
        share = float(rows["time_s"].sum()) / (float(context.rows["time_s"].sum()) or 1.0)
        steps = context.totals.steps
        short = steps is not None and steps.count < FEW_STEPS
        if share < MIN_NOISY_SHARE and not short:
            return []
        words = []
        if share >= MIN_NOISY_SHARE:
            words.append(
                f"Rows with {format_percent(share)} of the time vary by {format_percent(NOISY)} or"
                " more between samples."
            )
        if steps is not None and short:
            words.append(f"Only {steps.count} of at least {FEW_STEPS} steps were measured.")
        evidence = {"noisy_share": share, "steps": steps.count if steps is not None else None}
        return self.inform(context, rows, " ".join(words), evidence)


MOST_UNKNOWN = 0.1


class UnknownShare(Rule):
    """Too much time in rows whose work is not known.

    **What.** Rows without a limiter, where they hold a tenth of the run or more.

    **Why.** Nothing can be said about them, and no verdict on the whole should hide it.

    **Example.** A trace without shapes, custom kernels, a counter file that lacks a metric.

    **Seconds.** None are claimed.

    **Silent** below a tenth of the run, and without a machine (then nothing is judged at all).
    """

    code = "TR902"
    name = "unknown-share"
    title = "Much of the time has unknown work"
    actions = {
        "torch": "Record shapes (torch.profiler.profile(record_shapes=True)), or use `timeroof run`"
        "; give custom ops a cost with @timeroof.cost_of, and regions with timeroof.cost(...).",
        "any": "Collect FLOP and DRAM counters, or give the costs of custom kernels by hand.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows that nothing is known of."""
        if context.machine is None:
            return []
        rows = context.rows.filter(pl.col("limit") == "unknown")
        time_s = float(rows["time_s"].sum())
        share = time_s / (float(context.rows["time_s"].sum()) or 1.0)
        if share < MOST_UNKNOWN:
            return []
        why = (
            f"{rows.height} rows, {format_seconds(time_s)} ({format_percent(share)} of the kernels'"
            f" time), {_what_is_missing(rows)}, so what limits them is not known; findings cover"
            " only the rest."
        )
        return self.inform(context, rows, why, {"unknown_share": share, "time_s": time_s})


def _what_is_missing(rows: pl.DataFrame) -> str:
    """Whether all of the work is unknown, or a part of it."""
    partly = float(rows.filter(pl.col("work_bound_s") > 0)["time_s"].sum())
    whole = float(rows["time_s"].sum())
    if partly <= 0:
        return "have no known FLOPs and bytes"
    if partly >= whole:
        return "have known FLOPs or bytes, but not both"
    return f"lack FLOPs or bytes ({format_percent(partly / whole)} of it has one of the two)"


MIN_ABOVE_SHARE = 0.01


class AboveRoof(Rule):
    """Kernels faster than their roof: a number is wrong.

    **What.** Rows above their roof beyond the spread for another reason than data in a cache
    (TR205) or noise, with 1 % of the run or more.

    **Why.** A roof cannot be beaten. Either the work is less than counted (Winograd, FFT,
    sparsity, a wrong formula), or the ceiling is too low (a datasheet's base clock, a probe on
    a busy machine, another device than assumed).

    **Example.** A run of an H100 judged on the ceilings of an A100.

    **Seconds.** None are claimed.

    **Silent** below 1 % of the run.
    """

    code = "TR903"
    name = "above-roof"
    title = "Kernels are faster than their roof"
    actions = {
        "any": "Check the machine (--machine, or measure it: `timeroof machine --fresh`) and the"
        " counts of these kernels; bounds and efficiencies of the run are off until then."
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows above the roof, by cause."""
        rows = context.rows.filter(
            pl.col("above_roof").is_not_null(),
            ~pl.col("above_roof").is_in(["cache-resident", "noise"]),
        )
        time_s = float(rows["time_s"].sum())
        share = time_s / (float(context.rows["time_s"].sum()) or 1.0)
        if not rows.height or share < MIN_ABOVE_SHARE:
            return []
        causes = dict(
            rows.group_by("above_roof").agg(pl.col("time_s").sum()).sort("above_roof").iter_rows()
        )
        likely = ", ".join(causes)
        excess = float(rows["work_bound_s"].sum()) / time_s
        why = (
            f"{rows.height} rows with {format_percent(share)} of the time run at"
            f" {format_percent(excess)} of their roof; likely causes: {likely}."
        )
        evidence = {"seconds_by_cause": causes, "times_roof": excess}
        return self.inform(context, rows, why, evidence)
