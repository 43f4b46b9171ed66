"""From a judged study to its page: which pictures, which tables, which words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from timeroof.study.factors import Conclusion
from timeroof.study.factors.cases import Row, label, scope
from timeroof.study.output.embedding import shape_of, svg_data
from timeroof.study.output.factor_charts import factor_charts
from timeroof.study.output.looks import MOST_SERIES, series_name, short
from timeroof.study.output.overlay import Overlay, beside_overview, beside_panel
from timeroof.study.output.page import ConclusionPart, Image, KernelPart, PanelPart
from timeroof.study.output.sweep_charts import overview_charts, panel_chart
from timeroof.study.output.sweeps import Overview, Panel, overviews, panels
from timeroof.study.output.tables import HEADS, above_roof_note, panel_lines
from timeroof.units import format_amount, format_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from polars import DataFrame

    from timeroof.core.machine import Machine
    from timeroof.study.case import Result

# A chart that was drawn: its name for a file, and the figure.
Keep = Callable[[str, "Figure"], None]
Advance = Callable[[str], None]


def conclusion_parts(
    found: Sequence[Conclusion], keep: Keep, advance: Advance
) -> list[ConclusionPart]:
    """The factors with their charts."""
    parts = []
    for conclusion in found:
        images = []
        for index, (caption, figure) in enumerate(factor_charts(conclusion)):
            keep(f"factor_{conclusion.factor}{f'_{index + 1}' if index else ''}", figure)
            images.append(_image(figure, caption))
        parts.append(
            ConclusionPart(
                anchor=f"factor-{conclusion.factor}",
                title=conclusion.title,
                points=list(conclusion.points),
                state=conclusion.state,
                action=conclusion.action,
                images=images,
            )
        )
        advance(f"factor {conclusion.factor}")
    return parts


def kernel_parts(
    rows: DataFrame,
    machine: Machine | None,
    overlay: Overlay | None,
    keep: Keep,
    advance: Advance,
) -> list[KernelPart]:
    """Every kernel and pass: a chart and a table per sweep, then planes and roofline."""
    every = panels(rows)
    parts = []
    for number, overview in enumerate(overviews(rows)):
        beside = beside_overview(overview, overlay) if overlay else overview
        own = [p for p in every if _place(p) == _place(overview)]
        drawn = [
            _panel_part(beside_panel(p, overlay) if overlay else p, machine, overlay, keep)
            for p in own
        ]
        charts = overview_charts(beside, machine, overlay) if machine and drawn else {}
        for name, figure in charts.items():
            keep(f"{overview.op}_{overview.pass_name}_{overview.threads}_{name}", figure)
        images = [_image(f, _OVERVIEW[name]) for name, f in charts.items()]
        if drawn:
            title = _kernel_title(overview, several=len({p.threads for p in every}) > 1)
            parts.append(KernelPart(f"kernel-{number}", title, _contains(overview), drawn, images))
        advance(overview.title)
    return parts


_OVERVIEW = {
    "complexity": "Work of every case: above the diagonal compute limits, below it memory.",
    "time": "Time of every case on both axes; corners on the diagonal are equal run times.",
    "roofline": "The classic roofline with every level of memory.",
}


def _place(part: Panel | Overview) -> tuple[str, str, str]:
    return part.op, part.pass_name, part.threads


def _kernel_title(overview: Overview, *, several: bool) -> str:
    threads = overview.threads
    many = f", {threads} thread{'s' * (threads != '1')}" if several else ""
    return short(f"{overview.op} {overview.pass_name}{many}", 80)


def _contains(overview: Overview) -> str:
    told = label(overview.rows[0], "contains")
    return f"The pass contains: {told}." if told else ""


def _panel_part(
    panel: Panel, machine: Machine | None, overlay: Overlay | None, keep: Keep
) -> PanelPart:
    figure = panel_chart(panel, machine, overlay) if machine else None
    if figure is not None:
        keep(f"{panel.op}_{panel.pass_name}_{panel.threads}_{panel.parameter}", figure)
    caption = (
        "Small symbol: bytes and FLOPs. Large symbol: the run time on the axes above and to the"
        " right. The line between them is headroom."
    )
    if panel.overlay:
        caption += (
            " Thin black symbols are another machine's: their seconds are read on this machine's"
            " axes, their headroom is in the table."
        )
    lines = panel_lines(panel, overlay)
    return PanelPart(
        title=f"{panel.parameter.replace('_', ' ')} from {panel.values[0]} to {panel.values[-1]}",
        fixed=f"Fixed: {panel.fixed}." if panel.fixed else "",
        image=None if figure is None else _image(figure, caption),
        heads=HEADS,
        parameter=panel.parameter.replace("_", " "),
        lines=lines,
        note=" ".join(t for t in (above_roof_note(lines), _left_out(panel.rows)) if t),
    )


def _left_out(rows: Sequence[Row]) -> str:
    count = len({series_name(row) for row in rows}) - MOST_SERIES
    return f"{count} further series are in the table only." if count > 0 else ""


def _image(figure: Figure, caption: str) -> Image:
    return Image(svg_data(figure), caption, *shape_of(figure))


def roof_table(
    rows: DataFrame, machine: Machine | None, overlay: Overlay | None
) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Ceilings of this machine, per scope that the rows use, beside those of the other."""
    columns: list[tuple[str, dict[str, float]]] = []
    if machine:
        scopes = sorted({scope(row) for row in rows.to_dicts()}) or ["all"]
        for which in scopes:
            words = f"{machine.device}{', one core' if which == 'core' else ''}"
            columns.append((words, {r: c.rate for r, c in machine.roofs(which).items()}))
    if overlay:
        columns.append((overlay.name, {r: c.rate for r, c in overlay.machine.roofs().items()}))
    names = sorted({r for _, rates in columns for r in rates})
    lines = [(name, [_rate(name, rates.get(name)) for _, rates in columns]) for name in names]
    return [head for head, _ in columns], lines


def _rate(resource: str, rate: float | None) -> str:
    if rate is None:
        return "–"
    if resource == "launch":
        return f"{format_seconds(1 / rate)} each"
    units = {"flop": "FLOP/s", "byte": "B/s", "link": "B/s"}
    return format_amount(rate, units.get(resource.partition("/")[0], "/s"))


def failure_lines(failures: Sequence[Result]) -> list[tuple[str, str, str]]:
    """Cases that could not be measured, with the reason."""
    return [(_case(f), f.status, short(f.error or "no reason given", 400)) for f in failures]


def _case(result: Result) -> str:
    case = result.case
    params = " ".join(f"{k}={v}" for k, v in case.params.items())
    return short(f"{case.kernel} {case.pass_name} {case.precision} {case.variant} {params}", 160)
