"""A chart per factor that shows its conclusion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from timeroof.core.units import format_amount, format_seconds
from timeroof.study.factors.conclusion import Conclusion, Effect, Facts
from timeroof.study.output.sweeps import short
from timeroof.views.pictures import FigureSize, Look, frame
from timeroof.views.pictures.ceilings import CurvePoint, bandwidth_curve
from timeroof.views.pictures.frame import (
    GUIDE_COLOUR,
    LEGEND_ROW,
    MARKERS,
    TEXT_COLOUR,
    LegendEntry,
)
from timeroof.views.pictures.marks import GREY as DARK
from timeroof.views.style import PALETTE

BLUE, ORANGE, GREEN, GREY, PALE = PALETTE[0], PALETTE[1], PALETTE[2], "#7A7A7A", "#D5D5D5"
VERDICTS = {
    "faster": ("faster", BLUE, "o"),
    "slower": ("slower", ORANGE, "s"),
    "same": ("no difference", GREY, "D"),
    "unclear": ("inconclusive", GREY, "X"),
}
# What grows with a parameter: name, colour, marker, size.
GROWS = {
    "flops": ("FLOPs", GREEN, "s", 5.6),
    "ai": ("FLOP per byte", ORANGE, "^", 5.0),
    "time": ("time", BLUE, "o", 4.0),
}
MOST_ROWS, MOST_GROUPS = 16, 6
# Charts of time ratios: which effects, and what they are called.
RATIOS = {("layout", "cache"): "layout and caches", ("shape",): "odd shapes against fitting ones"}
CAPTIONS = {
    "sweeps": "How fast FLOPs, intensity and time grow with a parameter. Circle on square: time"
    " grows with the work. Circle left of square: larger cases run more efficiently. Circle at 0:"
    " the parameter does not matter, overhead does.",
    "launch": "Time over launches: points of one colour are the same work; the lines have the"
    " fitted cost per launch as their slope.",
    "variant": "Time of each way of running the same work over that of the default, with 95 %"
    " intervals.",
    "layout": "Time of channels_last over contiguous, and of cold caches over warm ones, with 95 %"
    " intervals.",
    "shape": "Seconds per FLOP of odd sides over those of sides that fit, with 95 % intervals.",
    "type": "How many times as fast as fp32, a symbol per case with its 95 % interval; the bar ends"
    " at the middle case.",
    "levels": "Bytes per second over the working set. Dotted: sizes of the caches. Bars: what each"
    " level can do.",
}

Drawn = list[tuple[str, "Figure"]]


def factor_charts(conclusion: Conclusion) -> Drawn:
    """Captions and charts of one conclusion."""
    facts, effects = conclusion.facts, conclusion.effects
    drawn: dict[str, Figure] = {}
    if conclusion.factor == "intensity":
        drawn["sweeps"] = exponent_chart(facts["sweeps"])
    if conclusion.factor == "autotune":
        drawn["variant"] = ratio_chart(effects, "the same work by another algorithm")
    if conclusion.factor == "launch" and facts:
        drawn["launch"] = launch_chart(facts)
    for kinds, title in RATIOS.items():
        own = [e for e in effects if e.kind in kinds]
        if own:
            drawn[kinds[0]] = ratio_chart(own, title)
    types = [e for e in effects if e.kind == "type"]
    if types:
        drawn["type"] = gain_chart(types)
    if facts.get("levels"):
        drawn["levels"] = working_set_chart(facts)
    return [(CAPTIONS[name], figure) for name, figure in drawn.items()]


class Mark(NamedTuple):
    """A symbol on a line of a chart, with its interval where it has one."""

    line: int
    value: float
    look: Look
    interval: tuple[float, float] | None = None
    size: float = 4.4


def line_chart(
    title: str, axis: str, names: Sequence[tuple[str, str]], marks: Sequence[Mark],
    legend: Sequence[LegendEntry], *, centre: float, bars: Sequence[float] = (),
    ratio: bool = False,
) -> Figure:  # fmt: skip
    """A line of text and symbols per row, the first on top; of each what, and of which case."""
    size = FigureSize(width=5.0, height=1.0 + 0.3 * max(len(names), 1))
    margins = frame.Margins(left=1.95, right=0.15, top=0.3, bottom=0.46)
    with frame.styled():
        figure, axes = frame.new_figure(size, title, [[entry] for entry in legend], margins)
        axes.set_yscale("linear")
        axes.set_ylim(len(names) - 0.5, -0.5)
        ends = [v for m in marks for v in (m.interval or (m.value,))]
        if ratio:
            axes.set_xlim(frame.log_limits([*ends, centre], pad=1.15))
            frame.decade_axis(axes.xaxis, "", axes.get_xlim())
        else:
            axes.set_xscale("linear")
            axes.margins(x=0.08)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.set_xlabel(axis)
        axes.axvline(centre, color=GUIDE_COLOUR, lw=0.8)
        axes.barh(range(len(bars)), bars, height=0.5, color=PALE, zorder=1)
        for mark in marks:
            _draw_mark(axes, mark)
        _grid(axes)
        axes.set_yticks([])
        beside = axes.get_yaxis_transform()
        for line, (what, case) in enumerate(names):
            for text, y, va, points, colour in (
                (what, line - 0.02, "bottom", 6.5, TEXT_COLOUR),
                (case, line + 0.06, "top", 5, GUIDE_COLOUR),
            ):
                axes.text(
                    -0.015, y, text, va=va, ha="right", fontsize=points, color=colour,
                    transform=beside,
                )  # fmt: skip
    return figure


def _draw_mark(axes: Axes, mark: Mark) -> None:
    colour = mark.look.colour
    if mark.interval:
        axes.plot(mark.interval, [mark.line, mark.line], color=colour, lw=1.4, zorder=3)
    face = colour if mark.look.filled else "none"
    axes.plot(
        [mark.value], [mark.line], mark.look.marker, ms=mark.size, mfc=face, mec=colour, zorder=4
    )


def _grid(axes: Axes) -> None:
    axes.grid(color="#D5D5D5", lw=0.5, zorder=0)
    axes.set_axisbelow(True)


def exponent_chart(moves: Sequence[Facts]) -> Figure:
    """Exponents of FLOPs, intensity and time over every parameter, a line per parameter."""
    held: dict[tuple[str, str], list[Facts]] = {}
    for move in moves:
        held.setdefault((move["kernel"], move["parameter"]), []).append(move)
    places = list(held)[:MOST_ROWS]
    marks = [
        Mark(line, move["exponents"][name], Look(colour, marker, filled=False), size=size)
        for line, place in enumerate(places)
        for move in held[place]
        for name, (_, colour, marker, size) in GROWS.items()
    ]
    names = [(short(f"{op} {p.replace('_', ' ')}", 30), _span(held[op, p])) for op, p in places]
    legend = [LegendEntry(text, Look(c, m, filled=False)) for text, c, m, _ in GROWS.values()]
    axis = "exponent: grows as the parameter to the power"
    return line_chart("what grows with a parameter", axis, names, marks, legend, centre=0)


def _span(moves: Sequence[Facts]) -> str:
    values = moves[0]["values"]
    series = f", {len(moves)} series" if len(moves) > 1 else ""
    return short(f"{values[0]} to {values[-1]}{series}", 40)


def _verdict_legend(effects: Sequence[Effect]) -> list[LegendEntry]:
    seen = {e.verdict for e in effects}
    return [LegendEntry(t, Look(c, m)) for name, (t, c, m) in VERDICTS.items() if name in seen]


def ratio_chart(effects: Sequence[Effect], title: str) -> Figure:
    """Ratios with their intervals around 1, a line per comparison; of many the largest."""
    largest = sorted(effects, key=lambda e: -abs(math.log(e.ratio.value)))[:MOST_ROWS]
    ordered = sorted(largest, key=lambda e: (e.group, e.ratio.value))
    if len(effects) > MOST_ROWS:
        title = f"{title}: the {MOST_ROWS} largest of {len(effects)}"
    names = [(short(f"{e.other} / {e.base}", 34), short(e.group, 48)) for e in ordered]
    marks = [
        Mark(line, e.ratio.value, Look(*VERDICTS[e.verdict][1:]), (e.ratio.low, e.ratio.high))
        for line, e in enumerate(ordered)
    ]
    axis, legend = "time ratio (left of 1 is faster)", _verdict_legend(ordered)
    return line_chart(title, axis, names, marks, legend, centre=1, ratio=True)


def gain_chart(effects: Sequence[Effect]) -> Figure:
    """Gains over fp32 from 0: a bar per kernel and type to its middle case, a symbol per case."""
    held: dict[tuple[str, str], list[Effect]] = {}
    for effect in effects:
        held.setdefault((effect.group.split()[0], effect.other), []).append(effect)
    shown = sorted(held.items())[:MOST_ROWS]
    names, bars, marks = [], [], []
    for line, ((op, kind), members) in enumerate(shown):
        emulated = " (emulated)" * bool(members[0].facts["emulated"])
        case = members[0].group if len(members) == 1 else f"{op}, {len(members)} cases"
        names.append((short(f"{kind}{emulated}", 34), short(case, 48)))
        bars.append(sorted(1 / e.ratio.value for e in members)[len(members) // 2])
        for e in members:
            span, look = (1 / e.ratio.high, 1 / e.ratio.low), Look(*VERDICTS[e.verdict][1:])
            marks.append(Mark(line, 1 / e.ratio.value, look, span))
    axis, legend = "times as fast as fp32", _verdict_legend(effects)
    return line_chart("gain over fp32", axis, names, marks, legend, centre=1, bars=bars)


def launch_chart(facts: Facts) -> Figure:
    """Time over launches: points by way of running (marker) and work (colour), the fitted lines."""
    shown = facts["groups"][:MOST_GROUPS]
    markers = dict(zip(dict.fromkeys(v for g in shown for v in g["variants"]), MARKERS))  # noqa: B905
    legend = [
        [LegendEntry(short(v, 24), Look(DARK, m)) for v, m in markers.items()],
        [LegendEntry(short(g["title"], 48), Look(PALETTE[i], "_")) for i, g in enumerate(shown)],
    ]
    cost, (low, high) = facts["cost_per_launch_s"], facts["cost_interval_s"]
    title = (
        f"fitted: {format_seconds(cost, 2)} per launch"
        f" (95 %: {format_seconds(low, 2)} to {format_seconds(high, 2)})"
    )
    size = FigureSize(width=5.0, height=2.9 + LEGEND_ROW * max(3, *map(len, legend)))
    with frame.styled():
        figure, axes = frame.new_figure(size, title, legend, frame.Margins(left=0.62, top=0.44))
        axes.set_xscale("linear")
        axes.set_yscale("linear")
        axes.set_xlabel("launches of one execution")
        axes.set_ylabel("time")
        for colour, group in zip(PALETTE, shown, strict=False):
            ends = (0.0, max(group["launches"]))
            axes.plot(ends, [group["start_s"] + cost * n for n in ends], color=colour, lw=0.9)
            points = (group[k] for k in ("variants", "launches", "time_s", "quartiles_s"))
            for variant, count, time_s, quartiles in zip(*points, strict=True):
                axes.plot([count, count], quartiles, color=colour, lw=1.2)
                axes.plot([count], [time_s], markers[variant], ms=4.4, mfc="white", mec=colour)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: frame.short_number(value, "s") or "0")
        _grid(axes)
    return figure


def working_set_chart(facts: Facts) -> Figure:
    """The kernel's rate over its working set; bars where a level's ceiling lies."""
    points = [
        CurvePoint("element-wise", int(p["size_bytes"]), p["bytes_per_s"]) for p in facts["curve"]
    ]
    figure = bandwidth_curve(points, facts["cache_sizes"], "bytes per second over the working set")
    axes = figure.axes[0]
    ceilings = {level: rate for level, rate in facts["ceilings"].items() if rate}
    left, right = axes.get_xlim()
    low, high = axes.get_ylim()
    axes.set_xlim(left, 1.8 * right)
    axes.set_ylim(low, max(high, 1.6 * max(ceilings.values(), default=high)))
    sizes = sorted(facts["cache_sizes"].items(), key=lambda item: item[1])
    with frame.styled():
        for level, end in [*sizes, ("dram", 1.8 * right)]:
            rate, stop = ceilings.get(level), min(float(end), 1.8 * right)
            if rate and stop > left:
                axes.plot([left, stop], [rate, rate], color=ORANGE, lw=1.6, alpha=0.8, zorder=1)
                text = f"{level.upper()} {format_amount(rate, 'B/s', 2)}"
                axes.text(stop, rate, text, ha="right", va="bottom", fontsize=6, color=TEXT_COLOUR)
            left = max(left, stop)
    return figure
