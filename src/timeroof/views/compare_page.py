"""A comparison and a what-if as one static page: a picture and tables, no script, nothing fetched.

The page follows the reader's light or dark theme; all texts of files are escaped by the template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from markupsafe import Markup

from timeroof.core.errors import TimeroofError, UsageError
from timeroof.core.files import atomic_path, write_atomically
from timeroof.core.units import format_percent, format_seconds
from timeroof.views.compare import (
    CAUSE_WORDS,
    cells,
    headline,
    main_causes,
    markdown_comparison,
    signed_seconds,
    told_rows,
)
from timeroof.views.page.templates import Table, static_page
from timeroof.views.pictures.frame import themed_svg
from timeroof.views.plain import markdown_text
from timeroof.views.whatif import WITHOUT_IDLE, has_idle, told_apart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.report import Report
    from timeroof.model.compare.compare import Comparison
    from timeroof.model.whatif.project import WhatIf

MOST_ROWS = 200
# A picture as an element of a page, and the line under it.
Captioned = tuple[Markup, str]
Figures = Callable[[], "Mapping[str, Figure]"]


def comparison_page(document: Mapping[str, Any], pictures: Sequence[Captioned]) -> str:
    """A `timeroof.compare/1` document as a page."""
    causes = [[CAUSE_WORDS[c], signed_seconds(s)] for c, s in main_causes(document).items()]
    lead, told = told_rows(document)
    others = [row for row in document["rows"] if not row["significant"]]
    return static_page(
        f"{document['a']} → {document['b']}",
        headline(document),
        pictures=pictures,
        tables=[
            Table("Why", ("cause", "seconds"), causes),
            _table("Kernels that changed", told, lead),
            _table("All others", others),
        ],
        notes=document["notes"],
    )


def _table(title: str, rows: Sequence[Mapping[str, Any]], note: str = "") -> Table:
    heads, lines = cells(rows[:MOST_ROWS], noise=True)
    matched = [row["matched_by"] for row in rows[:MOST_ROWS]]
    told = [[*line, by] for line, by in zip(lines, matched, strict=True)]
    return Table(title, (*heads, "matched by"), told, note)


# A what-if as a page and as Markdown.


MOST_WHATIF_ROWS = 100
_MACHINES = ("machine", "bound", "predicted", "low", "high", "speed-up")


def whatif_page(document: Mapping[str, Any], pictures: Sequence[Captioned]) -> str:
    """A `timeroof.whatif/1` document as a page."""
    names = [m["name"] for m in document["machines"]]
    lead = (
        f"Measured on {document['from']}: {format_seconds(document['measured_s'])}. Predicted: "
        + ", ".join(f"{m['name']} {format_seconds(m['predicted_s'])}" for m in document["machines"])
    )
    return static_page(
        f"{document['from']} → {', '.join(names[:4])}{'…' if len(names) > 4 else ''}",
        lead,
        pictures=pictures,
        tables=_tables(document, names),
        notes=document["notes"],
    )


def _tables(document: Mapping[str, Any], names: list[str]) -> list[Table]:
    machines = [machine_cells(document, m) for m in document["machines"]]
    heads = ("kernel", "limiter", "now", *names)
    return [
        Table("Machines", _MACHINES, machines),
        Table("Limiters that change", ("machine", "from → to", "predicted"), _changes(document)),
        Table("Kernels", heads, _kernels(document), _below(document)),
    ]


def machine_cells(document: Mapping[str, Any], machine: Mapping[str, Any]) -> list[str]:
    """A machine's line of the table."""
    faster = document["measured_s"] / machine["predicted_s"] if machine["predicted_s"] else None
    seconds = [format_seconds(machine[c]) for c in ("bound_s", "predicted_s", "low_s", "high_s")]
    return [machine["name"], *seconds, "?" if faster is None else f"{faster:.2f}x"]


def _changes(document: Mapping[str, Any]) -> list[list[str]]:
    return [
        [machine["name"], change, format_seconds(seconds)]
        for machine in document["machines"]
        for change, seconds in list(machine["limiter_changes_s"].items())[:8]
    ]


def _kernels(document: Mapping[str, Any]) -> list[list[str]]:
    longest = sorted(document["rows"], key=lambda row: -(row["time_s"] or 0.0))[:MOST_WHATIF_ROWS]
    told = told_apart(document["rows"])
    return [
        [
            told[row["id"]],
            row["limiter"],
            format_seconds(row["time_s"]),
            *(_predicted(m) for m in row["machines"]),
        ]
        for row in longest
    ]


def _predicted(machine: Mapping[str, Any]) -> str:
    seconds = (
        f"{format_seconds(machine['predicted_s'])}"
        f" ({format_seconds(machine['low_s'])} to {format_seconds(machine['high_s'])})"
    )
    return f"{seconds}, {machine['limiter']}" if machine["limiter_changes"] else seconds


def _below(document: Mapping[str, Any]) -> str:
    """What stands below the kernels: which seconds these are, and how many rows are left out."""
    rest = len(document["rows"]) - MOST_WHATIF_ROWS
    more = f"The {MOST_WHATIF_ROWS} longest; {rest} more are in the JSON." if rest > 0 else ""
    return " ".join(filter(None, [more, WITHOUT_IDLE if has_idle(document) else ""]))


def markdown_whatif(document: Mapping[str, Any]) -> str:
    """A what-if as Markdown."""
    share = document.get("known_time_share")
    known = "" if share is None else f", {format_percent(share)} of its time with known work"
    lines = [
        f"**Measured on {markdown_text(document['from'])}:"
        f" {format_seconds(document['measured_s'])}{known}**",
        "",
        f"| {' | '.join(_MACHINES)} |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for machine in document["machines"]:
        name, *numbers = machine_cells(document, machine)
        lines.append(f"| {markdown_text(name)} | {' | '.join(numbers)} |")
    for name, change, seconds in _changes(document):
        lines += [
            "",
            f"{markdown_text(name)}: {seconds} with another limiter, {markdown_text(change)}",
        ]
    lines += ["", *(f"- {markdown_text(note)}" for note in document["notes"])]
    return "\n".join(lines).rstrip() + "\n"


# A comparison or a what-if as files: the suffix of a name says which form, a folder gets all.


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
    figures: Figures


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
        from timeroof.views.compare import comparison_figure

        return {"compare": comparison_figure(result, a, b)}

    def page() -> str:

        return comparison_page(document, _drawings(figures, {"compare": ARROWS}))

    return Outputs("compare", document, lambda: markdown_comparison(document), page, figures)


def whatif_outputs(result: WhatIf) -> Outputs:
    """The outputs of `whatif`."""
    document = result.document()

    def figures() -> dict[str, Figure]:
        from timeroof.views.pictures.whatif import whatif_figures

        return whatif_figures(result)

    def page() -> str:

        return whatif_page(document, _drawings(figures, {"machines": BARS}))

    def markdown() -> str:

        return markdown_whatif(document)

    return Outputs("whatif", document, markdown, page, figures)


def _drawings(figures: Figures, captions: dict[str, str]) -> list[Captioned]:
    """Pictures with their captions; none where a run cannot be drawn, the tables remain."""
    try:
        made = figures()
    except TimeroofError:
        return []
    return [
        (Markup(themed_svg(figure, f"p{place}", caption)), caption)
        for place, (name, figure) in enumerate(made.items())
        for caption in [captions.get(name, ARROWS)]
    ]
