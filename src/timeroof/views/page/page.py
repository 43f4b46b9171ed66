"""The page itself: static words by template, data and scripts embedded, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import polars as pl
from markupsafe import Markup

from timeroof.core.units import format_percent, format_seconds
from timeroof.model.fleet import outliers
from timeroof.views.overview import overview
from timeroof.views.page import payload as ceilings
from timeroof.views.page.payload import MAX_ROWS, finding_cards, page_payload
from timeroof.views.page.templates import (
    asset,
    content_policy,
    page_styles,
    page_template,
    script_safe_json,
)
from timeroof.views.parts import (
    amounts_line,
    is_empty,
    ladder,
    origin_rows,
    row_class,
    seconds_words,
)
from timeroof.views.style import LIMITER_COLOURS, LIMITERS, clip, plain_line
from timeroof.views.title import run_title, workload_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from timeroof.core.profile import RankTotals
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


# A strip is so many columns wide, and so many lanes high.
COLUMNS = 500
LANES = 3
# A column is drawn where kernels fill this share of it.
LEAST_FILLED = 0.3


class Piece(msgspec.Struct, frozen=True):
    """Neighbouring columns of one class."""

    start: int
    width: int
    key: str


class Lane(msgspec.Struct, frozen=True):
    """One stream, or all those that have no lane of their own."""

    label: str
    pieces: list[Piece]


class Strip(msgspec.Struct, frozen=True):
    """The lanes of a step, the busiest first."""

    columns: int
    duration: str
    lanes: list[Lane]


def strip_of(report: Report) -> Strip | None:
    """The strip of a report; None where the source has no timestamps."""
    events = _events(report)
    if events is None or not events.height:
        return None
    start_s = float(events["start_s"].min())  # type: ignore[arg-type]
    end_s = float((events["start_s"] + events["duration_s"]).max())  # type: ignore[arg-type]
    if end_s <= start_s:
        return None
    edges = np.linspace(start_s, end_s, COLUMNS + 1)
    busy = (
        events.group_by("stream", maintain_order=True)
        .agg(pl.col("duration_s").sum())
        .sort("duration_s", descending=True, maintain_order=True)
    )
    streams = busy["stream"].to_list()
    own = streams if len(streams) <= LANES else streams[: LANES - 1]
    lanes = [
        Lane(_label(stream, len(streams)), _pieces(_of(events, [stream]), edges)) for stream in own
    ]
    others = streams[len(own) :]
    if others:
        lanes.append(Lane(f"{len(others)} others", _pieces(_of(events, others), edges)))
    shown = [lane for lane in lanes if lane.pieces]
    return Strip(COLUMNS, format_seconds(end_s - start_s), shown) if shown else None


def _events(report: Report) -> pl.DataFrame | None:
    table = report.profile.timeline
    if table is None:
        return None
    classes = report.rows.select(pl.col("id").alias("kernel"), row_class().alias("class"))
    kernels = table.filter(pl.col("kernel").is_not_null() & (pl.col("duration_s") > 0))
    return kernels.join(classes, on="kernel", how="inner", maintain_order="left")


def _of(events: pl.DataFrame, streams: list[str | None]) -> pl.DataFrame:
    return events.filter(pl.col("stream").is_in(streams, nulls_equal=True))


def _label(stream: str | None, count: int) -> str:
    return "" if stream is None or count == 1 else f"stream {stream}"


def _pieces(events: pl.DataFrame, edges: NDArray[np.float64]) -> list[Piece]:
    """Columns by the class that fills most of them, neighbours of one class as one."""
    keys = events["class"].unique(maintain_order=True).to_list()
    filled = np.stack([_filled(events.filter(pl.col("class") == key), edges) for key in keys])
    width_s = edges[1] - edges[0]
    chosen = np.where(filled.sum(axis=0) >= LEAST_FILLED * width_s, filled.argmax(axis=0), -1)
    starts = np.flatnonzero(np.diff(chosen, prepend=-2))
    widths = np.diff(starts, append=len(chosen))
    return [
        Piece(int(start), int(width), keys[chosen[start]])
        for start, width in zip(starts, widths, strict=True)
        if chosen[start] >= 0
    ]


def _filled(events: pl.DataFrame, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds of events in every column: differences of what has passed until its edges."""
    starts = np.sort(events["start_s"].to_numpy())
    ends = np.sort((events["start_s"] + events["duration_s"]).to_numpy())
    return np.diff(_since(starts, edges) - _since(ends, edges))


