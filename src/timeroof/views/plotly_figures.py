"""The four charts as plotly figures, for notebooks: `report.figure("combined")`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from timeroof.core.errors import UsageError
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.views.gallery import LIMITER_COLOURS
from timeroof.views.page.headline import LIMITER_WORDS
from timeroof.views.page.text import clip, plain_line
from timeroof.views.plotly_axes import (
    Range,
    amount_axis,
    box_trace,
    line,
    log_range,
    on_second_axes,
    second_axis,
    zero_at,
)
from timeroof.views.rates import format_rate
from timeroof.views.report_points import (
    ChartRoofs,
    ReportPoint,
    chart_roofs,
    report_points,
    used_ceilings,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from timeroof.core.report import Report

# A notebook's figure draws every symbol: more make it slow.
MAX_POINTS = 1_000
CHARTS = ("combined", "complexity", "time", "roofline")

Place = Callable[[ReportPoint], tuple[float, float]]


def plotly_figure(report: Report, name: str = "combined") -> Figure:
    """One of the charts `combined`, `complexity`, `time` and `roofline`."""
    from plotly.graph_objects import Figure

    if name not in CHARTS:
        raise UsageError(f"no chart is called {name!r}", advice=f"use {', '.join(CHARTS)}")
    points = report_points(report, MAX_POINTS)
    data, layout = _roofline(report, points) if name == "roofline" else _plane(report, points, name)
    layout |= {
        "template": "plotly_white",
        "height": 560,
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": -0.18, "itemsizing": "constant"},
        "margin": {"l": 70, "r": 70, "t": 60, "b": 60},
    }
    return Figure(data=data, layout=layout)


def _plane(
    report: Report, points: Sequence[ReportPoint], name: str
) -> tuple[list[Any], dict[str, Any]]:
    roofs = chart_roofs(report)
    if not roofs.complete and name != "complexity":
        raise UsageError("the machine has no pair of roofs", advice="judge it on another machine")
    level = (roofs.memory or "byte/dram").removeprefix("byte/")
    drawn = [p for p in points if p.flops + p.bytes_by_level.get(level, math.nan) > 0]
    places = _places(name, roofs, level)
    at = [xy for p in drawn for place in places for xy in [place(p)]]
    floor = (zero_at([x for x, _ in at]), zero_at([y for _, y in at]))
    raised = [_above(place, floor) for place in places]
    box = roofs.launch_s or math.nan
    scale = (1.0, 1.0) if name == "time" else (roofs.bytes_per_s, roofs.flops_per_s)
    xs = [place(p)[0] for p in drawn for place in raised] + [box * scale[0]]
    ys = [place(p)[1] for p in drawn for place in raised] + [box * scale[1]]
    x_range, y_range = log_range(xs), log_range(ys)
    data: list[Any] = [_balance(roofs, name, x_range)] if roofs.complete else []
    if math.isfinite(box * scale[0] * scale[1]):
        data.append(box_trace(box * scale[0], box * scale[1], x_range, y_range))
    data += symbols(drawn, raised, paired=name == "combined")
    if name == "combined":
        data.append(on_second_axes(raised[0](drawn[0]) if drawn else (1.0, 1.0)))
    return data, _plane_layout(name, roofs, x_range, y_range)


def _places(name: str, roofs: ChartRoofs, level: str) -> list[Place]:
    def work(point: ReportPoint) -> tuple[float, float]:
        return point.bytes_by_level[level], point.flops

    def timed(point: ReportPoint) -> tuple[float, float]:
        memory = point.bytes_by_level[level] / roofs.bytes_per_s
        compute = point.flops / roofs.flops_per_s
        slowest = max(memory, compute)
        return point.time_s * memory / slowest, point.time_s * compute / slowest

    def scaled(point: ReportPoint) -> tuple[float, float]:
        x, y = timed(point)
        return x * roofs.bytes_per_s, y * roofs.flops_per_s

    planes: dict[str, list[Place]] = {"combined": [work, scaled], "complexity": [work]}
    return planes.get(name, [timed])


def _above(place: Place, floor: tuple[float, float]) -> Place:
    """The same place with zeros at the lower end of their axis."""

    def raised(point: ReportPoint) -> tuple[float, float]:
        x, y = place(point)
        return x or floor[0], y or floor[1]

    return raised


def symbols(points: Sequence[ReportPoint], places: Sequence[Place], *, paired: bool) -> list[Any]:
    """Symbols of points by limiter, with the segment between work and time where paired."""
    traces: list[Any] = []
    largest = max((p.time_s for p in points), default=1.0)
    for kind, colour in LIMITER_COLOURS.items():
        mine = [p for p in points if p.kind == kind]
        if not mine:
            continue
        if paired:
            pairs = [(places[0](p), places[1](p)) for p in mine]
            x = [v for a, b in pairs for v in (a[0], b[0], None)]
            y = [v for a, b in pairs for v in (a[1], b[1], None)]
            traces.append({**line(x, y, colour, 1.2), "opacity": 0.4, "legendgroup": kind})
        for index, place in enumerate(places):
            work = paired and index == 0
            traces.append(_markers(mine, place, largest, is_open=work))
    return traces


def _markers(
    points: Sequence[ReportPoint], place: Place, largest: float, *, is_open: bool
) -> dict[str, Any]:
    kind = points[0].kind
    at = [place(p) for p in points]
    shapes = ["triangle-down" if p.flops == 0 else "circle" for p in points]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": LIMITER_WORDS[kind],
        "legendgroup": kind,
        "showlegend": not is_open,
        "x": [x for x, _ in at],
        "y": [y for _, y in at],
        "text": [hover_text(p) for p in points],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {
            "color": LIMITER_COLOURS[kind],
            "symbol": [f"{s}-open" if is_open else s for s in shapes],
            "size": 6
            if is_open
            else [max(5.0, 30 * math.sqrt(p.time_s / largest)) for p in points],
            "opacity": 0.85,
        },
    }


def hover_text(point: ReportPoint) -> str:
    """What a symbol says, with the file's texts escaped."""
    row = point.row
    facts = [
        ("module", row["module"]),
        ("shapes", row["shape"]),
        ("time", format_seconds(point.time_s)),
        ("bound", f"{format_seconds(row['bound_s'])} ({format_percent(row['efficiency'])})"),
        ("limiter", row["limiter"]),
        ("gap", format_seconds(row["gap_s"])),
    ]
    lines = [f"{key} {_safe(str(value), 90)}" for key, value in facts if value]
    return "<br>".join([f"<b>{_safe(point.name, 80)}</b>", *lines])


