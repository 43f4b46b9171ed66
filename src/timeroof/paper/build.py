"""The paper's report, and the folder that `timeroof paper` writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from timeroof.api.reports import analyze, machine, save
from timeroof.core.errors import UsageError
from timeroof.core.profile import LABEL, Profile
from timeroof.core.writing import write_atomically
from timeroof.model.judge import RoofPair
from timeroof.paper.data import CONV_CHANNELS, CONV_INPUT, MACHINE, paper_profile
from timeroof.paper.figures import PaperFigure, draw, paper_figures
from timeroof.views.gallery import Picture, gallery_page, markdown_page
from timeroof.views.pictures import save_figure
from timeroof.views.tables import csv_bytes

if TYPE_CHECKING:
    from timeroof.core.report import Report

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
        pictures.append(Picture(path.name, _caption(figure)))
        advance(figure.name)
    if not whole:
        return folder / pictures[0].file
    page = folder / "index.html"
    write_atomically(page, gallery_page(TITLE, report, pictures).encode())
    write_atomically(folder / "findings.md", markdown_page(TITLE, report).encode())
    write_atomically(folder / "passes.csv", csv_bytes(report.rows))
    save(report, folder / "paper.json")
    save(report, folder / "paper.troof")
    save(report, folder / "report.html")
    return page


def _caption(figure: PaperFigure) -> str:
    drawn = "also in the paper" if figure.drawn_by_authors else "not in the paper"
    return f"{figure.name} ({drawn})"
