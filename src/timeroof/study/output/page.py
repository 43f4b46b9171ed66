"""The folder that a study leaves: a page with pictures, tables and words, and its data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup
from matplotlib.figure import Figure

from timeroof.api.reports import save
from timeroof.core.files import write_atomically
from timeroof.core.machine import Machine, limiter_kind
from timeroof.core.report import Finding, Report
from timeroof.core.units import format_percent, format_rate, format_seconds, resource_words
from timeroof.study.czaja import CODE as UTILISATION, utilised
from timeroof.study.factors import conclusions
from timeroof.study.factors.conclusion import times
from timeroof.study.judged_cases import Row, limiter_words, ops
from timeroof.study.output.charted import combined_chart, kernel_parts
from timeroof.study.output.factor_charts import factor_charts
from timeroof.study.output.sweeps import Overlay, Panel, overlay_of, panels_beside
from timeroof.study.output.utilisation import (
    factor_lines,
    framework_versions,
    utilisation_charts,
    utilisation_table,
    way_tables,
)
from timeroof.study.own import is_own
from timeroof.study.report import Study, case_name
from timeroof.study.standing import (
    CASES,
    EXPLAINED,
    NAMES,
    Standing,
    load_of,
    standings,
    trust_words,
)
from timeroof.views.page.templates import Charted, asset, charts_page
from timeroof.views.pictures.frame import themed_svg
from timeroof.views.render import csv_bytes

# Where the template and the styles of this page are.
OURS = "timeroof.study.output"
LINKS = (
    ("report.html", "interactive report"),
    ("rows.csv", "rows (CSV)"),
    ("study.json", "report with conclusions (JSON)"),
    ("study.troof", "saved run"),
)


def write_study(study: Study, folder: Path, *, overlay: Report | None = None) -> Path:
    """Write a study's folder and return its page. `overlay` is a report of another machine, such as
    the paper's, to lay beside."""
    other = overlay_of(overlay) if overlay else None
    report = study.report
    # Data first: a folder that cannot be written says so before anything is drawn.
    write_atomically(folder / "rows.csv", csv_bytes(report.rows))
    for name in ("study.json", "study.troof", "report.html"):
        save(report, folder / name)
    machine, names = report.machine, ops(study.rows)
    where = machine.device if machine else "no machine"
    parts = kernel_parts(study.rows, machine, other)
    used = utilisation_table(study.rows)
    combined = utilisation_charts(study.rows, machine) or combined_charts(
        study.rows, machine, other
    )
    small = {table.key: table.chart for part in parts for table in part.tables}
    found = standing_lines(study.rows)
    kinds = sorted({limiter_kind(row.limiter) for row in study.rows if row.limiter})
    html = charts_page(
        "study.html.j2",
        combined | small,
        package=OURS,
        # As everywhere in a study: an op that is too small for the processor costs overhead.
        words={"latency": limiter_words("latency")},
        styles=asset("study.css", OURS),
        own=all(is_own(row.op) for row in study.rows),
        title=f"Study of {', '.join(names[:4])}{'…' * (len(names) > 4)} on {where}",
        headline=_headline(study),
        subtitle=subtitle(study),
        trust=trust_words(study.rows, report.findings, machine),
        disturbed=load_of(study.rows) is not None,
        links=LINKS,
        standings=found,
        explained=explanations([line.kind for line in found]),
        explained_below=explanations([k for k in kinds if k not in {line.kind for line in found}]),
        abilities=abilities(machine),
        used=used,
        ways=way_tables(study.rows),
        across=factor_lines(report.findings),
        factors=[Factor.of(finding) for finding in report.findings if "bars" in finding.evidence],
        details=[
            (c, [picture(f, caption, f"{c.factor}-{n}") for n, (caption, f) in enumerate(drawn)])
            for c in conclusions(study.rows, machine)
            for drawn in [factor_charts(c)]
        ],
        combined={key: chart.title for key, chart in combined.items()},
        kernels=parts,
        captions=CAPTIONS,
        roofs=roof_table(study.rows, machine, other),
        failures=[
            (case_name(f.case), f.status, f.error or "no reason given") for f in study.failures
        ],
        notes=[*report.notes, *_overlay_notes(overlay)],
        version=report.version,
        created=report.created,
    )
    path = folder / "index.html"
    write_atomically(path, html.encode())
    return path


CAPTIONS = {
    "combined": "Each case is a ring (the work that it must do) joined to a disc (the time that it"
    " took). The longer the line, the more time is lost. Work and Time show one of the two alone."
    " Choose a parameter, or go case by case.",
    "sweeps": "Time over one parameter at a time: a disc is the time of a case, the ring below it"
    " the least time that its work can take on this machine, the line between them lost time.",
}


