"""The paper's report, and the folder that `timeroof paper` writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from timeroof.api.reports import analyze, machine, save
from timeroof.core.errors import UsageError
from timeroof.core.files import write_atomically
from timeroof.core.profile import LABEL, Profile
from timeroof.model.judge import RoofPair
from timeroof.paper.data import (
    CONV_CHANNELS,
    CONV_INPUT,
    MACHINE,
    PARAMETERS,
    base_case,
    paper_profile,
    sweep,
)
from timeroof.views.page.headline import limiter_parts
from timeroof.views.page.templates import static_page
from timeroof.views.palette import PALETTE
from timeroof.views.pictures import (
    FigureSize,
    Look,
    Roofs,
    Unit,
    combined_chart,
    complexity_plane,
    hierarchical_roofline,
    save_figure,
    time_plane,
)
from timeroof.views.pictures.frame import LegendEntry
from timeroof.views.pictures.marks import GREY, box_entry, row_unit, size_entries, value_entries
from timeroof.views.pictures.points import MARKERS
from timeroof.views.render import csv_bytes, report_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.machine import Machine
    from timeroof.core.report import Report

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
    """All figures, in the order of the paper.

    >>> sum(f.drawn_by_authors for f in paper_figures())
    12
    """
    figures = []
    for phase in ("forward", "backward"):
        for op, parameters in PARAMETERS.items():
            for chart in ("time", "roofline"):
                for parameter in parameters:
                    name = f"{op}_{chart}_{parameter.replace('_', '')}"
                    authors = phase == "forward" and (op == "conv2d" or chart == "roofline")
                    figures.append(
                        PaperFigure(
                            name if phase == "forward" else f"{name}_backward",
                            chart,
                            op,
                            phase,
                            parameter,
                            authors,
                        )
                    )
            figures += [
                PaperFigure(f"{op}_{chart}_{phase}", chart, op, phase)
                for chart in ("complexity", "timeplane", "hierarchy")
            ]
    return figures


def draw(figure: PaperFigure, rows: pl.DataFrame, machine: Machine) -> Figure:
    """Draw one figure from the judged rows."""
    title = f"{_OP_TITLES[figure.op]}, {figure.phase}"
    if figure.parameter is None:
        return _draw_overview(figure, rows, machine, title)
    part = sweep(rows, figure.op, figure.phase, figure.parameter)
    markers = dict(zip(part["value"].unique(maintain_order=True), MARKERS, strict=False))
    units = [_unit(row, markers[row["value"]]) for row in part.iter_rows(named=True)]
    word = PARAMETERS[figure.op][figure.parameter]
    values = value_entries(word, figure.parameter, markers)
    legend = [*_series_legend(paired=figure.chart == "time"), values]
    title = f"{title}: {word}"
    if figure.chart == "time":
        return combined_chart(units, paper_roofs(machine), title=title, legend=legend)
    return hierarchical_roofline(
        units,
        compute_roofs(machine),
        {"HBM": machine.rate("byte/dram") or 0.0},
        title=title,
        legend=legend,
    )


_OP_TITLES = {"conv2d": "conv2d", "lstm": "LSTM"}


def _draw_overview(figure: PaperFigure, rows: pl.DataFrame, machine: Machine, title: str) -> Figure:
    if figure.chart == "hierarchy":
        return _draw_hierarchy(figure, rows, machine, title)
    part = rows.filter((pl.col("op") == figure.op) & (pl.col("phase") == figure.phase))
    units = [_unit(row, "o") for row in part.iter_rows(named=True)]
    plane = complexity_plane if figure.chart == "complexity" else time_plane
    word = "work of all cases" if figure.chart == "complexity" else "time of all cases"
    legend = _series_legend(boxed=True)
    return plane(units, paper_roofs(machine), title=f"{title}: {word}", legend=legend)


def _draw_hierarchy(
    figure: PaperFigure, rows: pl.DataFrame, machine: Machine, title: str
) -> Figure:
    """The base case with its intensity at every level: one marker per level."""
    part = base_case(rows, figure.op, figure.phase)
    markers = dict(zip(LEVEL_NAMES, ("^", "s", "o"), strict=True))
    units = []
    for row in part.iter_rows(named=True):
        for level, marker in markers.items():
            whole = _unit(row, marker)
            units.append(
                Unit(
                    name=whole.name,
                    flops=whole.flops,
                    bytes_by_level={"dram": whole.bytes_by_level[level]},
                    time_s=whole.time_s,
                    look=whole.look,
                )
            )
    memory = {
        name: rate
        for level, name in LEVEL_NAMES.items()
        if (rate := machine.rate(f"byte/{level}")) is not None
    }
    levels = [
        LegendEntry(f"at {LEVEL_NAMES[level]}", Look(GREY, marker))
        for level, marker in markers.items()
    ]
    return hierarchical_roofline(
        units,
        compute_roofs(machine),
        memory,
        title=f"{title}: base case at every level",
        legend=[*_series_legend(), levels],
        size=FigureSize(height=3.7),
    )


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


def _unit(row: dict[str, Any], marker: str) -> Unit:
    half = row[f"{LABEL}precision"] == "FP16"
    return row_unit(row, Look(COLOURS[row[f"{LABEL}framework"]], marker, half))


def _series_legend(*, paired: bool = False, boxed: bool = False) -> list[list[LegendEntry]]:
    """Frameworks by colour, precisions by filling; for the combined chart work and time by size."""
    frameworks = {"PT": "PyTorch", "TF1": "TensorFlow 1", "TF2": "TensorFlow 2"}
    colours = [LegendEntry(text, Look(COLOURS[key], "o")) for key, text in frameworks.items()]
    fillings = [
        LegendEntry("open: FP32", Look(GREY, "o", filled=False)),
        LegendEntry("filled: FP16", Look(GREY, "o", filled=True)),
    ]
    box = box_entry()
    if not paired:
        return [colours, [*fillings, box] if boxed else fillings]
    colours.append(box)
    return [colours, [*fillings, *size_entries()]]


# The least bytes of a published convolution: input and weights read, output written, once.


COMPULSORY = f"{LABEL}compulsory_bytes"
_WIDTH = {"FP32": 4.0, "FP16": 2.0}


def with_compulsory_bytes(profile: Profile) -> Profile:
    """Label forward convolutions with their compulsory bytes; other passes are not that simple.

    The backward passes of the frameworks are not the same work, and what a recurrent layer must
    move depends on what it may keep.
    """
    conv = (pl.col("op") == "conv2d") & (pl.col("phase") == "forward")
    label = pl.when(conv).then(compulsory_bytes().round().cast(pl.Int64).cast(pl.String))
    return profile.with_kernels(profile.kernels.with_columns(label.alias(COMPULSORY)))


def compulsory_bytes() -> pl.Expr:
    """Bytes of input, weights and output; TensorFlow pads to "same", PyTorch not at all."""
    batch, filters, kernel, stride = (
        pl.col(f"{LABEL}{p}").cast(pl.Float64) for p in ("batch", "filters", "kernel", "stride")
    )
    padded = (CONV_INPUT / stride).ceil()
    bare = ((CONV_INPUT - kernel) / stride).floor() + 1
    side = pl.when(pl.col(f"{LABEL}framework") == "PT").then(bare).otherwise(padded)
    image = batch * CONV_INPUT**2 * CONV_CHANNELS
    weights, output = filters * CONV_CHANNELS * kernel**2, batch * filters * side**2
    width = pl.col(f"{LABEL}precision").replace_strict(_WIDTH, return_dtype=pl.Float64)
    return width * (image + weights + output)


TITLE = "Time-based roofline of the published V100 measurements"


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
    for name in names:
        if name not in known:
            raise UsageError(
                f"no figure is called {name!r}", advice="`--figure list` prints all names"
            )
    return [known[name] for name in dict.fromkeys(names)]


def write_folder(
    report: Report,
    folder: Path,
    figures: list[PaperFigure],
    suffix: str,
    advance: Callable[[str], None],
    *,
    whole: bool,
) -> Path:
    """Write pictures and, if the whole is wanted, page, JSON, CSV and run; return what to open."""
    rows = report.rows
    assert report.machine is not None
    pictures = []
    for figure in figures:
        path = folder / f"{figure.name}.{suffix}"
        save_figure(draw(figure, rows, report.machine), path)
        pictures.append((path.name, _caption(figure)))
        advance(figure.name)
    if not whole:
        return folder / pictures[0][0]
    page = folder / "index.html"
    write_atomically(page, gallery_page(TITLE, report, pictures).encode())
    write_atomically(
        folder / "findings.md", report_markdown([report], [TITLE], title=TITLE).encode()
    )
    write_atomically(folder / "passes.csv", csv_bytes(report.rows))
    save(report, folder / "paper.json")
    save(report, folder / "paper.troof")
    save(report, folder / "report.html")
    return page


def gallery_page(title: str, report: Report, pictures: Sequence[tuple[str, str]]) -> str:
    """Findings, and pictures that lie beside the page with their captions."""
    machine = report.machine.device if report.machine else "no machine"
    return static_page(
        title,
        f"{len(report.profile)} rows judged on {machine}, {report.created}.",
        # Pictures are files beside it, which no policy can name.
        policy="",
        parts=limiter_parts(report.totals),
        findings=report.findings,
        files=pictures,
        notes=report.notes,
    )


def _caption(figure: PaperFigure) -> str:
    drawn = "also in the paper" if figure.drawn_by_authors else "not in the paper"
    return f"{figure.name} ({drawn})"
