"""What the page's script gets: every run as columns, with its roofs and its timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from timeroof.core.profile import CALL_LABELS, LABEL, ORIGIN
from timeroof.views.clean import clean_tables
from timeroof.views.page.columns import Column, column
from timeroof.views.page.findings import ordered_findings
from timeroof.views.page.text import clip, plain_line
from timeroof.views.report_points import first_level, headline_pair

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.core.report import Report

PAGE_SCHEMA = "timeroof.page/1"

# More rows than this are not opened by a browser with pleasure: the longest are shown.
MAX_ROWS = 100_000
MAX_EVENTS = 40_000

ROW_COLUMNS = (
    "id", "kind", "name", "short_name", "op", "phase", "module", "shape", "dtype", "device",
    "stream", "rank", "calls", "launches", "time_s", "time_spread", "idle_before_s",
    "padding_flops",
)  # fmt: skip
VERDICT_COLUMNS = ("limiter", "work_bound_s", "bound_s", "gap_s", "paper_class", "above_roof")
MACHINE_PRINTED = ("datasheet", "theoretical", "published")


def page_payload(reports: Sequence[Report], names: Sequence[str], title: str) -> dict[str, Any]:
    """The page's data; `names` are those of the runs."""
    runs = [run_payload(report, name) for report, name in zip(reports, names, strict=True)]
    return {"schema": PAGE_SCHEMA, "title": plain_line(title), "runs": runs}


def run_payload(report: Report, name: str) -> dict[str, Any]:
    """One run: rows as columns, roofs, the pair of roofs of its headline, timeline.

    Rows are in seconds of a clean step, as everything on the page is but the timeline.
    """
    rows, verdicts = (table.head(MAX_ROWS) for table in clean_tables(report))
    amounts = report.profile.amount_columns
    labels = [c for c in rows.columns if c.startswith(LABEL)]
    origins = [c for c in rows.columns if c.startswith(ORIGIN)]
    columns: dict[str, Column] = {c: column(rows[c]) for c in ROW_COLUMNS}
    columns |= {c: column(rows[c]) for c in (*amounts, *labels, *origins)}
    columns |= {c: column(verdicts[c]) for c in VERDICT_COLUMNS}
    return {
        "name": clip(plain_line(name), 80),
        "rows": rows.height,
        "all_rows": len(report.profile),
        "columns": columns,
        "amounts": amounts,
        "labels": [c.removeprefix(LABEL) for c in labels],
        "call_labels": [c for c in CALL_LABELS if f"{LABEL}{c}" in labels],
        "origins": [c.removeprefix(ORIGIN) for c in origins],
        "roofs": {r: [c.rate, c.origin] for r, c in sorted(report.verdicts.roofs.items())},
        "printed": _printed_roofs(report.machine),
        "pair": list(headline_pair(report)),
        "level": first_level(report),
        "synchronous": report.machine is not None and report.machine.launching == "synchronous",
        "machine": plain_line(report.machine.name) if report.machine else None,
        "measured_s": report.totals.ladder.measured_s,
        "clean_scale": report.totals.clean_scale,
        "findings": [finding.kernels for finding in ordered_findings(report)],
        "timeline": _timeline(report),
    }


def _printed_roofs(machine: Machine | None) -> dict[str, float]:
    """What the maker prints, beside what was measured."""
    if machine is None:
        return {}
    printed: dict[str, float] = {}
    for origin in reversed(MACHINE_PRINTED):
        printed |= {r: c.rate for r, c in machine.roofs(origin=origin).items()}  # type: ignore[arg-type]
    return printed


def _timeline(report: Report) -> dict[str, Any] | None:
    table = report.profile.timeline
    if table is None or not table.height:
        return None
    kept = table
    if table.height > MAX_EVENTS:
        kept = table.top_k(MAX_EVENTS, by="duration_s")
    kept = kept.sort("start_s")
    return {
        "events": table.height,
        **{
            name: column(kept[name])
            for name in ("start_s", "duration_s", "stream", "kernel", "idle_cause")
        },
    }
