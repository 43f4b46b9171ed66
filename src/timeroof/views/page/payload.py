"""What the page's script gets: every run as columns, with its roofs and its timeline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from timeroof.core.columns import Row, column_list
from timeroof.core.machine import KIND_OF_HEAD, LAUNCH, PIPES
from timeroof.core.profile import CALL_LABELS, LABEL, ORIGIN, TIMELINE_COLUMNS
from timeroof.core.report import BOUND
from timeroof.core.shapes import shown_shapes
from timeroof.core.units import format_bytes_binary, format_percent, format_rate, format_seconds
from timeroof.model.totals import device_count
from timeroof.model.why import why_lines
from timeroof.views.parts import time_parts
from timeroof.views.run_summary import why_value, why_words
from timeroof.views.style import clip, page_look, plain_line

if TYPE_CHECKING:
    from timeroof.core.machine import Ceiling, Machine
    from timeroof.core.report import Finding, Report

# A machine's ceilings for the page: the roof that counts, measured and printed side by side.

MEASURED = ("user", "measured")
_ORDER = {"flop": 0, "byte": 1, "launch": 2, "fault": 3, "link": 4}


class CeilingLine(msgspec.Struct, frozen=True):
    """One resource: what was measured, what is printed, and whether the run uses it."""

    resource: str
    measured: str
    printed: str
    share: str
    used: bool
    source: str


def ceiling_lines(report: Report) -> list[CeilingLine]:
    """Every resource that the machine has a figure for, those of the run first."""
    machine = report.machine
    if machine is None:
        return []
    used = {*report.verdicts.resources, LAUNCH}
    by_resource: dict[str, list[Ceiling]] = {}
    for ceiling in machine.ceilings:
        if ceiling.scope == "all" or ceiling.resource == LAUNCH:
            by_resource.setdefault(ceiling.resource, []).append(ceiling)
    lines = [_line(resource, found, resource in used) for resource, found in by_resource.items()]
    heads = {line.resource: line.resource.split("/")[0] for line in lines}
    return sorted(lines, key=lambda line: (not line.used, _ORDER.get(heads[line.resource], 9)))


def _line(resource: str, ceilings: list[Ceiling], used: bool) -> CeilingLine:
    measured = next((c for o in MEASURED for c in ceilings if c.origin == o), None)
    printed = next((c for c in ceilings if c.origin not in MEASURED), None)
    share = ""
    if measured is not None and printed is not None:
        share = format_percent(measured.rate / printed.rate)
    sources = dict.fromkeys(_source(c) for c in ceilings if c.source)
    rates = (_rate(measured, measured_here=True), _rate(printed))
    return CeilingLine(resource, *rates, share=share, used=used, source="; ".join(sources))


def _source(ceiling: Ceiling) -> str:
    """Where a rate is from; its origin comes first, where the source does not begin with it."""
    begins = ceiling.source.lower().startswith(ceiling.origin)
    return ceiling.source if begins else f"{ceiling.origin}: {ceiling.source}"


def _rate(ceiling: Ceiling | None, *, measured_here: bool = False) -> str:
    if ceiling is None:
        return ""
    text = format_rate(ceiling.resource, ceiling.rate)
    if ceiling.spread:
        text += f" ± {format_percent(ceiling.spread / 2)}"
    # What the head of the column says is not said again.
    said = ceiling.origin == ("measured" if measured_here else "datasheet")
    return text if said else f"{text} ({ceiling.origin})"


def machine_facts(machine: Machine) -> list[str]:
    """What a machine is, in a few words each."""
    sizes = [f"{m.level.upper()} {format_bytes_binary(m.size_bytes)}" for m in machine.memory]
    named = [machine.vendor, machine.architecture, machine.kind, f"{machine.launching} launching"]
    return [*(fact for fact in named if fact), *sizes]


# Findings as cards: what, why, what to do, the seconds at stake, and the kernels it is about.

# A finding about more kernels links to the first ones and to all of them at once.
MAX_LINKS = 8


class KernelLink(msgspec.Struct, frozen=True):
    """A button that shows the rows of one kernel; `place` says how many, or where the one is."""

    short_name: str
    name: str
    place: str


class FindingCard(msgspec.Struct, frozen=True):
    """One finding, ready to be written."""

    code: str
    title: str
    why: str
    action: str | None
    gain: str | None
    kernels: list[int]
    links: list[KernelLink]
    evidence: list[tuple[str, str]]


def ordered_findings(report: Report) -> list[Finding]:
    """The largest gain first, those without a gain in their own order."""
    return sorted(report.findings, key=lambda finding: -(finding.gain_s or 0.0))


def finding_cards(report: Report) -> list[FindingCard]:
    """Every finding as a card."""
    wanted = {k for finding in report.findings for k in finding.kernels}
    rows = report.profile.kernels.select("id", "short_name", "name", "module", "phase")
    named = {row["id"]: row for row in rows.filter(rows["id"].is_in(wanted)).iter_rows(named=True)}
    return [
        FindingCard(
            code=finding.code,
            title=finding.title,
            why=finding.why,
            action=finding.action,
            gain=format_seconds(finding.gain_s) if finding.gain_s else None,
            kernels=[k for k in finding.kernels if k in named],
            links=_links([named[k] for k in finding.kernels if k in named]),
            evidence=[(str(k), evidence_text(v)) for k, v in finding.evidence.items()],
        )
        for finding in ordered_findings(report)
    ]


def _links(rows: list[Row]) -> list[KernelLink]:
    """Links to kernels: equal ones are one, with their number and that of their modules."""
    held: dict[str, list[Row]] = {}
    for row in rows:
        held.setdefault(row["short_name"] or "", []).append(row)
    return [
        KernelLink(name, own[0]["name"], _place(own))
        for name, own in list(held.items())[:MAX_LINKS]
    ]


def _place(rows: list[Row]) -> str:
    """Where one row is, or how many rows there are in how many modules."""
    modules = {row["module"] for row in rows if row["module"]}
    if len(rows) == 1:
        return " ".join(filter(None, (rows[0]["module"], rows[0]["phase"])))
    where = f" in {len(modules):,} modules" if len(modules) > 1 else ""
    return f"×{len(rows):,}{where}"


def evidence_text(value: object) -> str:
    """A value of a finding's evidence as a person reads it.

    >>> evidence_text({"ai": 41.4111, "rows": 3, "why": "x"}), evidence_text([1.0, 2])
    ('ai 41.4, rows 3, why x', '1, 2')
    """
    if isinstance(value, dict):
        return ", ".join(f"{key} {evidence_text(v)}" for key, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(evidence_text(v) for v in value)
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


# Columns of a table as compact JSON: constants once, words by number, numbers as 32-bit floats.

# Whole numbers below this are the same as 32-bit floats, and shorter as digits.
EXACT = 2**24
# Characters that all words of one column may take together, and one word at most.
WORDS_BUDGET = 1_200_000
LONGEST_WORD = 2_000
SHORTEST_CLIP = 120

Column = dict[str, object]


def column(values: pl.Series) -> Column:
    """One column: `{"c": constant}`, `{"d": words, "i": places}`, `{"v": counts}`, `{"f": bytes}`.

    The bytes are those of 32-bit floats, NaN where a number is not known; JSON has them in base64.

    >>> column(pl.Series([1.0, 1.0])), column(pl.Series([1.0, None, 2.0]))
    ({'c': 1}, {'v': [1, None, 2]})
    >>> column(pl.Series(["a", "b", "a", None])), column(pl.Series([0.5, None]))
    ({'d': ['a', 'b'], 'i': [0, 1, 0, -1]}, {'f': b'\\x00\\x00\\x00?\\x00\\x00\\xc0\\x7f'})
    """
    return columns_of(values.to_frame("column"))["column"]


def columns_of(table: pl.DataFrame) -> dict[str, Column]:
    """Every column of a table; what is asked of all of them is asked at once."""
    number = pl.col([c for c, dtype in table.schema.items() if dtype.is_float()])
    whole = _true_of(table, (number == number.round(0)) & (number.abs() < EXACT))
    same = _true_of(table, pl.all().eq_missing(pl.all().first()))
    table = table.with_columns(pl.col(whole).cast(pl.Int64))
    floats = [c for c, dtype in table.schema.items() if dtype.is_float() and c not in same]
    table = table.with_columns(pl.col(floats).cast(pl.Float32).fill_null(math.nan))
    return {c: _constant(table[c]) if c in same else _encoded(table[c]) for c in table.columns}


def _true_of(table: pl.DataFrame, what: pl.Expr) -> list[str]:
    """The columns of which something is true in every row."""
    return [answer.name for answer in table.select(what.all()) if answer.item()]


def _constant(values: pl.Series) -> Column:
    value = values[0] if len(values) else None
    return {"c": plain_line(clip(value, LONGEST_WORD)) if isinstance(value, str) else value}


def _encoded(values: pl.Series) -> Column:
    if values.dtype.is_float():
        return {"f": values.to_numpy().tobytes()}
    if values.dtype != pl.String:
        return {"v": values.to_list()}
    place_of: dict[str | None, int] = {None: -1}
    places = [place_of.setdefault(word, len(place_of) - 1) for word in values.to_list()]
    return {"d": shortened([word for word in place_of if word is not None]), "i": places}


def shortened(words: list[str]) -> list[str]:
    """Words that fit their column's budget together; each stays in its place.

    >>> shortened(["a" * 4000])[0].count("a")
    2000
    """
    limit, together = LONGEST_WORD, "".join(words)
    if len(together) > WORDS_BUDGET and sum(min(len(w), limit) for w in words) > WORDS_BUDGET:
        limit = max(SHORTEST_CLIP, WORDS_BUDGET // len(words))
    if together.isascii() and together.isprintable() and max(map(len, words), default=0) <= limit:
        return words
    return [plain_line(clip(word, limit)) for word in words]


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


def page_payload(reports: Sequence[Report], names: Sequence[str], title: str) -> Row:
    """The page's data; `names` are those of the runs."""
    runs = [run_payload(report, name) for report, name in zip(reports, names, strict=True)]
    return {
        "schema": PAGE_SCHEMA,
        "title": plain_line(title),
        "runs": runs,
        "fields": [c for c in column_list() if c["prefix"] is None and c["name"] not in NOT_SHOWN],
        "kind_of_head": KIND_OF_HEAD,
        "look": page_look(),
    }


