"""The folder that a study leaves: a page with pictures, tables and words, and its data."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from timeroof.api.reports import save
from timeroof.core.files import write_atomically
from timeroof.core.units import format_amount, format_seconds
from timeroof.study.factors import Conclusion, conclusions
from timeroof.study.factors.cases import (
    Row,
    bytes_at,
    label,
    level_note,
    level_of,
    level_title,
    scope,
)
from timeroof.study.output.factor_charts import factor_charts
from timeroof.study.output.looks import MOST_SERIES, chart_pair, series_name, short
from timeroof.study.output.overlay import (
    Overlay,
    Overview,
    Panel,
    beside_overview,
    beside_panel,
    overlay_of,
    overviews,
    panels,
)
from timeroof.study.output.page import (
    ConclusionPart,
    Image,
    KernelPart,
    PanelPart,
    StudyPage,
    above_roof_note,
    busy_note,
    heads,
    panel_lines,
    scatter_note,
    study_page,
)
from timeroof.study.output.sweep_charts import overview_charts, panel_chart, panel_roofs
from timeroof.study.report import busy_sentence
from timeroof.views.pictures.frame import styled
from timeroof.views.plain import plain_line
from timeroof.views.render import csv_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from polars import DataFrame

    from timeroof.core.machine import Machine
    from timeroof.core.report import Report
    from timeroof.study.case import Result
    from timeroof.study.report import Study

LINKS = [
    ("report.html", "interactive report"),
    ("rows.csv", "rows (CSV)"),
    ("study.json", "report with conclusions (JSON)"),
    ("study.troof", "saved run"),
]


def write_study(study: Study, folder: Path, *, overlay: Report | None = None) -> Path:
    """Write a study's folder and return its page.

    `overlay` is a report of another machine, such as the paper's, to lay beside.
    """
    beside = overlay_of(overlay) if overlay else None
    found = conclusions(study.rows, study.machine)
    report = study.report
    if not report.findings:
        report = replace(report, findings=tuple(c.finding() for c in found))
    # Data first: a folder that cannot be written says so before anything is drawn.
    _write_data(folder, report)
    heads, roofs = roof_table(study.rows, study.machine, beside)
    warning = busy_sentence(study.rows)
    page = StudyPage(
        title=_title(study),
        subtitle=_subtitle(study),
        conclusions=conclusion_parts(found),
        kernels=kernel_parts(study.rows, study.machine, beside),
        roofs=roofs,
        roof_heads=heads,
        failures=failure_lines(study.failures),
        notes=[*(n for n in report.notes if n != warning), *_overlay_notes(overlay)],
        links=LINKS,
        warning=f"{warning[:1].upper()}{warning[1:]}." if warning else "",
    )
    path = folder / "index.html"
    write_atomically(path, study_page(page).encode())
    return path


def _write_data(folder: Path, report: Report) -> None:
    """What the page links to."""
    write_atomically(folder / "rows.csv", csv_bytes(report.rows))
    save(report, folder / "study.json")
    save(report, folder / "study.troof")
    save(report, folder / "report.html")


def _title(study: Study) -> str:
    names = ", ".join(study.kernels[:4]) + ("…" if len(study.kernels) > 4 else "")
    where = study.machine.device if study.machine else "no machine"
    return plain_line(f"Study of {names or 'no kernel'} on {where}")


def _subtitle(study: Study) -> str:
    report = study.report
    missed = f", {len(study.failures)} not measured" if study.failures else ""
    return (
        f"{study.rows.height} cases{missed}; made by timeroof {report.version}, {report.created}."
        " Times are medians; spread is the middle half of the samples over the median."
    )


def _overlay_notes(overlay: Report | None) -> list[str]:
    if overlay is None or overlay.machine is None:
        return []
    return [
        f"Rows in italics and thin black symbols are {overlay.machine.device}: other hardware,"
        " other software, another year. Their bounds and shares are those of their own roofs.",
        *overlay.notes,
    ]


# Pictures inside a page: SVG with its letters as outlines, so that every reader sees the same.


def svg_data(figure: Figure) -> str:
    """A figure as the address of an image; an image cannot run a script whatever its texts say."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with styled(), rc_context({"svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    # Not a text of a file, so no template shortens it.
    return Markup(f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}")


def shape_of(figure: Figure) -> tuple[int, int]:
    """Width and height in CSS pixels, so that a page does not jump while it loads."""
    width, height = figure.get_size_inches()
    return round(96 * width), round(96 * height)


