"""A chart per factor that shows its conclusion."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from timeroof.core.units import format_amount, format_seconds
from timeroof.study.factors import Conclusion, Effect
from timeroof.study.output.looks import short
from timeroof.views.palette import PALETTE
from timeroof.views.pictures import Look
from timeroof.views.pictures.frame import (
    GUIDE_COLOUR,
    TEXT_COLOUR,
    FigureSize,
    Legend,
    LegendEntry,
    Margins,
    decade_axis,
    log_limits,
    new_figure,
    short_number,
    styled,
)
from timeroof.views.pictures.machine import CurvePoint, bandwidth_curve
from timeroof.views.pictures.marks import GREY as LAUNCH_CHART_GREY
from timeroof.views.pictures.marks import LabelPlacer
from timeroof.views.pictures.points import MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from timeroof.study.factors import Conclusion

# Frames of charts with a line of text per row: room for words on the left.


WIDTH = 5.0
ROW = 0.3
LEFT = 1.95


def plain_axes(
    title: str, rows: int, legend: Legend, *, right: float = 0.15
) -> tuple[Figure, Axes]:
    """Linear axes with `rows` lines, the first on top."""
    height = 1.0 + ROW * max(rows, 1)
    margins = Margins(left=LEFT, right=right, top=0.3, bottom=0.46)
    figure, axes = new_figure(FigureSize(width=WIDTH, height=height), title, legend, margins)
    axes.set_xscale("linear")
    axes.set_yscale("linear")
    axes.set_ylim(rows - 0.5, -0.5)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="x", color="#ECECEC", lw=0.6, zorder=0)
    axes.set_axisbelow(True)
    return figure, axes


def row_labels(axes: Axes, names: Sequence[tuple[str, str]]) -> None:
    """Two lines of text left of every row: what, and of which case."""
    axes.set_yticks([])
    for place, (what, case) in enumerate(names):
        where: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right"}
        axes.text(-0.015, place - 0.02, what, va="bottom", fontsize=6.5, color=TEXT_COLOUR, **where)
        axes.text(-0.015, place + 0.06, case, va="top", fontsize=5, color=GUIDE_COLOUR, **where)


# Time over launches with the fitted line of every group of equal work.


MOST_GROUPS = 6


def launch_chart(conclusion: Conclusion) -> Figure:
    """Points by way of running (marker) and work (colour); lines of one slope."""
    facts = conclusion.facts
    shown = facts["groups"][:MOST_GROUPS]
    variants = list(dict.fromkeys(v for g in shown for v in g["variants"]))
    markers = dict(zip(variants, MARKERS, strict=False))
    colours = {g["title"]: PALETTE[i] for i, g in enumerate(shown)}
    legend = [
        [LegendEntry(short(v, 24), Look(LAUNCH_CHART_GREY, m)) for v, m in markers.items()],
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


# Bytes per second over the working set, with cache sizes and the ceilings of their levels.


def working_set_chart(curve: Sequence[dict[str, float]], facts: dict[str, Any]) -> Figure:
    """The kernel's rate over its working set; bars where a level's ceiling lies."""
    from timeroof.views.pictures.frame import styled

    points = [CurvePoint("element-wise", int(p["size_bytes"]), p["bytes_per_s"]) for p in curve]
    sizes = {level: int(size) for level, size in facts["cache_sizes"].items()}
    figure = bandwidth_curve(points, sizes, "bytes per second over the working set")
    axes = figure.axes[0]
    ceilings = [c for c in facts["ceilings"].values() if c]
    axes.set_xlim(right=1.8 * axes.get_xlim()[1])
    low, high = axes.get_ylim()
    axes.set_ylim(low, max(high, 1.4 * max(ceilings, default=high)))
    with styled():
        _draw_ceilings(axes, sizes, facts["ceilings"], points)
    return figure


def _draw_ceilings(
    axes: Axes,
    sizes: dict[str, int],
    ceilings: dict[str, float | None],
    points: Sequence[CurvePoint],
) -> None:
    """A bar per level over the sets that it holds, named where there is room."""
    labels = LabelPlacer(axes, _along(points))
    left, right = axes.get_xlim()
    ordered = [*sorted(sizes.items(), key=lambda item: item[1]), ("dram", right)]
    start = left
    for level, end in ordered:
        rate = ceilings.get(level)
        stop = min(float(end), right)
        if rate and stop > start:
            axes.plot([start, stop], [rate, rate], color=PALETTE[1], lw=1.6, alpha=0.8, zorder=1)
            text = f"{level.upper()} {format_amount(rate, 'B/s', 2)}"
            labels.write(
                (left, rate), (right, rate), text, places=_places(start, stop, left, right)
            )
        start = max(start, stop)
    axes.tick_params(colors=GUIDE_COLOUR)


def _along(points: Sequence[CurvePoint]) -> list[tuple[float, float]]:
    """Points along the drawn curve, close enough that no text lies on it."""
    import numpy as np

    ordered = sorted((p.size_bytes, p.rate_per_s) for p in points)
    x, y = np.log(np.array(ordered, dtype=np.float64)).T
    dense = np.linspace(x[0], x[-1], 120)
    return list(zip(np.exp(dense), np.exp(np.interp(dense, x, y)), strict=True))


def _places(start: float, stop: float, left: float, right: float) -> tuple[float, ...]:
    """Where along the whole width a level's name may stand: near the end of its own bar."""
    import math

    whole = math.log(right / left)
    end = math.log(stop / left) / whole
    middle = math.log(math.sqrt(start * stop) / left) / whole
    return (end, middle + 0.1, 0.98, 0.96, min(1.0, end + 0.1))