def _headline(study: Study) -> str:
    findings = study.report.findings
    used = next((str(f.evidence["sentence"]) for f in findings if f.code == UTILISATION), "")
    rows = study.rows
    return used or story(findings) or headline(standings(rows)) or own_headline(rows)


def own_headline(rows: Sequence[Row]) -> str:
    """What limits most cases of functions of the user's, and how much of that limit they reach."""
    texts = []
    for name in dict.fromkeys(row.op for row in rows if is_own(row.op)):
        cases = [row for row in rows if row.op == name and row.limiter]
        if not cases:
            continue
        limits = [limiter_words(row.limiter) for row in cases]
        most = max(limits, key=limits.count)
        all_of = "all" if limits.count(most) == len(cases) else f"{limits.count(most)} of"
        share = [
            row.efficiency
            for row, limit in zip(cases, limits, strict=True)
            if limit == most and row.efficiency is not None
        ]
        low, high = (format_percent(f(share)) if share else "" for f in (min, max))
        reached = f" and reaches {low}" + f" to {high}" * (low != high) + " of that limit"
        where = f"in {all_of} {len(cases)} cases" if len(cases) > 1 else "here"
        texts.append(f"{name} is limited by {most} {where}{reached if share else ''}.")
    return " ".join(texts)


def headline(found: Sequence[Standing]) -> str:
    """What the paper's kernels come to here, in two sentences; nothing where none was measured."""
    texts = []
    for one in found:
        share = one.row.efficiency
        reached = f" and reaches {format_percent(share)} of that limit" if share is not None else ""
        texts.append(
            f"{NAMES[one.op]} is limited by {limiter_words(one.row.limiter)} here{reached}."
        )
    return " ".join(texts)


def story(findings: Sequence[Finding]) -> str:
    """What tells frameworks apart most; nothing where one alone ran."""
    found = [f for f in findings if f.code == "study/launch/frameworks"]
    return str(found[0].evidence["across"]) if found else ""


def subtitle(study: Study) -> str:
    """What ran where: machine, framework, number of cases."""
    machine = study.report.machine
    software = machine.software if machine else {}
    versions = framework_versions(software, study.rows)
    device = machine.device if machine else "an unknown machine"
    failed = f", {len(study.failures)} not measured" if study.failures else ""
    cases = f"{len(study.rows)} case{'s' * (len(study.rows) != 1)}{failed}"
    what = "Kernels of Czaja et al." if utilised(study.rows) else "The paper's experiments"
    if study.rows and all(is_own(row.op) for row in study.rows):
        what = "A sweep"
    return " · ".join([f"{what} on {device}", *versions, cases])


class StandingLine(NamedTuple):
    """A line of the table of this machine beside the V100."""

    name: str
    case: str
    time: str
    paper: str
    ratio: str
    limit: str
    kind: str
    share: str
    width: float
    inner: bool = False


def standing_lines(rows: Sequence[Row]) -> list[StandingLine]:
    """The paper's kernels, and what one change makes of each."""
    found = []
    for one in standings(rows):
        found.append(_standing_line(one.row, one, NAMES[one.op], CASES[one.op]))
        for row in rows:
            name = _changed(one.row, row)
            if name:
                found.append(_standing_line(row, one, name, ""))
    return found


def _changed(base: Row, row: Row) -> str | None:
    """What tells a row from the base case, of the two changes that the table shows."""
    if row.op != base.op or row.time_s <= 0:
        return None
    if row.but("layout") == base.but("layout") and row.params.get("layout") == "channels_last":
        return "with channels_last"
    same = row.but("variant") == base.but("variant")
    return "as a loop of cells" if same and row.variant == "cell-loop" else None


def _standing_line(row: Row, one: Standing, name: str, case: str) -> StandingLine:
    base = row is one.row
    return StandingLine(
        name=name,
        case=case,
        time=format_seconds(row.time_s),
        paper=format_seconds(one.paper.time_s) if base else "",
        ratio=times(row.time_s / one.paper.time_s),
        limit=limiter_words(row.limiter),
        kind=limiter_kind(row.limiter or ""),
        share=format_percent(row.efficiency),
        width=100 * min(1.0, row.efficiency or 0.0),
        inner=not base,
    )


def explanations(kinds: Sequence[str]) -> list[str]:
    """What the limits that appear mean, where a name does not say it."""
    return [text for kind, text in EXPLAINED.items() if kind in kinds]


