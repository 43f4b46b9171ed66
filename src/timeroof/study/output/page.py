"""The folder that a study leaves: a page with pictures, tables and words, and its data."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup
from matplotlib.figure import Figure

from timeroof.api.reports import save
from timeroof.core.files import write_atomically
from timeroof.core.machine import Machine
from timeroof.core.report import Report
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.study.factors import conclusions
from timeroof.study.judged_cases import DRAM, Row, level_note, level_of, ops
from timeroof.study.output import sweep_charts as charts
from timeroof.study.output.factor_charts import factor_charts
from timeroof.study.output.sweep_charts import Overlay, Panel, series_name, short
from timeroof.study.report import Study, busy_sentence, case_name
from timeroof.views.page.templates import asset, content_policy, page_styles, page_template
from timeroof.views.pictures.frame import styled
from timeroof.views.pictures.marks import value_text
from timeroof.views.render import csv_bytes

# Where the template and the styles of this page are.
OURS = "timeroof.study.output"
LINKS = (
    ("report.html", "interactive report"),
    ("rows.csv", "rows (CSV)"),
    ("study.json", "report with conclusions (JSON)"),
    ("study.troof", "saved run"),
)
HEADS = (
    "time", "spread", "bound", "bound / time", "limiter", "FLOP/B", "FLOPs", "bytes", "launches",
)  # fmt: skip


def write_study(study: Study, folder: Path, *, overlay: Report | None = None) -> Path:
    """Write a study's folder and return its page. `overlay` is a report of another machine, such as
    the paper's, to lay beside."""
    other = charts.overlay_of(overlay) if overlay else None
    report = study.report
    # Data first: a folder that cannot be written says so before anything is drawn.
    write_atomically(folder / "rows.csv", csv_bytes(report.rows))
    for name in ("study.json", "study.troof", "report.html"):
        save(report, folder / name)
    warning, names = busy_sentence(study.rows), ops(study.rows)
    where = report.machine.device if report.machine else "no machine"
    styles = page_styles(("base.css",)) + Markup(asset("study.css", OURS))
    html = page_template("study.html.j2", OURS).render(
        policy=content_policy(),
        styles=styles,
        title=f"Study of {', '.join(names[:4])}{'…' * (len(names) > 4)} on {where}",
        subtitle=f"{len(study.rows)} cases, {len(study.failures)} not measured; made by timeroof"
        f" {report.version}, {report.created}. Times are medians; spread is the middle half of the"
        " samples over the median.",
        warning=f"{warning[:1].upper()}{warning[1:]}." if warning else "",
        links=LINKS,
        conclusions=[
            (c, [image(figure, caption) for caption, figure in factor_charts(c)])
            for c in conclusions(study.rows, report.machine)
        ],
        kernels=kernel_parts(study.rows, report.machine, other),
        roofs=roof_table(study.rows, report.machine, other),
        failures=[
            (case_name(f.case), f.status, f.error or "no reason given") for f in study.failures
        ],
        notes=[*(n for n in report.notes if n != warning), *_overlay_notes(overlay)],
    )
    path = folder / "index.html"
    write_atomically(path, html.encode())
    return path


def _overlay_notes(overlay: Report | None) -> list[str]:
    if overlay is None or overlay.machine is None:
        return []
    return [
        f"Rows in italics and thin black symbols are {overlay.machine.device}: other hardware,"
        " other software, another year. Their bounds and shares are those of their own roofs.",
        *overlay.notes,
    ]


class Image(NamedTuple):
    """A picture in the page with its caption; its size in CSS pixels, so that no page jumps."""

    data: str
    caption: str
    width: int
    height: int


