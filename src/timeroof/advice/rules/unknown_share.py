"""TR902."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, kernel_count, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.columns import bytes_known, first_of, flops_known
from timeroof.core.units import format_percent, format_seconds

MOST_UNKNOWN = 0.1
NO_OP, NO_SHAPES, NO_FORMULA = "no op is recorded", "no shapes are recorded", "no formula counts it"


class UnknownShare(Rule):
    """Too much time in rows whose work is not known.

    **What.** Rows without a limiter whose FLOPs or bytes are unknown, where they hold a tenth of
    the kernels' time or more. Collectives are left out: their time is known as communication.

    **Why.** Nothing can be said about them, and no verdict on the whole should hide it.

    **Example.** A trace without shapes, custom kernels, a counter file that lacks a metric.

    **Seconds.** None are claimed.

    **Silent** below a tenth of the kernels' time, and without a machine (then nothing is judged at
    all).
    """

    code = "TR902"
    name = "unknown-share"
    title = "FLOPs or bytes are unknown for much of the time"
    counts = True
    actions = {
        "any": "Collect FLOP and DRAM counters, or state the cost of custom kernels by hand.",
    }
    # What helps PyTorch's traces, by the cause that holds most of the time.
    cures = {
        NO_SHAPES: "Record shapes: torch.profiler.profile(record_shapes=True), or use"
        " `timeroof run`.",
        NO_OP: "Record CPU activity too, and start the profiler before the step. Kernels of a"
        " replayed graph have no op: profile a run without graphs to see their work.",
        NO_FORMULA: "State the cost of custom ops with @timeroof.cost_of, and of regions with"
        " timeroof.cost(flops=…, bytes=…).",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows that nothing is known of."""
        if context.machine is None:
            return []
        own = context.rows.filter(pl.col("kind") != "collective")
        known = flops_known(own.columns) & bytes_known(own.columns)
        rows = own.filter((pl.col("limit") == "unknown") & ~known)
        time_s = float(rows["time_s"].sum())
        share = time_s / (float(own["time_s"].sum()) or 1.0)
        if share < MOST_UNKNOWN:
            return []
        causes = _causes(rows)
        first = max(causes, key=lambda cause: causes[cause])
        why = (
            f"{kernel_count(rows)} {context.noun}s ({format_seconds(time_s)},"
            f" {format_percent(share)} of the {context.noun}s' time) {_what_is_missing(rows)}."
            f"{_cause_words(context, first, causes[first] / time_s)}{places(rows)}"
        )
        title = f"FLOPs or bytes are unknown for {context.of_run(time_s)}"
        evidence = {"unknown_share": share, "time_s": time_s, "seconds_by_cause": causes}
        action = self.cures[first] if context.framework == "torch" else None
        return self.inform(context, rows, why, evidence, title=title, action=action)


def _cause_words(context: Context, cause: str, share: float) -> str:
    """The largest cause; counter files have neither ops nor shapes to miss."""
    return f" For {format_percent(share)} of it {cause}." if context.framework == "torch" else ""


def _causes(rows: pl.DataFrame) -> dict[str, float]:
    """Seconds by why the work is unknown."""
    cause = first_of(
        (pl.col("op").is_null(), NO_OP), (pl.col("shape").is_null(), NO_SHAPES),
        otherwise=NO_FORMULA,
    )  # fmt: skip
    sums = rows.group_by(cause.alias("cause"), maintain_order=True).agg(pl.col("time_s").sum())
    return dict(sums.sort("cause").iter_rows())


def _what_is_missing(rows: pl.DataFrame) -> str:
    """Whether all of the work is unknown, or a part of it."""
    partly = float(rows.filter(pl.col("work_bound_s") > 0)["time_s"].sum())
    whole = float(rows["time_s"].sum())
    if partly <= 0:
        return "have no known FLOPs and bytes"
    if partly >= whole:
        return "have known FLOPs or bytes, but not both"
    return f"lack FLOPs or bytes ({format_percent(partly / whole)} of it has one of the two)"
