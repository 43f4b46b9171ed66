"""A comparison and a what-if as one static page: a picture and tables, no script, nothing fetched.

The page follows the reader's light or dark theme; all texts of files are escaped by the template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from markupsafe import Markup

from timeroof.core.columns import Row
from timeroof.core.errors import TimeroofError
from timeroof.core.files import write_atomically
from timeroof.core.units import format_percent, format_seconds
from timeroof.views import compare
from timeroof.views.page.templates import Table, static_page
from timeroof.views.pictures.frame import save_figure, themed_svg
from timeroof.views.pictures.whatif import bars_figure
from timeroof.views.plain import markdown_text
from timeroof.views.render import PICTURES
from timeroof.views.whatif import WITHOUT_IDLE, has_idle, machine_cells, told_apart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.report import Report
    from timeroof.model.compare.compare import Comparison
    from timeroof.model.whatif.project import WhatIf

MOST_ROWS = 200
# A picture as an element of a page, and the line under it.
Captioned = tuple[Markup, str]


def comparison_page(document: Row, pictures: Sequence[Captioned]) -> str:
    """A `timeroof.compare/1` document as a page."""
    main = compare.main_causes(document)
    causes = [[compare.CAUSE_WORDS[c], compare.signed_seconds(s)] for c, s in main.items()]
    lead, told = compare.told_rows(document)
    others = [row for row in document["rows"] if not row["significant"]]
    return static_page(
        f"{document['a']} → {document['b']}",
        compare.headline(document),
        pictures=pictures,
        tables=[
            Table("Why", ("cause", "seconds"), causes),
            _table("Kernels that changed", told, lead),
            _table("All others", others),
        ],
        notes=document["notes"],
    )


def _table(title: str, rows: Sequence[Row], note: str = "") -> Table:
    heads, lines = compare.cells(rows[:MOST_ROWS], noise=True)
    matched = [row["matched_by"] for row in rows[:MOST_ROWS]]
    told = [[*line, by] for line, by in zip(lines, matched, strict=True)]
    return Table(title, (*heads, "matched by"), told, note)


# A what-if as a page and as Markdown.

MOST_WHATIF_ROWS = 100
_MACHINES = ("machine", "bound", "predicted", "low", "high", "speed-up")


def whatif_page(document: Row, pictures: Sequence[Captioned]) -> str:
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


def _tables(document: Row, names: list[str]) -> list[Table]:
    machines = [machine_cells(document, m) for m in document["machines"]]
    heads = ("kernel", "limiter", "now", *names)
    return [
        Table("Machines", _MACHINES, machines),
        Table("Limiters that change", ("machine", "from → to", "predicted"), _changes(document)),
        Table("Kernels", heads, _kernels(document), _below(document)),
    ]


def _changes(document: Row) -> list[list[str]]:
    return [
        [machine["name"], change, format_seconds(seconds)]
        for machine in document["machines"]
        for change, seconds in list(machine["limiter_changes_s"].items())[:8]
    ]


def _kernels(document: Row) -> list[list[str]]:
    longest = sorted(document["rows"], key=lambda row: -(row["time_s"] or 0.0))[:MOST_WHATIF_ROWS]
    told = told_apart(document["rows"])
    return [
        [told[row["id"]], row["limiter"], format_seconds(row["time_s"]),
         *(_predicted(m) for m in row["machines"])]
        for row in longest
    ]  # fmt: skip


def _predicted(machine: Row) -> str:
    likely, low, high = (format_seconds(machine[c]) for c in ("predicted_s", "low_s", "high_s"))
    seconds = f"{likely} ({low} to {high})"
    return f"{seconds}, {machine['limiter']}" if machine["limiter_changes"] else seconds


def _below(document: Row) -> str:
    """What stands below the kernels: which seconds these are, and how many rows are left out."""
    rest = len(document["rows"]) - MOST_WHATIF_ROWS
    more = f"The {MOST_WHATIF_ROWS} longest; {rest} more are in the JSON." if rest > 0 else ""
    return " ".join(filter(None, [more, WITHOUT_IDLE if has_idle(document) else ""]))


def markdown_whatif(document: Row) -> str:
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
        words = f"{seconds} with another limiter, {markdown_text(change)}"
        lines += ["", f"{markdown_text(name)}: {words}"]
    lines += ["", *(f"- {markdown_text(note)}" for note in document["notes"])]
    return "\n".join(lines).rstrip() + "\n"


# A comparison or a what-if as files: the suffix of a name says which form, a folder gets all.

TEXTS = ("json", "md", "html")
SUFFIXES = ("html", *PICTURES, "md", "json")
ARROWS = (
    "Work and time of matched kernels. Small dots: work; circles: time, open before and filled"
    " after. Along a diagonal the work is the same: down is faster. Seconds on the axes are those"
    " of the first run's machine."
)
BARS = "Seconds by what limits them; whiskers are the interval, dotted ticks the bound."


@dataclass(frozen=True)
class Outputs:
    """What can be written of a result; its picture is made only where asked for."""

    name: str
    document: Row
    to_markdown: Callable[[Row], str]
    to_page: Callable[[Row, Sequence[Captioned]], str]
    figure: Callable[[], Figure]
    picture: str
    caption: str

    def markdown(self) -> str:
        """The result as Markdown."""
        return self.to_markdown(self.document)

    def page(self) -> str:
        """The result as a page; without a picture where a run cannot be drawn."""
        try:
            svg = Markup(themed_svg(self.figure(), self.picture, self.caption))
        except TimeroofError:
            return self.to_page(self.document, [])
        return self.to_page(self.document, [(svg, self.caption)])


def comparison_outputs(result: Comparison, a: Report, b: Report) -> Outputs:
    """The outputs of `compare`."""
    return Outputs(
        "compare", result.document(), compare.markdown_comparison, comparison_page,
        lambda: compare.comparison_figure(result, a, b), "compare", ARROWS,
    )  # fmt: skip


def whatif_outputs(result: WhatIf) -> Outputs:
    """The outputs of `whatif`."""
    return Outputs(
        "whatif", result.document(), markdown_whatif, whatif_page,
        lambda: bars_figure(result), "machines", BARS,
    )  # fmt: skip


def write_output(outputs: Outputs, path: Path, kind: str | None = None) -> None:
    """Write one file whole or not at all."""
    kind = kind or path.suffix.lstrip(".").lower()
    if kind == "json":
        write_atomically(path, msgspec.json.encode(outputs.document) + b"\n")
    elif kind in TEXTS:
        text = outputs.markdown() if kind == "md" else outputs.page()
        write_atomically(path, text.encode())
    else:
        save_figure(outputs.figure(), path)


def folder_files(name: str) -> list[str]:
    """What a folder gets beside pictures, which no command reads.

    >>> folder_files("compare")
    ['compare.json', 'compare.md', 'compare.html']
    """
    return [f"{name}.{kind}" for kind in TEXTS]


def write_folder(outputs: Outputs, folder: Path) -> None:
    """Write every form into a folder; a picture only where the runs can be drawn."""
    for name in folder_files(outputs.name):
        write_output(outputs, folder / name)
    with suppress(TimeroofError):
        save_figure(outputs.figure(), folder / f"{outputs.picture}.png")