def image(figure: Figure, caption: str) -> Image:
    """A figure as SVG with its letters as outlines, so that every reader sees the same. It is an
    address of an image, which cannot run a script whatever its texts say."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with styled(), rc_context({"svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    # Not a text of a file, so no template shortens it.
    data = Markup(f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}")
    width, height = figure.get_size_inches()
    return Image(data, caption, round(96 * width), round(96 * height))


class Line(NamedTuple):
    """One case of a table; `other` marks rows of another machine."""

    value: str
    series: str
    cells: tuple[str, ...]
    above_roof: str | None
    other: bool = False
    # The share of the processor that others used, where it is too much for a time to count.
    disturbed: str | None = None


class Table(NamedTuple):
    """One sweep on the page: chart and table."""

    title: str
    fixed: str
    image: Image | None
    heads: tuple[str, ...]
    parameter: str
    lines: list[Line]
    note: str

    @property
    def several(self) -> bool:
        """Whether lines differ in their series."""
        return len({line.series for line in self.lines}) > 1


class KernelPart(NamedTuple):
    """The sweeps of one kernel, pass and number of threads."""

    title: str
    contains: str | None
    tables: list[Table]


def kernel_parts(
    rows: Sequence[Row], machine: Machine | None, overlay: Overlay | None
) -> list[KernelPart]:
    """Every kernel and pass: a chart and a table per sweep."""
    held: dict[tuple[str, str, int | None], list[Panel]] = {}
    for panel in charts.panels(rows):
        place = (panel.op, panel.pass_name, panel.threads)
        held.setdefault(place, []).append(charts.beside(panel, overlay) if overlay else panel)
    several = len({threads for _, _, threads in held}) > 1
    return [
        KernelPart(
            f"{op} {name}{f', {threads} thread' * several}{'s' * (several and threads != 1)}",
            own[0].rows[0].contains,
            [_table(panel, machine, overlay) for panel in own],
        )
        for (op, name, threads), own in held.items()
    ]


def _table(panel: Panel, machine: Machine | None, overlay: Overlay | None) -> Table:
    roofs = charts.panel_roofs(panel, machine) if machine else None
    level = roofs.level if roofs else level_of(panel.rows)
    figure = charts.panel_chart(panel, roofs, overlay) if roofs else None
    why = level_note(panel.rows, level)
    caption = (
        "Small symbol: bytes and FLOPs. Large symbol: the run time on the axes above and to the"
        " right. The line between them is headroom."
    )
    if any(row.bytes_by.get(level) for row in panel.overlay):
        why += (
            " Thin black symbols are another machine's: their seconds are read on this machine's"
            " axes, their headroom is in the table."
        )
    lines = panel_lines(panel, overlay, level)
    return Table(
        title=f"{panel.word} from {panel.values[0]} to {panel.values[-1]}",
        fixed=panel.fixed,
        image=None if figure is None else image(figure, f"{caption} {why}".strip()),
        heads=heads(level),
        parameter=panel.word,
        lines=lines,
        note=" ".join(_panel_notes(panel, lines, level, why, drawn=figure is not None)),
    )


def _panel_notes(
    panel: Panel, lines: Sequence[Line], level: str, why: str, *, drawn: bool
) -> Iterable[str]:
    if not drawn:
        yield "No chart: there are no ceilings for this work, or its FLOPs and bytes are not known."
    causes = [line.above_roof for line in lines if line.above_roof]
    if causes:
        named = ", ".join(sorted(set(causes)))
        yield f"{len(causes)} of {len(lines)} cases are faster than their bound, marked ▲: {named}."
    more = len({series_name(row) for row in panel.rows}) - charts.MOST_SERIES
    if more > 0:
        yield f"{more} further series are in the table only."
    every = [*panel.rows, *panel.overlay]
    count = sum(not row.bytes_by.get(level) for row in every)
    if drawn and count:
        yield f"{count} of {len(every)} rows have no bytes at {level.upper()}: table only."
    elif not drawn and why:
        yield why


def heads(level: str = DRAM) -> tuple[str, ...]:
    """The columns of a table whose bytes are those of a level."""
    named = "bytes" if level == DRAM else f"{level.upper()} bytes"
    return tuple(named if head == "bytes" else head for head in HEADS)


def panel_lines(panel: Panel, overlay: Overlay | None, level: str = DRAM) -> list[Line]:
    """The lines of a panel by value, this machine's before the other's."""
    order = {value: place for place, value in enumerate(panel.values)}
    found = []
    for row in (*panel.rows, *panel.overlay):
        other = overlay is not None and row in panel.overlay
        value, series = row.params[panel.parameter], series_name(row)
        if overlay is not None and other:
            series = f"{overlay.short_name}, {row.framework} {row.precision}"
        if value in order:
            busy = f"others used {format_percent(row.load)} of the processor" if row.busy else None
            head = short(value_text(panel.parameter, value), 24), short(series, 60)
            line = Line(*head, cells(row, level), row.above_roof, other, busy)
            found.append((order[value], other, charts.series_order(series), line))
    return [line for *_, line in sorted(found, key=lambda item: item[:3])]


def cells(row: Row, level: str = DRAM) -> tuple[str, ...]:
    """What a table says of a row, its bytes and intensity at one level."""
    intensity, moved = row.intensity_at(level), row.bytes_by.get(level)
    return (
        format_seconds(row.time_s),
        format_percent(row.time_spread),
        format_seconds(row.bound_s),
        format_percent(row.efficiency),
        row.limiter or "?",
        # What moves no bytes has no intensity, which is not the same as not being known.
        "–" if moved == 0 else "?" if intensity is None else f"{intensity:.3g}",
        format_amount(row.flops, ""),
        format_amount(moved, "B"),
        "?" if row.launches is None else f"{row.launches:.0f}",
    )


class RoofTable(NamedTuple):
    """Ceilings of machines side by side."""

    heads: list[str]
    lines: list[tuple[str, list[str]]]


def roof_table(rows: Sequence[Row], machine: Machine | None, overlay: Overlay | None) -> RoofTable:
    """Ceilings of this machine, per scope that the rows use, beside those of the other."""
    columns = [
        (f"{machine.device}{', one core' if scope == 'core' else ''}", machine.roofs(scope))
        for scope in sorted({row.scope for row in rows})
        if machine
    ]
    if overlay:
        columns.append((overlay.machine.device, overlay.machine.roofs()))
    names = sorted({name for _, roofs in columns for name in roofs})
    lines = [
        (name, [_rate(name, roofs[name].rate) if name in roofs else "–" for _, roofs in columns])
        for name in names
    ]
    return RoofTable([head for head, _ in columns], lines)


def _rate(resource: str, rate: float) -> str:
    if resource == "launch":
        return f"{format_seconds(1 / rate)} each"
    units = {"flop": "FLOP/s", "byte": "B/s", "link": "B/s"}
    return format_amount(rate, units.get(resource.partition("/")[0], "/s"))
