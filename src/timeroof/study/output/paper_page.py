"""The page of `timeroof paper`: five factors, each with its chart beside one sentence and a table,
the combined chart of every pass with its sweeps, and the figures as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from timeroof.core.machine import Machine
from timeroof.core.report import Finding, Report
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.paper import BASE_CASE, FRAMEWORKS, PARAMETERS, direct_flops
from timeroof.paper.build import PaperFigure
from timeroof.study.factors.conclusion import Facts
from timeroof.study.factors.published import published_cases
from timeroof.study.judged_cases import Row
from timeroof.study.output.charted import cases_chart, combined_chart, sweep_chart
from timeroof.study.output.sweeps import Panel, panels
from timeroof.study.standing import NAMES
from timeroof.views.overview import overview
from timeroof.views.page.templates import Charted, Table, asset, charts_page

OURS = "timeroof.study.output"
LINKS = (
    ("report.html", "interactive report"),
    ("passes.csv", "passes (CSV)"),
    ("paper.json", "report with findings (JSON)"),
    ("paper.troof", "saved run"),
    ("findings.md", "findings (Markdown)"),
)
# What a chart of the paper's is called among the files.
CHARTS = {
    "time": "combined chart", "roofline": "roofline", "complexity": "work of all cases",
    "timeplane": "time of all cases", "hierarchy": "every memory level",
}  # fmt: skip


@dataclass(frozen=True)
class FactorPart:
    """A factor: its chart, one sentence, its numbers in a table, and all in words."""

    key: str
    name: str
    sentence: str
    chart: Charted
    table: Table
    why: str


def paper_page(
    report: Report, title: str, figures: Sequence[PaperFigure] = (), suffix: str = "png"
) -> str:
    """The page as one file; the pictures that it links lie beside it."""
    assert report.machine is not None
    rows, machine = published_cases(report.rows), report.machine
    factors = factor_parts(rows, machine, report.findings)
    combined = pass_charts(rows, machine)
    return charts_page(
        "paper.html.j2",
        {part.key: part.chart for part in factors} | combined,
        package=OURS,
        styles=asset("study.css", OURS),
        title=title,
        first=overview(report),
        count=len(rows),
        where=machine.device,
        factors=factors,
        combined={key: chart.title for key, chart in combined.items()},
        files=figure_table(figures, suffix),
        links=LINKS if figures else (),
        notes=report.notes,
        version=report.version,
        created=report.created,
    )


def factor_parts(
    rows: Sequence[Row], machine: Machine, findings: Sequence[Finding]
) -> list[FactorPart]:
    """The five factors in the paper's order."""
    forward = [row for row in rows if row.pass_name == "forward"]
    by_code = {finding.code.partition("/")[2]: finding for finding in findings}
    facts = {code: finding.evidence for code, finding in by_code.items()}
    made = {
        "intensity": (_intensity_chart(forward, machine), _intensity_table(facts["intensity"])),
        "locality": (_locality_chart(forward, machine), _locality_table(forward)),
        "autotune": (_autotune_chart(forward), _autotune_table(forward)),
        "launch": (_launch_chart(forward), _launch_table(facts["launch"])),
        "tensor-cores": (_tensor_chart(forward), _tensor_table(facts["tensor-cores"])),
    }
    parts = []
    for code, (chart, table) in made.items():
        name, _, sentence = by_code[code].title.partition(": ")
        why = by_code[code].why
        parts.append(FactorPart(f"factor-{code}", name, sentence, _in_words(chart), table, why))
    return parts


def pass_charts(rows: Sequence[Row], machine: Machine) -> dict[str, Charted]:
    """The combined chart of each kernel and pass with its sweeps; series are the frameworks."""
    found = {}
    for pass_name in ("forward", "backward"):
        for op, word in NAMES.items():
            own = [p for p in panels(_plain(rows, pass_name)) if p.op == op]
            chart = (
                combined_chart(own, machine, None, f"{word}, {pass_name}, FP32") if own else None
            )
            if chart is not None:
                found[f"{op}-{pass_name}"] = _in_words(chart)
    return found


def _plain(rows: Sequence[Row], pass_name: str) -> list[Row]:
    return [row for row in rows if row.pass_name == pass_name and row.precision == "fp32"]


