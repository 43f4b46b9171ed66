"""Pictures of a what-if: bars per machine, and kernels in the combined chart as they would move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.errors import UsageError
from timeroof.core.units import format_seconds
from timeroof.views.compare_chart import balances_of
from timeroof.views.page.text import clip, plain_line
from timeroof.views.pictures.arrows import Move, arrow_chart
from timeroof.views.pictures.of_report import chart_roofs
from timeroof.views.pictures.points import Roofs, Unit
from timeroof.views.pictures.whatif import Bar, machine_bars
from timeroof.views.whatif import split_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.model.whatif.project import Projection, WhatIf

# One combined chart per machine; a page of twenty would help nobody.
MOST_CHARTS = 4
MOST_ROWS = 60


def whatif_figures(result: WhatIf) -> dict[str, Figure]:
    """The bars of all machines, then one combined chart per machine where roofs are known."""
    figures = {"machines": bars_figure(result)}
    for projection in result.projections[:MOST_CHARTS]:
        made = moves_figure(result, projection)
        if made is not None:
            figures[f"combined-{_file_name(projection.machine.name)}"] = made
    return figures


def bars_figure(result: WhatIf) -> Figure:
    """Measured and predicted seconds by limiter, with intervals and bounds."""
    totals = result.report.totals
    if totals.ladder.measured_s is None:
        raise _untimed()
    now = split_seconds(totals.by_limiter, totals.ladder.measured_s)
    bars = [Bar(f"{_short(result.here.name)} (measured)", now, totals.bound_s)]
    for p in result.projections:
        if p.predicted_s is None or p.low_s is None or p.high_s is None:
            raise _untimed()
        seconds = split_seconds(p.by_limiter, p.predicted_s)
        bars.append(Bar(_short(p.machine.name), seconds, p.bound_s, (p.low_s, p.high_s)))
    return machine_bars(bars, title="the same work on other machines (a model)")


def _untimed() -> UsageError:
    return UsageError(
        "nothing was timed in this run, so there is nothing to draw",
        advice="write html, md or json: they have the bounds",
    )


def moves_figure(result: WhatIf, projection: Projection) -> Figure | None:
    """The longest kernels as measured and as predicted, on the roofs of the first machine."""
    roofs = chart_roofs(result.report)
    if roofs is None:
        return None
    moves = _moves(result, projection, roofs)
    here, there = _short(result.here.name), _short(projection.machine.name)
    return arrow_chart(
        moves,
        roofs,
        title=f"{here} → {there} (a model); seconds on the axes are those of {here}",
        balances=balances_of([projection.machine], roofs),
    )


def _moves(result: WhatIf, projection: Projection, roofs: Roofs) -> list[Move]:
    rows = result.report.rows
    moved = f"byte/{roofs.level}"
    if moved not in rows.columns:
        return []
    table = pl.concat(
        [
            rows.select(
                "short_name",
                "time_s",
                "launches",
                pl.col("owed_flops").alias("flops"),
                pl.col(moved).alias("bytes"),
            ),
            # A roof holds for the kernel alone: the idle before it is on neither side.
            projection.table.select(
                pl.col("busy_s").alias("predicted_s"),
                pl.col("busy_low_s").alias("low_s"),
                pl.col("busy_high_s").alias("high_s"),
                "limiter",
                "limiter_now",
            ),
        ],
        how="horizontal",
    ).filter(pl.col("time_s") > 0, pl.col("flops").is_not_null(), pl.col("bytes") > 0)
    moves = []
    for row in table.sort("time_s", descending=True).head(MOST_ROWS).iter_rows(named=True):
        before, after = (
            Unit(
                row["short_name"],
                row["flops"],
                {roofs.level: row["bytes"]},
                row[column] or 0.0,
            )
            for column in ("time_s", "predicted_s")
        )
        change = "" if row["limiter"] == row["limiter_now"] else f", then {row['limiter']}"
        text = (
            f"{clip(plain_line(row['short_name']), 30)}  {format_seconds(row['time_s'])} →"
            f" {format_seconds(row['predicted_s'])}{change}"
        )
        moves.append(Move(before, after, text, interval_s=(row["low_s"], row["high_s"])))
    return moves


def _short(name: str) -> str:
    return clip(plain_line(name), 24)


def _file_name(name: str) -> str:
    return (
        "".join(c if c.isalnum() or c in "-." else "-" for c in name)[:60].strip(".") or "machine"
    )
