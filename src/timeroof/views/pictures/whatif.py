"""Predicted time of a run on several machines: stacked by limiter, with the interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.errors import UsageError
from timeroof.core.units import format_seconds
from timeroof.views.compare import balances_of
from timeroof.views.palette import LIMITER_COLOURS, LIMITER_WORDS
from timeroof.views.pictures.arrows import Move, arrow_chart
from timeroof.views.pictures.frame import (
    GUIDE_COLOUR,
    TEXT_COLOUR,
    FigureSize,
    short_number,
    styled,
)
from timeroof.views.pictures.of_report import chart_roofs
from timeroof.views.pictures.points import Roofs, Unit
from timeroof.views.plain import clip, plain_line
from timeroof.views.whatif import OUTSIDE, split_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from timeroof.model.whatif.project import Projection, WhatIf

ROW, FOOT, HEAD = 0.36, 0.78, 0.42
OUTSIDE_COLOUR = "#C4C4C4"


@dataclass(frozen=True)
class Bar:
    """One machine: seconds by what limits them, and the ends of the interval (None: measured)."""

    name: str
    seconds: Mapping[str, float]
    bound_s: float | None = None
    interval_s: tuple[float, float] | None = None

    @property
    def total_s(self) -> float:
        """Seconds of the whole bar."""
        return sum(self.seconds.values())

    @property
    def end_s(self) -> float:
        """Where the bar or its interval ends."""
        return max(self.total_s, self.interval_s[1] if self.interval_s else 0.0)


def machine_bars(bars: Sequence[Bar], *, title: str = "") -> Figure:
    """One bar per machine to a common scale; a whisker is the interval, a tick the bound."""
    from matplotlib.figure import Figure

    height = HEAD + ROW * len(bars) + FOOT
    size = FigureSize(width=7.0, height=height)
    with styled():
        figure = Figure(figsize=(size.width, size.height), dpi=size.dpi)
        axes = figure.add_axes(
            (
                1.5 / size.width,
                FOOT / height,
                (size.width - 2.6) / size.width,
                ROW * len(bars) / height,
            )
        )
        longest = (
            max([b.interval_s[1] if b.interval_s else b.total_s for b in bars] or [1.0]) or 1.0
        )
        for place, bar in enumerate(bars):
            _draw(axes, bar, place, longest)
        _frame(axes, bars, longest)
        _legend(figure, bars)
        figure.text(
            0.5, 1 - 0.08 / height, title, ha="center", va="top", fontsize=8, color=TEXT_COLOUR
        )
    return figure


def _draw(axes: Axes, bar: Bar, place: int, longest: float) -> None:
    left = 0.0
    for kind, seconds in bar.seconds.items():
        if seconds > 0:
            colour = LIMITER_COLOURS.get(kind, OUTSIDE_COLOUR)
            axes.barh(place, seconds, left=left, height=0.6, color=colour, linewidth=0)
            left += seconds
    if bar.interval_s is not None and bar.interval_s[1] > bar.interval_s[0]:
        low, high = bar.interval_s
        axes.plot([low, high], [place, place], color=TEXT_COLOUR, lw=1.0, zorder=4)
        for end in (low, high):
            axes.plot([end, end], [place - 0.14, place + 0.14], color=TEXT_COLOUR, lw=1.0, zorder=4)
    if bar.bound_s:
        axes.plot(
            [bar.bound_s] * 2,
            [place - 0.38, place + 0.38],
            color=TEXT_COLOUR,
            lw=1.4,
            ls=":",
            zorder=5,
        )
    end = max(bar.total_s, bar.interval_s[1] if bar.interval_s else 0.0)
    axes.text(
        end + 0.012 * longest, place, format_seconds(bar.total_s), va="center", fontsize=7,
        color=TEXT_COLOUR, clip_on=False,
    )  # fmt: skip


def _frame(axes: Axes, bars: Sequence[Bar], longest: float) -> None:
    axes.set_xlim(0, longest * 1.02)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars])
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(lambda value, _: short_number(value, "s") or "0")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _legend(figure: Figure, bars: Sequence[Bar]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kinds = [
        k
        for k in [*LIMITER_COLOURS, OUTSIDE]
        if any(b.seconds.get(k, 0) > 1e-3 * b.total_s for b in bars)
    ]
    handles: list[Line2D | Patch] = [
        Patch(color=LIMITER_COLOURS.get(k, OUTSIDE_COLOUR), label=LIMITER_WORDS.get(k, k))
        for k in kinds
    ]
    handles.append(Line2D([], [], color=TEXT_COLOUR, lw=1.0, label="interval"))
    handles.append(Line2D([], [], color=TEXT_COLOUR, lw=1.4, ls=":", label="bound"))
    figure.legend(
        handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=6.5,
        handlelength=1.2, columnspacing=1.1, labelcolor=GUIDE_COLOUR,
    )  # fmt: skip


# Pictures of a what-if: bars per machine, and kernels in the combined chart as they would move.


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
            Unit(row["short_name"], row["flops"], {roofs.level: row["bytes"]}, row[column] or 0.0)
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
