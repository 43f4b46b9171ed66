"""The paper's report, and the folder that `timeroof paper` writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from timeroof.api.reports import analyze, machine, save
from timeroof.core.columns import Row
from timeroof.core.errors import UsageError
from timeroof.core.files import write_atomically
from timeroof.core.machine import Machine
from timeroof.core.profile import LABEL, Profile
from timeroof.core.report import Report
from timeroof.model.judge import RoofPair
from timeroof.paper import (
    CONV_CHANNELS,
    CONV_INPUT,
    MACHINE,
    PARAMETERS,
    base_case,
    paper_profile,
    sweep,
)
from timeroof.views import pictures as drawing
from timeroof.views.pictures import FigureSize, Look, Roofs, Unit, hierarchical_roofline
from timeroof.views.pictures.frame import MARKERS, LegendEntry
from timeroof.views.pictures.marks import GREY, box_entry, row_unit, size_entries, value_entries
from timeroof.views.render import csv_bytes, report_markdown
from timeroof.views.style import PALETTE

# The paper's figures from its numbers: the authors' twelve, and the ones they never drew.


COLOURS = {"PT": PALETTE[0], "TF1": PALETTE[1], "TF2": PALETTE[2]}
LEVEL_NAMES = {"l1": "L1", "l2": "L2", "dram": "HBM"}


@dataclass(frozen=True)
class PaperFigure:
    """A figure by name: what is drawn, of which operator, pass and parameter."""

    name: str
    chart: str
    op: str
    phase: str
    parameter: str | None = None
    drawn_by_authors: bool = False


def paper_figures() -> list[PaperFigure]:
    """All figures, in the order of the paper."""
    figures = []
    for phase, op in product(("forward", "backward"), PARAMETERS):
        tail = "" if phase == "forward" else f"_{phase}"
        for chart, parameter in product(("time", "roofline"), PARAMETERS[op]):
            name = f"{op}_{chart}_{parameter.replace('_', '')}{tail}"
            authors = phase == "forward" and (op == "conv2d" or chart == "roofline")
            figures.append(PaperFigure(name, chart, op, phase, parameter, authors))
        figures += [
            PaperFigure(f"{op}_{chart}_{phase}", chart, op, phase)
            for chart in ("complexity", "timeplane", "hierarchy")
        ]
    return figures


_OP_TITLES = {"conv2d": "conv2d", "lstm": "LSTM"}


def draw(figure: PaperFigure, rows: pl.DataFrame, machine: Machine) -> Figure:
    """Draw one figure from the judged rows."""
    title = f"{_OP_TITLES[figure.op]}, {figure.phase}"
    if figure.parameter is not None:
        return _draw_sweep(figure, figure.parameter, rows, machine, title)
    if figure.chart == "hierarchy":
        return _draw_hierarchy(figure, rows, machine, title)
    part = rows.filter((pl.col("op") == figure.op) & (pl.col("phase") == figure.phase))
    units = [_unit(row, "o") for row in part.iter_rows(named=True)]
    drawn, word = {
        "complexity": (drawing.complexity_plane, "work of all cases"),
        "timeplane": (drawing.time_plane, "time of all cases"),
    }[figure.chart]
    legend = _series_legend(boxed=True)
    return drawn(units, paper_roofs(machine), title=f"{title}: {word}", legend=legend)


def _draw_sweep(
    figure: PaperFigure, parameter: str, rows: pl.DataFrame, machine: Machine, title: str
) -> Figure:
    part = sweep(rows, figure.op, figure.phase, parameter)
    markers = dict(zip(part["value"].unique(maintain_order=True), MARKERS, strict=False))
    units = [_unit(row, markers[row["value"]]) for row in part.iter_rows(named=True)]
    word = PARAMETERS[figure.op][parameter]
    values = value_entries(word, parameter, markers)
    legend, title = [*_series_legend(paired=figure.chart == "time"), values], f"{title}: {word}"
    if figure.chart == "time":
        return drawing.combined_chart(units, paper_roofs(machine), title=title, legend=legend)
    memory = {"HBM": machine.rate("byte/dram") or 0.0}
    return hierarchical_roofline(units, compute_roofs(machine), memory, title=title, legend=legend)


def _draw_hierarchy(
    figure: PaperFigure, rows: pl.DataFrame, machine: Machine, title: str
) -> Figure:
    """The base case with its intensity at every level: one marker per level."""
    part = base_case(rows, figure.op, figure.phase)
    markers = dict(zip(LEVEL_NAMES, ("^", "s", "o"), strict=True))
    units = [
        replace(unit, bytes_by_level={"dram": unit.bytes_by_level[level]})
        for row in part.iter_rows(named=True)
        for level, marker in markers.items()
        for unit in [_unit(row, marker)]
    ]
    rates = {name: machine.rate(f"byte/{level}") for level, name in LEVEL_NAMES.items()}
    memory = {name: rate for name, rate in rates.items() if rate is not None}
    levels = [LegendEntry(f"at {LEVEL_NAMES[v]}", Look(GREY, m)) for v, m in markers.items()]
    title, size = f"{title}: base case at every level", FigureSize(height=3.7)
    roofs, legend = compute_roofs(machine), [*_series_legend(), levels]
    return hierarchical_roofline(units, roofs, memory, title=title, legend=legend, size=size)


def paper_roofs(machine: Machine) -> Roofs:
    """The authors' one pair of roofs: tensor cores and HBM, for all precisions."""
    return Roofs(
        compute_name="tensor-core peak",
        flops_per_s=machine.rate("flop/fp16-tensor") or 0.0,
        memory_name="HBM",
        bytes_per_s=machine.rate("byte/dram") or 0.0,
        launch_s=machine.launch_overhead_s,
    )


