"""A comparison or a what-if as files: the suffix of a name says which form, a folder gets all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from timeroof.core.errors import TimeroofError, UsageError
from timeroof.core.writing import atomic_path, write_atomically
from timeroof.views.compare import markdown_comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.report import Report
    from timeroof.model.compare.compare import Comparison
    from timeroof.model.whatif.project import WhatIf
    from timeroof.views.compare_page import Drawing

PICTURES = ("png", "svg", "pdf")
TEXTS = ("json", "md", "html")
SUFFIXES = ("html", *PICTURES, "md", "json")


@dataclass(frozen=True)
class Outputs:
    """What can be written of a result; pictures and pages are made only where asked for."""

    name: str
    document: Mapping[str, Any]
    markdown: Callable[[], str]
    page: Callable[[], str]
    figures: Callable[[], Mapping[str, Figure]]


def check_suffix(path: Path, allowed: tuple[str, ...] = SUFFIXES) -> Path:
    """A path whose suffix says how to write it; another one is refused before any work."""
    if path.suffix.lstrip(".").lower() not in allowed:
        raise UsageError(
            f"{path.name!r} has no known suffix", advice=f"end the name in .{', .'.join(allowed)}"
        )
    return path


def write_output(outputs: Outputs, path: Path, kind: str | None = None) -> None:
    """Write one file whole or not at all; a PDF has a page per picture, others the first."""
    kind = kind or path.suffix.lstrip(".").lower()
    if kind == "json":
        write_atomically(path, msgspec.json.encode(outputs.document) + b"\n")
    elif kind == "md":
        write_atomically(path, outputs.markdown().encode())
    elif kind == "html":
        write_atomically(path, outputs.page().encode())
    else:
        _write_picture(outputs.figures(), path, kind)


def folder_files(name: str) -> list[str]:
    """What a folder gets beside pictures, which no command reads.

    >>> folder_files("compare")
    ['compare.json', 'compare.md', 'compare.html']
    """
    return [f"{name}.{kind}" for kind in TEXTS]


def write_folder(outputs: Outputs, folder: Path) -> None:
    """Write every form into a folder; pictures only where the runs can be drawn."""
    for kind, name in zip(TEXTS, folder_files(outputs.name), strict=True):
        write_output(outputs, folder / name, kind)
    try:
        figures = outputs.figures()
    except TimeroofError:
        return
    from timeroof.views.pictures import save_figure

    for name, figure in figures.items():
        save_figure(figure, folder / f"{name}.png")


def _write_picture(figures: Mapping[str, Figure], path: Path, kind: str) -> None:
    from timeroof.views.pictures import save_figure
    from timeroof.views.pictures.frame import styled

    if kind != "pdf" or len(figures) == 1:
        save_figure(next(iter(figures.values())), path)
        return
    from matplotlib.backends.backend_pdf import PdfPages

    # No date, so that the same numbers give the same file.
    with (
        atomic_path(path) as part,
        styled(),
        PdfPages(part, metadata={"CreationDate": None}) as pages,
    ):
        for figure in figures.values():
            pages.savefig(figure)


# What `compare` and `whatif` can write: the document, and the views that are made of it.


ARROWS = (
    "Work and time of matched kernels. Small dots: work; circles: time, open before and filled"
    " after. Along a diagonal the work is the same: down is faster. Seconds on the axes are those"
    " of the first run's machine."
)
BARS = "Seconds by what limits them; whiskers are the interval, dotted ticks the bound."


def comparison_outputs(result: Comparison, a: Report, b: Report) -> Outputs:
    """The outputs of `compare`."""
    document = result.document()

    def figures() -> dict[str, Figure]:
        from timeroof.views.compare_chart import comparison_figure

        return {"compare": comparison_figure(result, a, b)}

    def page() -> str:
        from timeroof.views.compare_page import comparison_page

        return comparison_page(document, _drawings(figures, {"compare": ARROWS}))

    return Outputs("compare", document, lambda: markdown_comparison(document), page, figures)


def whatif_outputs(result: WhatIf) -> Outputs:
    """The outputs of `whatif`."""
    document = result.document()

    def figures() -> dict[str, Figure]:
        from timeroof.views.whatif_chart import whatif_figures

        return whatif_figures(result)

    def page() -> str:
        from timeroof.views.whatif_page import whatif_page

        return whatif_page(document, _drawings(figures, {"machines": BARS}))

    def markdown() -> str:
        from timeroof.views.whatif_page import markdown_whatif

        return markdown_whatif(document)

    return Outputs("whatif", document, markdown, page, figures)


def _drawings(figures: object, captions: dict[str, str]) -> list[Drawing]:
    """Pictures with their captions; none where a run cannot be drawn, the tables remain."""
    from timeroof.views.compare_page import Drawing

    assert callable(figures)
    try:
        made: dict[str, Figure] = figures()
    except TimeroofError:
        return []
    return [Drawing(figure, captions.get(name, ARROWS)) for name, figure in made.items()]