BLUE, ORANGE, GREEN, GREY = PALETTE[0], PALETTE[1], PALETTE[2], "#8B929B"
VERDICTS = {
    "faster": ("faster", BLUE, "o"),
    "slower": ("slower", ORANGE, "s"),
    "same": ("no difference", GREY, "D"),
    "unclear": ("cannot be told", GREY, "X"),
}
MOST_ROWS = 16

Drawn = list[tuple[str, "Figure"]]


def factor_charts(conclusion: Conclusion) -> Drawn:
    """Captions and charts of one conclusion."""
    return [(caption, chart) for caption, chart in _CHARTS[conclusion.factor](conclusion)]


def _intensity(conclusion: Conclusion) -> Drawn:
    caption = (
        "The power of the parameter with which FLOPs, intensity and time grow, a symbol per series."
        " Time beside FLOPs: along the roof. Time below FLOPs while intensity is above 0: memory"
        " let go. Time at 0: something else takes it."
    )
    return [(caption, exponent_chart(conclusion.facts["sweeps"]))]


def exponent_chart(moves: Sequence[dict[str, Any]]) -> Figure:
    """Exponents of FLOPs, intensity and time over every parameter, a line per parameter."""
    looks = {
        "flops": ("FLOPs", GREEN, "s", 5.6),
        "ai": ("FLOP per byte", ORANGE, "^", 5.0),
        "time": ("time", BLUE, "o", 4.0),
    }
    places = list(dict.fromkeys((m["kernel"], m["parameter"]) for m in moves))[:MOST_ROWS]
    names = [(short(f"{op} {p.replace('_', ' ')}", 30), _span(moves, op, p)) for op, p in places]
    legend = [[LegendEntry(text, Look(c, mark, False))] for text, c, mark, _ in looks.values()]
    with styled():
        figure, axes = plain_axes("what grows with a parameter", len(places), legend)
        axes.set_xlabel("exponent: grows as the parameter to the power")
        axes.axvline(0, color=GUIDE_COLOUR, lw=0.8)
        for move in moves:
            if (move["kernel"], move["parameter"]) in places:
                place = places.index((move["kernel"], move["parameter"]))
                for name, (_, colour, mark, size) in looks.items():
                    axes.plot(
                        [move["exponents"][name]], [place], mark, ms=size, mfc="none", mec=colour,
                        mew=1.0, zorder=3,
                    )  # fmt: skip
        axes.margins(x=0.08)
        row_labels(axes, names)
    return figure


def _span(moves: Sequence[dict[str, Any]], op: str, parameter: str) -> str:
    values = [m["values"] for m in moves if (m["kernel"], m["parameter"]) == (op, parameter)]
    series = f", {len(values)} series" if len(values) > 1 else ""
    return short(f"{values[0][0]} to {values[0][-1]}{series}", 40)


def _autotune(conclusion: Conclusion) -> Drawn:
    caption = (
        "Time of each way of running the same work over that of the default, with 95 % intervals."
    )
    return [(caption, ratio_chart(conclusion.effects, "the same work by another algorithm"))]


def _locality(conclusion: Conclusion) -> Drawn:
    drawn: Drawn = []
    pairs = [e for e in conclusion.effects if e.facts["kind"] != "level"]
    if pairs:
        caption = (
            "Time of channels_last over contiguous, and of cold caches over warm ones, with 95 %"
            " intervals."
        )
        drawn.append((caption, ratio_chart(pairs, "layout and caches")))
    if conclusion.facts["levels"]:
        caption = (
            "Bytes per second over the working set. Dotted: sizes of the caches. Bars: what each"
            " level can do."
        )
        drawn.append((caption, working_set_chart(conclusion.facts["curve"], conclusion.facts)))
    return drawn


def _launch(conclusion: Conclusion) -> Drawn:
    caption = (
        "Time over launches: points of one colour are the same work; the lines have the fitted"
        " cost per launch as their slope."
    )
    return [(caption, launch_chart(conclusion))] if conclusion.facts else []