def _since(times: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over times of the seconds from them until each edge."""
    before = np.searchsorted(times, edges)
    sums = np.concatenate([[0.0], np.cumsum(times)])
    return np.asarray(before * edges - sums[before])


# The drawing's own units; it is stretched to the width of the page.
WIDTH, HEIGHT = 1000.0, 100.0
# Names of ranks that stand out, at the most.
NAMED = 6
FIELDS = {
    "wall_s": "run time",
    "kernel_s": "kernels",
    "communication_s": "communication",
    "idle_s": "idle",
}


class Layer(msgspec.Struct, frozen=True):
    """One part of all ranks' time, as the outline of its area."""

    key: str
    label: str
    path: Markup


class Line(msgspec.Struct, frozen=True):
    """One kind of seconds over all ranks: the least, the median, the most, and who stands out."""

    label: str
    least: str
    middle: str
    most: str
    slowest: int
    standing_out: str


class RankStrip(msgspec.Struct, frozen=True):
    """A column per rank, and a line per kind of seconds."""

    count: int
    first: int
    last: int
    longest: str
    layers: list[Layer]
    lines: list[Line]


def rank_strip(report: Report) -> RankStrip | None:
    """The strip of a report of several ranks; None of one."""
    ranks = sorted(report.profile.ranks, key=lambda rank: rank.rank)
    if len(ranks) < 2:
        return None
    lines = [line for field in FIELDS if (line := _line(ranks, field)) is not None]
    longest_s = max((r.wall_s or r.kernel_s or 0.0 for r in ranks), default=0.0)
    return RankStrip(
        len(ranks), ranks[0].rank, ranks[-1].rank, format_seconds(longest_s),
        _layers(ranks, longest_s), lines,
    )  # fmt: skip


def _line(ranks: Sequence[RankTotals], field: str) -> Line | None:
    known = sorted((value, r.rank) for r in ranks if (value := getattr(r, field)) is not None)
    if len(known) < len(ranks) or not any(value for value, _ in known):
        return None
    far = outliers(ranks, field)
    more = f" and {len(far) - NAMED} more" if len(far) > NAMED else ""
    return Line(
        FIELDS[field], format_seconds(known[0][0]), format_seconds(known[len(known) // 2][0]),
        format_seconds(known[-1][0]), known[-1][1],
        ", ".join(map(str, far[:NAMED])) + more,
    )  # fmt: skip


def _layers(ranks: Sequence[RankTotals], longest_s: float) -> list[Layer]:
    """Kernels at the bottom, communication above, idle at the top; heights in the drawing."""
    if longest_s <= 0:
        return []
    exposed = [min(r.communication_s or 0.0, r.kernel_s or 0.0) for r in ranks]
    computing = [(r.kernel_s or 0.0) - e for r, e in zip(ranks, exposed, strict=True)]
    edges = [[0.0] * len(ranks)]
    parts = (
        ("compute", "kernels", computing),
        ("communication", "communication", exposed),
        ("idle", "idle", [r.idle_s or 0.0 for r in ranks]),
    )  # fmt: skip
    layers = []
    for key, label, seconds in parts:
        tops = [low + s / longest_s for low, s in zip(edges[-1], seconds, strict=True)]
        if any(s > 0 for s in seconds):
            layers.append(Layer(key, label, _outline(edges[-1], tops)))
        edges.append(tops)
    return layers


def _outline(lows: Sequence[float], tops: Sequence[float]) -> Markup:
    """A path round columns of equal width, from left to right above and back below."""
    width = WIDTH / len(lows)
    above = "".join(f"V{_y(top)}H{(i + 1) * width:.1f}" for i, top in enumerate(tops))
    below = "".join(f"V{_y(low)}H{i * width:.1f}" for i, low in reversed(list(enumerate(lows))))
    # Numbers of our own: templates shorten long texts.
    return Markup(f"M0,{HEIGHT:g}{above}{below}Z")


def _y(share: float) -> str:
    return f"{HEIGHT * (1 - min(1.0, share)):.1f}"


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
