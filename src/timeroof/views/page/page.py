"""The page itself: static words by template, data and scripts embedded, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from timeroof.core.units import format_percent
from timeroof.views.clean import clean_words
from timeroof.views.page import ceilings, headline
from timeroof.views.page.embed import (
    asset,
    content_policy,
    page_script,
    page_styles,
    plotly_hash,
    plotly_script,
    script_safe_json,
)
from timeroof.views.page.findings import FindingCard, finding_cards
from timeroof.views.page.payload import MAX_ROWS, page_payload
from timeroof.views.page.templates import template
from timeroof.views.page.text import clip, plain_line, plain_lines

if TYPE_CHECKING:
    from jinja2 import Template

    from timeroof.core.report import Report

LONGEST_TEXT = 4_000
START_CHARTS = "timeroofPage.startCharts();"
# Holds plotly's place; texts of files lose such characters (`shown`), JSON escapes them.
_PLOTLY = "\x00plotly\x00"


@dataclass(frozen=True)
class RunPanel:
    """One run's part of the static page."""

    index: int
    name: str
    report: Report
    cards: list[headline.Card]
    ladder: list[headline.Rung]
    limiters: list[headline.Part]
    limiters_sum: str
    idle: list[headline.Part]
    idle_sum: str
    seconds: str
    verdict: str
    amounts: str
    ceilings: list[ceilings.CeilingLine]
    facts: list[str]
    findings: list[FindingCard]
    origins: list[tuple[str, str, int, str]]
    notes: list[str]
    is_empty: bool


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
    """The page as UTF-8; plotly, nine tenths of it, is put in as the bytes that it is."""
    reports = [report, *(r for r in runs or () if r is not report)]
    names = run_names(reports)
    heading = clip(plain_line(title or page_title(reports, names)), 200)
    panels = [_panel(i, name, r) for i, (name, r) in enumerate(zip(names, reports, strict=True))]
    script = page_script()
    payload = script_safe_json(page_payload(reports, names, heading))
    page = _template().render(
        title=heading,
        panels=panels,
        is_empty=all(panel.is_empty for panel in panels),
        policy=content_policy(script, START_CHARTS, hashes=[plotly_hash()]),
        styles=Markup(page_styles()),
        data=Markup(payload),
        plotly=Markup(_PLOTLY),
        script=Markup(script),
        starter=Markup(START_CHARTS),
    )
    before, _, after = page.partition(_PLOTLY)
    return b"".join((before.encode(), *plotly_script(), after.encode()))


def run_names(reports: Sequence[Report]) -> list[str]:
    """A short and different name for every run."""
    names: list[str] = []
    for report in reports:
        name = _run_name(report)
        same = sum(n == name or n.startswith(f"{name} #") for n in names)
        names.append(f"{name} #{same + 1}" if same else name)
    return names


def _run_name(report: Report) -> str:
    source = report.profile.source
    given = report.extras.get("name")
    file = source.files[0].name.split(": ")[0].rsplit("/", 1)[-1] if source.files else None
    return clip(plain_line(str(given or file or source.command or source.tool)), 60)


def page_title(reports: Sequence[Report], names: Sequence[str]) -> str:
    """A title for runs that were given none."""
    if len(reports) > 1:
        return f"{len(reports)} runs: {', '.join(names[:3])}{'…' if len(names) > 3 else ''}"
    machine = reports[0].machine
    return f"{names[0]} on {machine.device}" if machine else names[0]


def _panel(index: int, name: str, report: Report) -> RunPanel:
    totals = report.totals
    limiters, idle = headline.limiter_parts(totals), headline.idle_parts(totals)
    return RunPanel(
        index=index,
        name=name,
        report=report,
        cards=headline.cards(report),
        ladder=headline.ladder(report),
        limiters=limiters,
        limiters_sum=headline.sum_text(limiters),
        idle=idle,
        idle_sum=headline.sum_text(idle),
        seconds=clean_words(report),
        verdict=headline.verdict_sentence(report),
        amounts=headline.amounts_line(totals),
        ceilings=ceilings.ceiling_lines(report),
        facts=ceilings.machine_facts(report.machine) if report.machine else [],
        findings=finding_cards(report),
        origins=headline.origin_rows(report),
        notes=[*report.notes, *_page_notes(report)],
        is_empty=headline.is_empty(report),
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


@cache
def _template() -> Template:
    return template("page", asset("page.html.j2"), shown)


def shown(value: object) -> object:
    """What a template writes: texts of files lose what cannot be seen and their excess length.

    >>> shown("a\x07b"), shown(3)
    ('a\ufffdb', 3)
    """
    return clip(plain_lines(value), LONGEST_TEXT) if type(value) is str else value
