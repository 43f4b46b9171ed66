"""Time over launches with the fitted line of every group of equal work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timeroof.core.units import format_seconds
from timeroof.study.output.looks import short
from timeroof.views.pictures import FigureSize, Look
from timeroof.views.pictures.frame import LegendEntry, Margins, new_figure, short_number, styled
from timeroof.views.pictures.points import MARKERS, PALETTE
from timeroof.views.pictures.series import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from timeroof.study.factors import Conclusion

MOST_GROUPS = 6


def launch_chart(conclusion: Conclusion) -> Figure:
    """Points by way of running (marker) and work (colour); lines of one slope."""
    facts = conclusion.facts
    shown = facts["groups"][:MOST_GROUPS]
    variants = list(dict.fromkeys(v for g in shown for v in g["variants"]))
    markers = dict(zip(variants, MARKERS, strict=False))
    colours = {g["title"]: PALETTE[i] for i, g in enumerate(shown)}
    legend = [
        [LegendEntry(short(v, 24), Look(GREY, m)) for v, m in markers.items()],
        [LegendEntry(short(t, 48), Look(c, "_"), size=8) for t, c in colours.items()],
    ]
    rows = max(len(column) for column in legend)
    with styled():
        size = FigureSize(width=5.0, height=3.3 + 0.128 * max(0, rows - 3))
        margins = Margins(left=0.62, right=0.15, top=0.44)
        figure, axes = new_figure(size, _title(facts), legend, margins)
        axes.set_xscale("linear")
        axes.set_yscale("linear")
        axes.set_xlabel("launches of one execution")
        axes.set_ylabel("time")
        for group in shown:
            _draw(axes, group, colours[group["title"]], markers, facts["cost_per_launch_s"])
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: short_number(value, "s") or "0")
        axes.grid(color="#ECECEC", lw=0.6)
        axes.set_axisbelow(True)
    return figure


def _title(facts: dict[str, Any]) -> str:
    cost, (low, high) = facts["cost_per_launch_s"], facts["cost_interval_s"]
    return (
        f"fitted: {format_seconds(cost, 2)} per launch"
        f" (95 %: {format_seconds(low, 2)} to {format_seconds(high, 2)})"
    )


def _draw(
    axes: Axes, group: dict[str, Any], colour: str, markers: dict[str, str], cost_s: float
) -> None:
    ends = [0.0, max(group["launches"])]
    axes.plot(ends, [group["start_s"] + cost_s * n for n in ends], color=colour, lw=0.9, alpha=0.7)
    points = zip(
        group["variants"], group["launches"], group["time_s"], group["quartiles_s"], strict=True
    )
    for variant, launches, time_s, (low, high) in points:
        axes.plot([launches, launches], [low, high], color=colour, lw=1.2)
        axes.plot(
            [launches],
            [time_s],
            markers[variant],
            ms=4.4,
            mfc="white",
            mec=colour,
            mew=0.9,
            zorder=3,
        )
