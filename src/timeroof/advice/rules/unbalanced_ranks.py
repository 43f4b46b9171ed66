"""TR401."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context
from timeroof.advice.rule import MIN_SHARE, Claim, Rule
from timeroof.core.units import format_percent, format_seconds
from timeroof.model.fleet import outlying
from timeroof.read.events import shown_list

MIN_IMBALANCE = 0.05


class UnbalancedRanks(Rule):
    """Ranks that have more to do than others, for whom the others wait.

    **What.** Computing time by rank, collectives left out, where the busiest rank has 5 % more
    than the mean.

    **Why.** Every collective ends when the last rank arrives. The others' waiting looks like
    slow communication, and no faster network helps.

    **Example.** Sequences of different length distributed as they come, experts with different
    load, one node with a lower clock.

    **Which ranks.** Those that stand out from the median rank, as in the warning on ranks; the
    busiest one where none does, or of fewer than four.

    **Seconds.** The busiest rank's time less the mean: what perfect balance would give.

    **Silent** with one rank.
    """

    code = "TR401"
    name = "unbalanced-ranks"
    title = "Some ranks compute longer than the others"
    actions = {
        "any": "Balance the work: bucket samples by length, and shard by cost instead of count."
        " Check the slow ranks' clocks, temperatures and data paths."
    }

    def claims(self, context: Context) -> list[Claim]:
        """The busiest rank against the mean."""
        work = context.rows.filter(pl.col("rank").is_not_null(), pl.col("kind") != "collective")
        ranks = _computing(context, work)
        if ranks.height < 2:
            return []
        most_s, mean_s = float(ranks["time_s"].max() or 0.0), float(ranks["time_s"].mean() or 0.0)  # type: ignore[arg-type]
        if most_s < (1 + MIN_IMBALANCE) * mean_s or most_s - mean_s < MIN_SHARE * context.total_s:
            return []
        slow = _slow(ranks, mean_s)
        rows = work.filter(pl.col("rank").is_in(slow))
        several = len(slow) > 1
        whose = (
            f"Ranks {shown_list([str(rank) for rank in slow])}" if several else f"Rank {slow[0]}"
        )
        why = (
            f"{whose} compute{'' if several else 's'} {'up to ' * several}{format_seconds(most_s)};"
            f" the mean of {ranks.height} ranks is {format_seconds(mean_s)}."
            f" The others wait for {'them' if several else 'it'} in every collective."
        )
        title = (
            f"{whose} compute{' up to' if several else 's'}"
            f" {format_percent(most_s / mean_s - 1)} longer than the mean:"
            f" {format_seconds(most_s)} against {format_seconds(mean_s)}"
        )
        evidence = {
            "rank": slow[0], "slow_ranks": slow, "most_s": most_s, "mean_s": mean_s,
            "ranks": ranks.height,
        }  # fmt: skip
        gains = rows.with_columns(pl.lit(0.0).alias("busy_gain_s"))
        outside = {"imbalance": most_s - mean_s}
        return self.claim(context, gains, why, evidence, title=title, outside_s=outside)


def _slow(ranks: pl.DataFrame, mean_s: float) -> list[int]:
    """The ranks that stand out by computing longer, the longest first; else the busiest one."""
    far = set(outlying(list(ranks.select("rank", "time_s").iter_rows())))
    slow = ranks.filter(pl.col("rank").is_in(far), pl.col("time_s") > mean_s)["rank"].to_list()
    return slow or [int(ranks["rank"][0])]


def _computing(context: Context, work: pl.DataFrame) -> pl.DataFrame:
    """Computing seconds by rank, the longest first; of rows that are summed over ranks, what
    each rank's busy time leaves beside its communication."""
    if work.height:
        # Rows are a mean rank's: its share of them.
        count = context.rows["rank"].drop_nulls().n_unique()
        seconds = work.group_by("rank").agg(pl.col("time_s").sum() * count)
    else:
        known = [
            (r.rank, r.kernel_s - r.communication_s)
            for r in context.rank_totals
            if r.kernel_s is not None and r.communication_s is not None
        ]
        schema = {"rank": pl.Int64, "time_s": pl.Float64}
        seconds = pl.DataFrame(known, schema=schema, orient="row")
    return seconds.sort(["time_s", "rank"], descending=[True, False])