def _safe(text: str, limit: int) -> str:
    return escape(plain_line(clip(text, limit)))


def _balance(roofs: ChartRoofs, name: str, x_range: Range) -> dict[str, Any]:
    slope = 1.0 if name == "time" else roofs.flops_per_s / roofs.bytes_per_s
    x = [10 ** (x_range[0] - 6), 10 ** (x_range[1] + 6)]
    return line(x, [v * slope for v in x], "#888888", 1.5)


def _plane_layout(name: str, roofs: ChartRoofs, x_range: Range, y_range: Range) -> dict[str, Any]:
    memory = (roofs.memory or "byte/memory").removeprefix("byte/").upper()
    compute = (roofs.compute or "flop/compute").removeprefix("flop/")
    if name == "time":
        return {
            "xaxis": amount_axis(f"bandwidth time at {memory}", "s", x_range),
            "yaxis": amount_axis(f"compute time at {compute}", "s", y_range),
        }
    layout = {
        "xaxis": amount_axis(f"bytes moved at {memory}", "B", x_range),
        "yaxis": amount_axis("FLOPs", "", y_range),
    }
    if name == "combined":
        beta, peak = roofs.bytes_per_s, roofs.flops_per_s
        layout["xaxis2"] = second_axis(f"time at {format_amount(beta, 'B/s')}", beta, x_range, "x")
        layout["yaxis2"] = second_axis(
            f"time at {format_rate(roofs.compute or '', peak)}", peak, y_range, "y"
        )
    return layout


def _roofline(report: Report, points: Sequence[ReportPoint]) -> tuple[list[Any], dict[str, Any]]:
    level = (chart_roofs(report).memory or "byte/dram").removeprefix("byte/")
    drawn = [p for p in points if p.flops > 0 and p.bytes_by_level.get(level, math.nan) > 0]

    def place(point: ReportPoint) -> tuple[float, float]:
        return point.flops / point.bytes_by_level[level], point.flops / point.time_s

    compute, memory = used_ceilings(report)
    top = max(compute.values(), default=math.inf)
    ridge = top / min(memory.values(), default=math.inf)
    x_range = log_range([place(p)[0] for p in drawn] + [4 * ridge])
    y_range = log_range([place(p)[1] for p in drawn] + [1.4 * top])
    layout = {
        "xaxis": amount_axis("arithmetic intensity, FLOP per byte", "", x_range),
        "yaxis": amount_axis("speed, FLOP/s", "", y_range),
    }
    return [*_ceilings(compute, memory, x_range), *symbols(drawn, [place], paired=False)], layout


def _ceilings(
    compute: dict[str, float], memory: dict[str, float], x_range: Range
) -> list[dict[str, Any]]:
    near, far = 10 ** (x_range[0] - 6), 10 ** (x_range[1] + 6)
    top, fastest = max(compute.values(), default=math.inf), max(memory.values(), default=math.inf)
    lines = []
    for resource, rate in compute.items():
        trace = line([max(near, rate / fastest), far], [rate, rate], "#0072B2", 1.5)
        lines.append(trace | {"name": f"{resource} {format_rate(resource, rate)}"})
    for resource, rate in memory.items():
        end = min(far, top / rate)
        trace = line([near, end], [near * rate, end * rate], "#D55E00", 1.5)
        lines.append(trace | {"name": f"{resource} {format_amount(rate, 'B/s')}"})
    return [trace | {"showlegend": True} for trace in lines]
