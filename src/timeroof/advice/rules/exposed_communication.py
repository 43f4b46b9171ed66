"""TR107."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import LINK, Context, idle_seconds, with_idle_gain
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_percent, format_seconds

Intervals = list[tuple[float, float]]


class ExposedCommunication(Rule):
    """Communication that no computation hides.

    **What.** Collectives during which their device computes nothing (from the timeline), and
    idle time whose cause is communication.

    **Why.** Gradients can be exchanged while the rest of the backward pass runs. What is
    exposed lengthens the step by its full time, on every rank.

    **Example.** DDP with one bucket that is ready only when the backward pass is over.

    **Seconds.** The exposed part of the collectives, and the idle seconds of that cause.

    **Silent** without a timeline or idle causes, and below 1 % of the run.
    """

    code = "TR107"
    name = "exposed-communication"
    title = "Communication is not overlapped"
    actions = {
        "torch": "Overlap it: DDP with smaller buckets (bucket_cap_mb) and"
        " gradient_as_bucket_view=True, FSDP with prefetching; accumulate gradients under"
        " no_sync(); compress them (bf16 hooks).",
        "any": "Start collectives as soon as their data are ready, on their own stream; send fewer"
        " bytes, less often.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Exposed collectives and waits for the link."""
        waiting_s = idle_seconds(context, LINK)
        share = exposed_share(context)
        idle, outside = with_idle_gain(context, LINK)
        rows = context.rows.filter(pl.col("kind") == "collective").with_columns(
            (pl.col("time_s") * (share or 0.0)).alias("busy_gain_s"),
            pl.lit(0.0).alias("idle_gain_s"),
        )
        exposed_s = float(rows["busy_gain_s"].sum())
        if not exposed_s + waiting_s:
            return []
        why = _why(context, float(rows["time_s"].sum()), share, waiting_s)
        evidence = {"exposed_s": exposed_s, "exposed_share": share, "waiting_s": waiting_s}
        both = pl.concat([rows, idle], how="diagonal") if waiting_s else rows
        return self.claim(context, both, why, evidence, outside_s=outside)


def _why(context: Context, time_s: float, share: float | None, waiting_s: float) -> str:
    """Collectives and waiting, whichever there is; how much is exposed only where that is known."""
    sentences = []
    if time_s:
        exposed = "" if share is None else f", {format_percent(share)} of it exposed"
        sentences.append(f"Collectives take {format_seconds(time_s)}{exposed}.")
    if waiting_s:
        who = "program" if context.device_kind == "cpu" else "device"
        more = "another " if time_s else ""
        sentences.append(f"The {who} waits {more}{format_seconds(waiting_s)} for communication.")
    return " ".join(sentences)


def exposed_share(context: Context) -> float | None:
    """The share of collectives' seconds in the timeline with no computation on their device."""
    if context.timeline is None:
        return None
    kinds = context.rows.select(pl.col("id").alias("kernel"), "kind", "rank", "device")
    events = context.timeline.drop_nulls("kernel").join(kinds, on="kernel")
    all_s = exposed_s = 0.0
    for _, part in events.group_by("rank", "device"):
        talking = _union(part.filter(pl.col("kind") == "collective"))
        working = _union(part.filter(pl.col("kind") != "collective"))
        length = sum(end - start for start, end in talking)
        all_s += length
        exposed_s += length - _overlap_s(talking, working)
    return exposed_s / all_s if all_s else None


def _union(events: pl.DataFrame) -> Intervals:
    """The intervals of events, merged."""
    merged: Intervals = []
    spans = events.sort("start_s").select(
        "start_s", (pl.col("start_s") + pl.col("duration_s")).alias("end_s")
    )
    for start, end in spans.iter_rows():
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _overlap_s(first: Intervals, second: Intervals) -> float:
    """Seconds that two merged lists of intervals share."""
    shared, i, j = 0.0, 0, 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        shared += max(0.0, end - start)
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return shared