def abilities(machine: Machine | None) -> list[tuple[str, str, str]]:
    """The roofs that a reader asks for first: name, measured, in theory."""
    if machine is None:
        return []
    measured, theory = (
        {c.resource: c.rate for c in machine.ceilings if c.scope == "all" and c.origin == origin}
        for origin in ("measured", "theoretical")
    )
    roofs = {name: ceiling.rate for name, ceiling in machine.roofs().items()} | measured
    words = {
        "flop/fp32": "FP32", "flop/bf16": "BF16", "flop/bf16-tensor": "BF16, matrix unit",
        "flop/int8": "INT8", "flop/int8-tensor": "INT8, matrix unit", "byte/l2": "L2",
        "byte/l3": "L3", "byte/dram": "DRAM", "launch": "one op", "fault": "one page fault",
    }  # fmt: skip
    return [
        (word, _rate(name, roofs[name]), _rate(name, theory[name]) if name in theory else "–")
        for name, word in words.items()
        if name in roofs and name not in machine.emulated
    ]


class Factor(NamedTuple):
    """A factor's card: its sentence, the V100's words, a chart of a few bars."""

    key: str
    name: str
    sentence: str
    paper: str | None
    # Label, text, percent of the longest.
    bars: list[tuple[str, str, float]]
    concluded: bool
    why_open: str | None

    @classmethod
    def of(cls, finding: Finding) -> Factor:
        """The card of a conclusion."""
        facts = finding.evidence
        longest = max((bar["value"] for bar in facts["bars"]), default=1.0) or 1.0
        bars = [(b["label"], b["text"], 100 * b["value"] / longest) for b in facts["bars"]]
        key, name = finding.code.partition("/")[2], finding.title.partition(":")[0]
        return cls(
            key, name, facts["sentence"], facts["paper"], bars, facts["concluded"],
            facts["open_because"],
        )  # fmt: skip


def combined_charts(
    rows: Sequence[Row], machine: Machine | None, overlay: Overlay | None
) -> dict[str, Charted]:
    """The large chart of each kernel's forward pass, its sweeps to choose from."""
    held: dict[str, list[Panel]] = {}
    for panel in panels_beside(rows, overlay):
        if panel.pass_name == "forward":
            held.setdefault(panel.op, []).append(panel)
    # The paper's kernels where there are some: others are among the small charts.
    order = [op for op in NAMES if op in held] or sorted(held)
    swept = [(op, [p for p in held[op] if not isinstance(p.values[0], str)]) for op in order]
    made = {
        f"combined-{n}": combined_chart(own, machine, overlay, f"{NAMES.get(op, op)}, forward")
        for n, (op, own) in enumerate(swept)
        if machine and own
    }
    return {key: chart for key, chart in made.items() if chart is not None}


def _overlay_notes(overlay: Report | None) -> list[str]:
    if overlay is None or overlay.machine is None:
        return []
    return [
        f"Rows in italics and thin black symbols are {overlay.machine.device}: other hardware,"
        " other software, another year. Their bounds and shares are those of their own roofs.",
        *overlay.notes,
    ]


class Picture(NamedTuple):
    """A picture in the page, in the page's own colours, with its caption."""

    svg: Markup
    caption: str


def picture(figure: Figure, caption: str, name: str) -> Picture:
    """A figure as an SVG element; its texts are escaped, and no script runs in the page."""
    from matplotlib.pyplot import close

    svg = Markup(themed_svg(figure, name, caption))
    close(figure)
    return Picture(svg, caption)


_SCOPES = {"all": "", "core": ", one core", "socket": ", one socket"}


class RoofTable(NamedTuple):
    """Ceilings of machines side by side."""

    heads: list[str]
    lines: list[tuple[str, list[str]]]


def roof_table(rows: Sequence[Row], machine: Machine | None, overlay: Overlay | None) -> RoofTable:
    """Ceilings of this machine, per scope that the rows use, beside those of the other."""
    columns = [
        (f"{machine.device}{_SCOPES[scope]}", machine.roofs(scope))
        for scope in sorted({row.scope for row in rows})
        if machine
    ]
    if overlay:
        columns.append((overlay.machine.device, overlay.machine.roofs()))
    names = sorted({name for _, roofs in columns for name in roofs})
    lines = [
        (
            resource_words(name),
            [_rate(name, roofs[name].rate) if name in roofs else "–" for _, roofs in columns],
        )
        for name in names
    ]
    return RoofTable([head for head, _ in columns], lines)


def _rate(resource: str, rate: float) -> str:
    return format_rate(resource, rate)