def _precision(conclusion: Conclusion) -> Drawn:
    drawn: Drawn = []
    types = [e for e in conclusion.effects if e.facts["kind"] == "type"]
    shapes = [e for e in conclusion.effects if e.facts["kind"] == "shape"]
    if types:
        caption = (
            "How many times as fast as fp32, a symbol per case with its 95 % interval; the bar ends"
            " at the middle case."
        )
        drawn.append((caption, gain_chart(types)))
    if shapes:
        caption = "Seconds per FLOP of odd sides over those of sides that fit, with 95 % intervals."
        drawn.append((caption, ratio_chart(shapes, "odd shapes against fitting ones")))
    return drawn


def ratio_chart(effects: Sequence[Effect], title: str) -> Figure:
    """Ratios with their intervals around 1, a line per comparison; of many the largest."""
    largest = sorted(effects, key=lambda e: -abs(math.log(e.ratio.value)))[:MOST_ROWS]
    ordered = sorted(largest, key=lambda e: (e.group, e.ratio.value))
    if len(effects) > MOST_ROWS:
        title = f"{title}: the {MOST_ROWS} largest of {len(effects)}"
    names = [(short(f"{e.other} / {e.base}", 34), short(e.group, 48)) for e in ordered]
    legend = _verdict_legend(ordered)
    with styled():
        figure, axes = plain_axes(title, len(ordered), legend)
        axes.set_xscale("log")
        ends = [v for e in ordered for v in (e.ratio.low, e.ratio.high)]
        axes.set_xlim(log_limits([*ends, 1.0], pad=1.15))
        decade_axis(axes.xaxis, "", axes.get_xlim())
        axes.set_xlabel("time ratio (left of 1 is faster)")
        axes.axvline(1, color=GUIDE_COLOUR, lw=0.8)
        for place, effect in enumerate(ordered):
            _, colour, mark = VERDICTS[effect.verdict]
            axes.plot([effect.ratio.low, effect.ratio.high], [place, place], color=colour, lw=1.4)
            axes.plot([effect.ratio.value], [place], mark, color=colour, ms=4.6, zorder=3)
        row_labels(axes, names)
    return figure


def _verdict_legend(effects: Sequence[Effect]) -> list[list[LegendEntry]]:
    seen = {e.verdict for e in effects}
    return [
        [LegendEntry(text, Look(colour, mark))]
        for name, (text, colour, mark) in VERDICTS.items()
        if name in seen
    ]


def gain_chart(effects: Sequence[Effect]) -> Figure:
    """Gains over fp32 from 0: a bar per kernel and type to its middle case, a symbol per case."""
    held: dict[tuple[str, str], list[Effect]] = {}
    for effect in effects:
        held.setdefault((effect.group.split()[0], effect.other), []).append(effect)
    places = sorted(held)[:MOST_ROWS]
    names = [(short(_type_name(held[p][0]), 34), _cases(p[0], held[p])) for p in places]
    with styled():
        figure, axes = plain_axes(
            "gain over fp32", len(places), _verdict_legend(effects), right=0.8
        )
        axes.set_xlim(0, 1.08 * max(1.0, *(1 / e.ratio.low for p in places for e in held[p])))
        axes.set_xlabel("times as fast as fp32")
        axes.axvline(1, color=GUIDE_COLOUR, lw=0.8)
        for line, place in enumerate(places):
            _draw_gains(axes, line, held[place])
        row_labels(axes, names)
    return figure


def _draw_gains(axes: Axes, line: int, members: Sequence[Effect]) -> None:
    gains = sorted(1 / e.ratio.value for e in members)
    axes.barh([line], [gains[len(gains) // 2]], height=0.5, color="#DCE6EE", zorder=1)
    for effect in members:
        _, colour, mark = VERDICTS[effect.verdict]
        interval = [1 / effect.ratio.high, 1 / effect.ratio.low]
        axes.plot(interval, [line, line], color=colour, lw=1.4, zorder=3)
        axes.plot([1 / effect.ratio.value], [line], mark, color=colour, ms=4.2, zorder=4)
    shares = [e.facts["share_of_ceiling"] for e in members]
    known = [share for share in shares if share is not None]
    if known:
        text = f"up to {100 * max(known):.0f} %\nof its ceiling"
        axes.text(
            1.015, line, text, transform=axes.get_yaxis_transform(), va="center", ha="left",
            fontsize=5.5, color=GUIDE_COLOUR,
        )  # fmt: skip


def _cases(op: str, members: Sequence[Effect]) -> str:
    return short(members[0].group if len(members) == 1 else f"{op}, {len(members)} cases", 48)


def _type_name(effect: Effect) -> str:
    return f"{effect.other}{' (emulated)' if effect.facts['emulated'] else ''}"


_CHARTS: dict[str, Callable[[Conclusion], Drawn]] = {
    "intensity": _intensity,
    "locality": _locality,
    "autotune": _autotune,
    "launch": _launch,
    "precision": _precision,
}
