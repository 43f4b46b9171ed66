"""A comparison and a what-if as one static page: a picture and tables, no script, nothing fetched.

The page follows the reader's light or dark theme; all texts of files are escaped by the template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from timeroof.core.version import VERSION
from timeroof.views.compare import (
    CAUSE_WORDS,
    cells,
    headline,
    main_causes,
    signed_seconds,
    told_rows,
)
from timeroof.views.page.templates import page_template
from timeroof.views.palette import limiter_styles
from timeroof.views.pictures.themed import themed_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 200


@dataclass(frozen=True)
class Drawing:
    """A picture of a page and the line under it."""

    figure: Figure
    caption: str


@dataclass(frozen=True)
class Table:
    """A table of a page: texts only; the first column is left-aligned."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def comparison_page(document: Mapping[str, Any], drawings: Sequence[Drawing]) -> str:
    """A `timeroof.compare/1` document as a page."""
    causes = [[CAUSE_WORDS[c], signed_seconds(s)] for c, s in main_causes(document).items()]
    lead, told = told_rows(document)
    others = [row for row in document["rows"] if not row["significant"]]
    return static_page(
        f"{document['a']} → {document['b']}",
        headline(document),
        drawings,
        [
            Table("Why", ("cause", "seconds"), causes),
            _table("Kernels that changed", told, lead),
            _table("All others", others),
        ],
        document["notes"],
    )


def _table(title: str, rows: Sequence[Mapping[str, Any]], note: str = "") -> Table:
    heads, lines = cells(rows[:MOST_ROWS], noise=True)
    matched = [row["matched_by"] for row in rows[:MOST_ROWS]]
    told = [[*line, by] for line, by in zip(lines, matched, strict=True)]
    return Table(title, (*heads, "matched by"), told, note)


def static_page(
    title: str,
    lead: str,
    drawings: Sequence[Drawing],
    tables: Sequence[Table],
    notes: Sequence[str],
) -> str:
    """A page of pictures and tables that opens from disk, in light and in dark."""
    pictures = [
        (Markup(themed_svg(d.figure, f"p{i}", d.caption)), d.caption)
        for i, d in enumerate(drawings)
    ]
    return page_template("static.html.j2").render(
        title=title,
        lead=lead,
        pictures=pictures,
        tables=[t for t in tables if t.rows or t.note],
        notes=notes,
        version=VERSION,
        limiter_styles=Markup(limiter_styles()),
    )
