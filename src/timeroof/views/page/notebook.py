"""A report in a notebook: the headline as a small piece of HTML without scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.resources import limiter_kind
from timeroof.core.units import format_percent, format_seconds
from timeroof.views.page import headline
from timeroof.views.page.page import page_title, run_names
from timeroof.views.page.templates import page_template
from timeroof.views.palette import LIMITER_COLOURS, LIMITER_WORDS

if TYPE_CHECKING:
    from timeroof.core.report import Report

TOP = 8


@dataclass(frozen=True)
class GapLine:
    """One of the rows with the largest gap."""

    name: str
    full_name: str
    time: str
    bound: str
    limiter: str
    colour: str
    gap: str
    efficiency: str


def notebook_html(report: Report) -> str:
    """Headline, ladder, limiters, largest gaps: a few kB that every notebook shows.

    It has no script, so that it also shows where a notebook is not trusted; the
    whole page is `report.save("report.html")`, the charts are `report.figure(name)`.
    """
    return page_template("report/notebook.html.j2").render(
        title=page_title([report], run_names([report])),
        verdict=headline.verdict_sentence(report),
        cards=headline.cards(report),
        ladder=headline.ladder(report),
        limiters=headline.limiter_parts(report.totals),
        colours=LIMITER_COLOURS,
        seconds=headline.seconds_words(report),
        gaps=_gaps(report),
        findings=report.findings[:5],
        notes=report.notes,
    )


def _gaps(report: Report) -> list[GapLine]:
    rows = report.rows.filter(pl.col("gap_s") > 0).sort("gap_s", descending=True).head(TOP)
    return [
        GapLine(
            name=row["short_name"][:120],
            full_name=row["name"][:600],
            time=format_seconds(row["time_s"]),
            bound=format_seconds(row["bound_s"]),
            limiter=LIMITER_WORDS[limiter_kind(row["limiter"])],
            colour=LIMITER_COLOURS[limiter_kind(row["limiter"])],
            gap=format_seconds(row["gap_s"]),
            efficiency=format_percent(row["efficiency"]),
        )
        for row in rows.iter_rows(named=True)
    ]