# Rows whose numbers the page unfolds, and which of their numbers beside amounts and bounds.
UNFOLDED_ROWS = 25
UNFOLDED = (
    "time_s", "elapsed_s", "achieved_flop_per_s", "achieved_byte_per_s", "ai", "work_bound_s",
    "bound_s", "limiter", "gap_s", "kernel_efficiency", "efficiency",
)  # fmt: skip


def run_payload(report: Report, name: str) -> Row:
    """One run: rows as columns, roofs, the pair of roofs of its headline, timeline.

    All seconds are those of an unprofiled step, where the run is a live one.
    """
    rows = report.rows.head(MAX_ROWS)
    amounts = [a for a in report.profile.amount_columns if a not in PIPES]
    labels = [c for c in rows.columns if c.startswith(LABEL)]
    origins = [c for c in rows.columns if c.startswith(ORIGIN)]
    shown = rows.with_columns(shown_shapes(rows)).drop(NOT_SHOWN & set(rows.columns))
    columns = columns_of(shown)
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
        "roof_s": report.totals.ladder.roof_s,
        "recoverable_s": report.totals.recoverable_s,
        "parts": {part.key: part.seconds for part in time_parts(report)},
        "devices": device_count(report.profile, report.rows),
        "findings": [finding.kernels for finding in ordered_findings(report)],
        "timeline": _timeline(report),
        "why": _unfolded(report, rows.head(UNFOLDED_ROWS)),
    }


def _unfolded(report: Report, rows: pl.DataFrame) -> list[list[list[str]]]:
    """How the numbers of the longest rows came about: title, value and words of each."""
    return [
        [
            [plain_line(line.title), why_value(line), clip(plain_line(why_words(line)), 300)]
            for line in why_lines(report, row)
            if line.name in UNFOLDED or ("/" in line.name and line.value != 0)
        ]
        for row in rows.iter_rows(named=True)
    ]


def first_level(report: Report) -> str | None:
    """The memory level that charts begin at: the pair's, unless hardly anything is there.

    What fits into caches moves no byte at DRAM, and its points would all stand on an axis. Then
    the level with the largest bound seconds says most.
    """
    rows = report.rows
    levels = [r for r in report.verdicts.resources if r.startswith("byte/")]
    bound_s = {r: float(rows[f"{BOUND}{r}"].sum()) for r in levels}
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


def _timeline(report: Report) -> Row | None:
    table = report.profile.timeline
    if table is None or not table.height:
        return None
    kept = table.top_k(MAX_EVENTS, by="duration_s") if table.height > MAX_EVENTS else table
    return {"events": table.height, **columns_of(kept.sort("start_s").select(*TIMELINE_COLUMNS))}
