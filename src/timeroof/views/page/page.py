"""The page itself: static words by template, data and scripts embedded, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

from markupsafe import Markup

from timeroof.core.units import format_percent
from timeroof.views.doubts import is_empty
from timeroof.views.ladder import amounts_line, ladder, origin_rows, seconds_words
from timeroof.views.overview import overview
from timeroof.views.page import payload as ceilings
from timeroof.views.page.payload import MAX_ROWS, finding_cards, page_payload
from timeroof.views.page.strip import rank_strip, strip_of
from timeroof.views.page.templates import (
    asset,
    content_policy,
    page_styles,
    page_template,
    script_safe_json,
)
from timeroof.views.palette import LIMITERS
from timeroof.views.plain import clip, plain_line
from timeroof.views.title import run_title, workload_name

if TYPE_CHECKING:
    from timeroof.core.report import Report

# The bundle of the modules in web/src, committed with them.
REPORT_SCRIPT = "scripts/report.js"
STYLES = ("base.css", "headline.css", "charts.css", "table.css", "seconds.css", "print.css")


# Holds the place of what is put in as bytes; texts of files lose such characters (`shown`).
_PLACE = "\x00"


def html_page(
    report: Report, *, title: str | None = None, runs: Sequence[Report] | None = None
) -> str:
    """One self-contained page of a report, or of several runs beside one another.

    With `runs` the page shows all of them, `report` first; colours may then tell runs apart.
    """
    return html_bytes(report, title=title, runs=runs).decode()


def html_bytes(
    report: Report, *, title: str | None = None, runs: Sequence[Report] | None = None
) -> bytes:
    """The page as UTF-8; its data, most of it, are put in as bytes."""
    reports = [report, *(r for r in runs or () if r is not report)]
    names = run_names(reports)
    heading = clip(plain_line(title or page_title(reports, names)), 200)
    panels = [_panel(i, name, r) for i, (name, r) in enumerate(zip(names, reports, strict=True))]
    script = asset(REPORT_SCRIPT)
    page = page_template("report/page.html.j2").render(
        title=heading,
        panels=panels,
        kinds=LIMITERS,
        is_empty=all(panel.is_empty for panel in panels),
        policy=content_policy(script),
        styles=page_styles(STYLES),
        data=Markup(_PLACE),
        script=Markup(script),
    )
    before, after = page.encode().split(_PLACE.encode())
    data = script_safe_json(page_payload(reports, names, heading))
    return b"".join((before, data, after))


def run_names(reports: Sequence[Report]) -> list[str]:
    """A short and different name for every run."""
    names: list[str] = []
    for report in reports:
        name = clip(plain_line(workload_name(report)), 60)
        same = sum(n == name or n.startswith(f"{name} #") for n in names)
        names.append(f"{name} #{same + 1}" if same else name)
    return names


def page_title(reports: Sequence[Report], names: Sequence[str]) -> str:
    """A title for runs that were given none."""
    if len(reports) > 1:
        return f"{len(reports)} runs: {', '.join(names[:3])}{'…' if len(names) > 3 else ''}"
    return run_title(reports[0])


def _panel(index: int, name: str, report: Report) -> SimpleNamespace:
    """One run's part of the static page."""
    return SimpleNamespace(
        index=index,
        name=name,
        report=report,
        first=overview(report),
        strip=strip_of(report),
        ranks=rank_strip(report),
        ladder=ladder(report),
        seconds=seconds_words(report),
        amounts=amounts_line(report.totals),
        ceilings=ceilings.ceiling_lines(report),
        facts=ceilings.machine_facts(report.machine) if report.machine else [],
        findings=finding_cards(report),
        origins=origin_rows(report),
        notes=[*report.notes, *_page_notes(report)],
        is_empty=is_empty(report),
    )


def _page_notes(report: Report) -> list[str]:
    rows = report.profile.kernels
    if rows.height <= MAX_ROWS:
        return []
    share = float(rows["time_s"].head(MAX_ROWS).sum()) / (float(rows["time_s"].sum()) or 1.0)
    return [
        f"This page lists the {MAX_ROWS:,} longest of {rows.height:,} rows,"
        f" {format_percent(share, 3)} of the time; the totals count all."
    ]
