"""A report in a notebook: the headline as a small piece of HTML without scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timeroof.views.ladder import ladder, seconds_words
from timeroof.views.overview import overview
from timeroof.views.page.templates import page_template
from timeroof.views.palette import LIMITER_COLOURS

if TYPE_CHECKING:
    from timeroof.core.report import Report

PART_COLOURS = LIMITER_COLOURS | {
    "communication": LIMITER_COLOURS["link"],
    "copy": "#46505c",
    "idle": "#c3c8cf",
    "unexplained": "#e0a070",
}


def notebook_html(report: Report) -> str:
    """The first screen of the page: a few kB that every notebook shows.

    It has no script, so that it also shows where a notebook is not trusted; the
    whole page is `report.save("report.html")`, the charts are `report.figure(name)`.
    """
    return page_template("report/notebook.html.j2").render(
        first=overview(report),
        ladder=ladder(report),
        colours=PART_COLOURS,
        seconds=seconds_words(report),
        notes=report.notes,
    )
