"""What the page's script gets: every run as columns, with its roofs and its timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from timeroof.core.columns import column_list
from timeroof.core.profile import CALL_LABELS, LABEL, ORIGIN
from timeroof.core.resources import KIND_OF_HEAD
from timeroof.core.verdict import BOUND
from timeroof.views.clean import clean_table
from timeroof.views.page.parts import ordered_findings
from timeroof.views.page.text import clip, plain_line

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.core.report import Report

# Columns of a table as compact JSON: constants once, words by number, numbers with six digits.


DIGITS = 6
# Characters that all words of one column may take together, and one word at most.
WORDS_BUDGET = 1_200_000
LONGEST_WORD = 2_000
SHORTEST_CLIP = 120

Column = dict[str, Any]


def column(values: pl.Series) -> Column:
    """One column: `{"c": constant}`, `{"d": words, "i": places}` or `{"v": numbers}`.

    >>> column(pl.Series([1.0, 1.0])), column(pl.Series([1.0, None, 2.5]))
    ({'c': 1.0}, {'v': [1.0, None, 2.5]})
    >>> column(pl.Series(["a", "b", "a", None]))
    {'d': ['a', 'b'], 'i': [0, 1, 0, -1]}
    """
    if values.n_unique() <= 1:
        value = values[0] if len(values) else None
        return {"c": plain_line(clip(value, LONGEST_WORD)) if isinstance(value, str) else value}
    if values.dtype == pl.String:
        return _words(values)
    return {"v": _numbers(values)}


def _words(values: pl.Series) -> Column:
    words = values.drop_nulls().unique(maintain_order=True)
    places = pl.DataFrame({"word": words}).with_row_index("place")
    found = pl.DataFrame({"word": values}).join(
        places, on="word", how="left", maintain_order="left"
    )
    codes = found["place"].cast(pl.Int64).fill_null(-1).to_list()
    return {"d": shortened(words.to_list()), "i": codes}


def shortened(words: list[str]) -> list[str]:
    """Words that fit their column's budget together; each stays in its place.

    >>> shortened(["a" * 4000])[0].count("a")
    2000
    """
    limit = LONGEST_WORD
    if sum(min(len(w), limit) for w in words) > WORDS_BUDGET:
        limit = max(SHORTEST_CLIP, WORDS_BUDGET // len(words))
    return [plain_line(clip(word, limit)) for word in words]


def _numbers(values: pl.Series) -> list[Any]:
    if values.dtype.is_integer():
        return values.to_list()
    rounded = values.round_sig_figs(DIGITS)
    whole = rounded.drop_nulls()
    if whole.len() and bool(((whole == whole.round(0)) & (whole.abs() < 2**53)).all()):
        rounded = rounded.cast(pl.Int64)
    return rounded.to_list()


PAGE_SCHEMA = "timeroof.page/1"

# More rows than this are not opened by a browser with pleasure: the longest are shown.
MAX_ROWS = 100_000
MAX_EVENTS = 40_000

# Columns that the page has no use for: what it says by others, or would only weigh.
NOT_SHOWN = frozenset(
    {"samples", "group", "parent", "timed_s", "contraction_flops", "inside_overhead_box",
     "compute_at_roof_s", "memory_at_roof_s", "overhead_time_s"}
)  # fmt: skip
# A level with less than this of the largest level's bound seconds has hardly any bytes.
HARDLY = 0.1
MACHINE_PRINTED = ("datasheet", "theoretical", "published")


def page_payload(reports: Sequence[Report], names: Sequence[str], title: str) -> dict[str, Any]:
    """The page's data; `names` are those of the runs."""
    runs = [run_payload(report, name) for report, name in zip(reports, names, strict=True)]
    return {
        "schema": PAGE_SCHEMA,
        "title": plain_line(title),
        "runs": runs,
        "fields": [c for c in column_list() if c["prefix"] is None and c["name"] not in NOT_SHOWN],
        "kind_of_head": KIND_OF_HEAD,
    }


def run_payload(report: Report, name: str) -> dict[str, Any]:
    """One run: rows as columns, roofs, the pair of roofs of its headline, timeline.

    Rows are in seconds of a clean step, as everything on the page is but the timeline.
    """
    rows = clean_table(report).head(MAX_ROWS)
    amounts = report.profile.amount_columns
    labels = [c for c in rows.columns if c.startswith(LABEL)]
    origins = [c for c in rows.columns if c.startswith(ORIGIN)]
    columns = {c: column(rows[c]) for c in rows.columns if c not in NOT_SHOWN}
    return {
        "name": clip(plain_line(name), 80),
        "rows": rows.height,
        "all_rows": len(report.profile),
        "columns": columns,
        "amounts": amounts,
        "labels": [c.removeprefix(LABEL) for c in labels],
        "call_labels": [c for c in CALL_LABELS if f"{LABEL}{c}" in labels],
        "origins": [c.removeprefix(ORIGIN) for c in origins],
        "bounds": report.verdicts.resources,
        "roofs": {r: [c.rate, c.origin] for r, c in sorted(report.verdicts.roofs.items())},
        "printed": _printed_roofs(report.machine),
        "pair": list(report.verdicts.pair or (None, None)),
        "level": first_level(report),
        "synchronous": report.machine is not None and report.machine.launching == "synchronous",
        "machine": plain_line(report.machine.name) if report.machine else None,
        "measured_s": report.totals.ladder.measured_s,
        "clean_scale": report.totals.clean_scale,
        "findings": [finding.kernels for finding in ordered_findings(report)],
        "timeline": _timeline(report),
    }


def first_level(report: Report) -> str | None:
    """The memory level that charts begin at: the pair's, unless hardly anything is there.

    What fits into caches moves no byte at DRAM, and its points would all stand on an axis. Then
    the level with the largest bound seconds says most.
    """
    rows = report.rows
    bound_s = {
        r: float(rows[f"{BOUND}{r}"].sum())
        for r in report.verdicts.resources
        if r.startswith("byte/")
    }
    if not bound_s:
        return None
    moved_s = {r: float(rows.filter(pl.col(r) > 0)["time_s"].sum()) for r in bound_s}
    fullest = max(bound_s, key=lambda r: bound_s[r])
    first = report.verdicts.pair.memory if report.verdicts.pair else None
    if first not in bound_s:
        return fullest
    few_bytes = bound_s[first] < HARDLY * bound_s[fullest]
    few_rows = moved_s[first] < 0.5 * moved_s[fullest]
    return fullest if few_bytes or few_rows else first


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