def figure_table(
    figures: Sequence[PaperFigure], suffix: str
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Figures by kernel and pass: the name of each file and what it shows."""
    held: dict[str, list[tuple[str, str]]] = {}
    for figure in figures:
        word = f", {PARAMETERS[figure.op][figure.parameter]}" if figure.parameter else ""
        own = " (a figure of the paper)" if figure.drawn_by_authors else ""
        place = held.setdefault(f"{NAMES[figure.op]}, {figure.phase}", [])
        place.append((f"{figure.name}.{suffix}", f"{CHARTS[figure.chart]}{word}{own}"))
    return list(held.items())


def _in_words(chart: Charted) -> Charted:
    """Series in the words of the paper: the framework, then the precision."""
    return msgspec.structs.replace(chart, series=[_series_words(name) for name in chart.series])


def _series_words(name: str) -> str:
    precision, _, framework = name.partition(" ")
    short = FRAMEWORKS.get(framework, framework).rpartition(".")[0] or framework
    return f"{short} {precision.upper()}".strip()


def _panel(rows: Sequence[Row], op: str, parameter: str) -> Panel:
    return next(p for p in panels(rows) if (p.op, p.parameter) == (op, parameter))


def _base(rows: Sequence[Row], op: str, **changed: int) -> list[Row]:
    case = BASE_CASE[op] | changed
    return [row for row in rows if row.op == op and case.items() <= row.params.items()]


def _intensity_chart(rows: Sequence[Row], machine: Machine) -> Charted:
    own = [row for row in rows if row.framework == "PT" and row.precision == "fp32"]
    sweeps = [p for p in panels(own) if p.op == "conv2d"]
    chart = combined_chart(sweeps, machine, None, "conv2d, PyTorch FP32")
    assert chart is not None
    return chart


def _intensity_table(evidence: Facts) -> Table:
    held: dict[str, list[Facts]] = {}
    for key, move in evidence.items():
        held.setdefault(key.partition(" ")[0], []).append(move)
    lines = [
        [PARAMETERS["conv2d"][name], *(_span(moves, k) for k in ("flops", "ai", "time"))]
        for name, moves in held.items()
    ]
    note = "Last value of a sweep over the first, over three frameworks and two precisions."
    return Table("Numbers", ("sweep", "work ×", "FLOP per byte ×", "time ×"), lines, note)


def _span(moves: Sequence[Facts], key: str) -> str:
    return _range([move[f"{key}_ratio"] for move in moves])


def _range(values: Sequence[float], form: str = "{:.2g}") -> str:
    """A span of ratios in few digits.

    >>> _range([4.0, 4.0]), _range([1.26, 2.0])
    ('4', '1.3–2')
    """
    return "–".join(dict.fromkeys(form.format(v) for v in (min(values), max(values))))


def _locality_chart(rows: Sequence[Row], machine: Machine) -> Charted:
    base = [row for row in _base(rows, "conv2d") if row.precision == "fp32"]
    names = [FRAMEWORKS[row.framework] for row in base]
    chart = cases_chart("The same convolution in three frameworks", base, names, machine)
    assert chart is not None
    return chart


def _locality_table(rows: Sequence[Row]) -> Table:
    base = [row for row in _base(rows, "conv2d") if row.precision == "fp32"]
    lines = [
        [
            FRAMEWORKS[row.framework], format_seconds(row.time_s),
            format_amount(row.bytes_by["dram"], "B"), f"{row.launches:.0f}",
            *(f"{row.intensity_at(level) or 0:.3g}" for level in ("l1", "l2", "dram")),
        ]
        for row in base
    ]  # fmt: skip
    heads = ("framework", "time", "DRAM bytes", "launches", "FLOP/B at L1", "at L2", "at DRAM")
    return Table("Numbers", heads, lines, "conv2d forward, FP32, base case.")


def _autotune_chart(rows: Sequence[Row]) -> Charted:
    own = sorted(_base(rows, "conv2d", stride=1), key=lambda r: (r.precision, r.time_s))
    names = [f"{row.framework} {row.precision.upper()}" for row in own]
    chart = cases_chart("conv2d at stride 1", own, names, None)
    assert chart is not None
    return chart


def _autotune_table(rows: Sequence[Row]) -> Table:
    lines = [
        [
            f"{FRAMEWORKS[row.framework]} {row.precision.upper()}", format_seconds(row.time_s),
            format_percent((row.flops_by.get("fp16-tensor") or 0.0) / (row.flops or 1.0)),
            f"{(row.flops or 0.0) / direct_flops(row.framework, row.params):.2f}",
        ]
        for row in sorted(_base(rows, "conv2d", stride=1), key=lambda r: r.time_s)
    ]  # fmt: skip
    heads = ("conv2d, stride 1", "time", "on tensor cores", "FLOPs ÷ direct algorithm")
    note = "Below 1 the library ran an algorithm with less arithmetic, such as Winograd's."
    return Table("Numbers", heads, lines, note)


def _launch_chart(rows: Sequence[Row]) -> Charted:
    own = [row for row in rows if row.precision == "fp32"]
    return sweep_chart(_panel(own, "lstm", "time_steps"), None)


def _launch_table(evidence: Facts) -> Table:
    steps = evidence["launches_per_time_step"]
    lines = []
    for name, (low, high) in sorted(evidence["overhead_share"].items()):
        op, _, framework = name.partition(" ")
        share = f"{format_percent(low)} to {format_percent(high)}"
        grows = f"{steps[f'{framework} FP32']:.1f}" if op == "lstm" else "–"
        lines.append([NAMES[op], FRAMEWORKS[framework], share, grows])
    heads = ("kernel", "framework", "launching, of the time", "launches per time step")
    return Table("Numbers", heads, lines, "Forward passes; one launch costs 4.2 µs on this V100.")


def _tensor_chart(rows: Sequence[Row]) -> Charted:
    own = [row for row in rows if row.framework == "TF2"]
    return sweep_chart(_panel(own, "conv2d", "filters"), None)


def _tensor_table(evidence: Facts) -> Table:
    used, missed = evidence["gain_where_used"], evidence["gain_where_missed"]
    lines = [
        ["tensor cores do most FLOPs", f"{_range(used)}×"],
        ["tensor cores are missed", f"{_range(missed)}×"],
        ["best forward convolution", format_amount(evidence["best_flop_per_s"], "FLOP/s")],
        ["of the tensor-core peak", format_percent(evidence["share_of_peak"])],
    ]
    return Table("Numbers", ("forward convolutions", "FP16 against FP32"), lines)