def compute_roofs(machine: Machine) -> dict[str, float]:
    """The compute ceilings that the authors draw."""
    names = {"flop/fp16-tensor": "tensor core", "flop/fp16": "FP16", "flop/fp32": "FP32"}
    return {name: rate for r, name in names.items() if (rate := machine.rate(r)) is not None}


def _unit(row: Row, marker: str) -> Unit:
    half = row[f"{LABEL}precision"] == "FP16"
    return row_unit(row, Look(COLOURS[row[f"{LABEL}framework"]], marker, half))


def _series_legend(*, paired: bool = False, boxed: bool = False) -> list[list[LegendEntry]]:
    frameworks = {"PT": "PyTorch", "TF1": "TensorFlow 1", "TF2": "TensorFlow 2"}
    colours = [LegendEntry(text, Look(COLOURS[key], "o")) for key, text in frameworks.items()]
    fillings = [
        LegendEntry("open: FP32", Look(GREY, "o", filled=False)),
        LegendEntry("filled: FP16", Look(GREY, "o", filled=True)),
    ]
    if paired:
        return [[*colours, box_entry()], [*fillings, *size_entries()]]
    return [colours, [*fillings, box_entry()] if boxed else fillings]


COMPULSORY = f"{LABEL}compulsory_bytes"
_WIDTH = {"FP32": 4.0, "FP16": 2.0}


def with_compulsory_bytes(profile: Profile) -> Profile:
    """Label forward convolutions with their least bytes: input, weights and output, once each.

    Other passes are not that simple: the backward passes of the frameworks are not the same work,
    and what a recurrent layer must move depends on what it may keep. TensorFlow pads to "same",
    PyTorch not at all.
    """
    batch, filters, kernel, stride = (
        pl.col(f"{LABEL}{p}").cast(pl.Float64) for p in ("batch", "filters", "kernel", "stride")
    )
    padded = (CONV_INPUT / stride).ceil()
    bare = ((CONV_INPUT - kernel) / stride).floor() + 1
    side = pl.when(pl.col(f"{LABEL}framework") == "PT").then(bare).otherwise(padded)
    image = batch * CONV_INPUT**2 * CONV_CHANNELS
    weights, output = filters * CONV_CHANNELS * kernel**2, batch * filters * side**2
    width = pl.col(f"{LABEL}precision").replace_strict(_WIDTH, return_dtype=pl.Float64)
    least = (width * (image + weights + output)).round().cast(pl.Int64).cast(pl.String)
    conv = (pl.col("op") == "conv2d") & (pl.col("phase") == "forward")
    label = pl.when(conv).then(least).alias(COMPULSORY)
    return profile.with_kernels(profile.kernels.with_columns(label))


TITLE = "The measurements of arXiv 2009.04598"


def build_paper() -> Report:
    """Judge the published passes with the authors' pair of roofs."""
    chosen = machine(MACHINE)
    profile = with_compulsory_bytes(paper_profile())
    return analyze(profile, chosen, pair=RoofPair(), findings=())


def chosen_figures(names: list[str] | None) -> list[PaperFigure]:
    """Figures by name, all where none is named."""
    known = {figure.name: figure for figure in paper_figures()}
    if not names:
        return list(known.values())
    for name in set(names) - set(known):
        raise UsageError(f"no figure is called {name!r}", advice="`--figure list` prints all names")
    return [known[name] for name in dict.fromkeys(names)]


def write_folder(
    report: Report, folder: Path, figures: list[PaperFigure], suffix: str,
    advance: Callable[[str], None], *, page: str | None,
) -> Path:  # fmt: skip
    """Write pictures and, where there is a page, it with JSON, CSV and run; return what to open."""
    rows = report.rows
    assert report.machine is not None
    for figure in figures:
        drawn = draw(figure, rows, report.machine)
        drawing.save_figure(drawn, folder / f"{figure.name}.{suffix}")
        advance(figure.name)
    if page is None:
        return folder / f"{figures[0].name}.{suffix}"
    path = folder / "index.html"
    write_atomically(path, page.encode())
    markdown = report_markdown([report], [TITLE], title=TITLE)
    write_atomically(folder / "findings.md", markdown.encode())
    write_atomically(folder / "passes.csv", csv_bytes(report.rows))
    for name in ("paper.json", "paper.troof", "report.html"):
        save(report, folder / name)
    return path