def conclusion_parts(found: Sequence[Conclusion]) -> list[ConclusionPart]:
    """The factors with their charts."""
    return [
        ConclusionPart(
            anchor=f"factor-{conclusion.factor}",
            title=conclusion.title,
            points=list(conclusion.sentences),
            state=conclusion.state,
            action=conclusion.action,
            images=[_image(figure, caption) for caption, figure in factor_charts(conclusion)],
        )
        for conclusion in found
    ]


def kernel_parts(
    rows: DataFrame, machine: Machine | None, overlay: Overlay | None
) -> list[KernelPart]:
    """Every kernel and pass: a chart and a table per sweep, then planes and roofline."""
    every = panels(rows)
    parts = []
    for number, overview in enumerate(overviews(rows)):
        beside = beside_overview(overview, overlay) if overlay else overview
        own = [p for p in every if _place(p) == _place(overview)]
        drawn = [
            _panel_part(beside_panel(p, overlay) if overlay else p, machine, overlay) for p in own
        ]
        charts = overview_charts(beside, machine, overlay) if machine and drawn else {}
        images = [
            _image(f, _overview_caption(name, overview, machine)) for name, f in charts.items()
        ]
        if drawn:
            title = _kernel_title(overview, several=len({p.threads for p in every}) > 1)
            parts.append(KernelPart(f"kernel-{number}", title, _contains(overview), drawn, images))
    return parts


_OVERVIEW = {
    "complexity": "Work of every case: above the diagonal compute limits, below it memory.",
    "time": "Time of every case on both axes; corners on the diagonal are equal run times.",
    "roofline": "The classic roofline: a point per case and level of memory that it uses.",
}


def _overview_caption(name: str, overview: Overview, machine: Machine | None) -> str:
    """What a picture shows, and whose bytes where they are not DRAM's."""
    roofs = chart_pair(overview.rows, machine, scope(overview.rows[0])) if machine else None
    if roofs is None or name == "roofline":
        return _OVERVIEW[name]
    return f"{_OVERVIEW[name]} {level_note(overview.rows, roofs.level)}".strip()


def _place(part: Panel | Overview) -> tuple[str, str, str]:
    return part.op, part.pass_name, part.threads


def _kernel_title(overview: Overview, *, several: bool) -> str:
    threads = overview.threads
    many = f", {threads} thread{'s' * (threads != '1')}" if several else ""
    return short(f"{overview.op} {overview.pass_name}{many}", 80)


def _contains(overview: Overview) -> str:
    told = label(overview.rows[0], "contains")
    return f"The pass contains: {told}." if told else ""


def _panel_part(panel: Panel, machine: Machine | None, overlay: Overlay | None) -> PanelPart:
    roofs = panel_roofs(panel, machine) if machine else None
    level = roofs.level if roofs else level_of(panel.rows)
    figure = panel_chart(panel, roofs, overlay) if roofs else None
    caption = (
        "Small symbol: bytes and FLOPs. Large symbol: the run time on the axes above and to the"
        " right. The line between them is headroom."
    )
    why = level_note(panel.rows, level)
    if why:
        caption += f" {why}"
    if any(bytes_at(row, level) for row in panel.overlay):
        caption += (
            " Thin black symbols are another machine's: their seconds are read on this machine's"
            " axes, their headroom is in the table."
        )
    lines = panel_lines(panel, overlay, level)
    notes = (
        "" if figure else _no_chart(machine),
        above_roof_note(lines),
        busy_note(lines),
        scatter_note(lines),
        _left_out(panel.rows),
        _without_bytes(panel, level) if figure else why,
    )
    return PanelPart(
        title=f"{panel.parameter.replace('_', ' ')} from {panel.values[0]} to {panel.values[-1]}",
        fixed=f"Fixed: {panel.fixed}." if panel.fixed else "",
        image=None if figure is None else _image(figure, caption),
        heads=heads(level),
        parameter=panel.parameter.replace("_", " "),
        lines=lines,
        note=" ".join(text for text in notes if text),
    )


def _no_chart(machine: Machine | None) -> str:
    if machine is None:
        return "No chart: no machine is known, so there are no roofs to draw."
    return (
        "No chart: the machine has no ceilings for this work, or the cases have no FLOPs and bytes"
        " that are known."
    )


def _without_bytes(panel: Panel, level: str) -> str:
    """Rows that a chart at this level leaves out."""
    every = [*panel.rows, *panel.overlay]
    count = sum(not bytes_at(row, level) for row in every)
    where = level_title(level)
    return f"{count} of {len(every)} rows have no bytes at {where}: table only." if count else ""


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
