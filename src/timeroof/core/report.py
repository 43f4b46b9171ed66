"""A report: a judged profile with its totals and findings, and the JSON that others script on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import polars as pl

from timeroof.core import columns
from timeroof.core.columns import BOUND, BYTE, FLOP, Column, Number, row_type, with_derived
from timeroof.core.errors import Level, Note, as_notes
from timeroof.core.machine import DRAM, Ceiling, Machine, MemoryLevel
from timeroof.core.profile import TIMELINE_COLUMNS, Profile, RankTotals, Source, Steps

# Verdicts: what bounds every row of a profile on one machine, as columns beside the rows.

__all__ = ["BOUND", "RoofPair", "Verdicts", "judged_rows", "plain_rows"]


class RoofPair(NamedTuple):
    """One compute and one memory ceiling for all rows: the two axes of the paper's planes.

    Time coordinates and `paper_class` divide the FLOPs of all precisions by this compute
    ceiling, as the authors do with the tensor-core peak. Bounds never use it.
    """

    compute: str = "flop/fp16-tensor"
    memory: str = DRAM


class Verdicts(msgspec.Struct, frozen=True):
    """One row per row of the judged profile, in its order.

    `table` has ``bound.<resource>`` per resource that has both amounts and a
    ceiling, and the `verdict` columns of `timeroof.core.columns`.
    `roofs` are the ceilings that were used, `pair` those of the time coordinates.
    """

    table: pl.DataFrame
    roofs: dict[str, Ceiling]
    pair: RoofPair | None = None
    asynchronous: bool = True
    notes: tuple[Note, ...] = ()

    @property
    def resources(self) -> list[str]:
        """Resources that gave a bound."""
        return [c.removeprefix(BOUND) for c in self.table.columns if c.startswith(BOUND)]


def plain_rows(profile: Profile, verdicts: Verdicts) -> pl.DataFrame:
    """The rows of a profile with their verdicts beside them, derived columns left out."""
    return pl.concat([profile.kernels, verdicts.table.drop("id")], how="horizontal")


def judged_rows(profile: Profile, verdicts: Verdicts) -> pl.DataFrame:
    """The rows of a profile with all that follows: the table that every view reads."""
    return with_derived(plain_rows(profile, verdicts))


REPORT_SCHEMA = "timeroof.report/2"


class Ladder(msgspec.Struct, kw_only=True, frozen=True):
    """Seconds as it ran, every kernel at its roof, each phase fused, the step one ideal kernel."""

    measured_s: float | None
    roof_s: float | None
    fused_s: float | None
    ideal_s: float | None


class Totals(msgspec.Struct, kw_only=True, frozen=True):
    """Sums over a judged profile; a sum over nothing is unknown (null), not 0.

    Of a live run wall_s = kernel_s + idle_s + unexplained_s: below 0 where profiled steps were
    slower than unprofiled ones even without the profiler's own cost.
    """

    wall_s: float | None
    # Of the fastest and of the slowest rank; `wall_s` is their mean.
    wall_s_min: float | None = None
    wall_s_max: float | None = None
    kernel_s: float | None
    idle_s: float | None
    idle_by_cause: dict[str, float]
    steps: Steps | None
    launches: Number | None
    # Shares of the rows' time whose FLOPs, and whose DRAM bytes, are known.
    known: dict[str, float | None] = {}
    flops: dict[str, Number | None]
    contraction_flops: Number | None
    bytes: dict[str, Number | None]
    bound_s: float | None
    gap_s: float | None
    kernel_efficiency: float | None
    efficiency: float | None
    known_time_share: float | None
    ladder: Ladder
    recoverable_s: float | None
    unexplained_s: float | None = None
    unexplained_error_s: float | None = None
    by_limiter: dict[str, float]
    # Where the wall time goes, each instant once: kernels by what limits them, communication and
    # copies that no kernel hides, idle by cause.
    by_class: dict[str, float] = {}


class Finding(msgspec.Struct, kw_only=True, frozen=True):
    """Something to know or to do, with the seconds at stake and the evidence."""

    code: str
    title: str
    why: str
    kernels: list[int] = []
    gain_s: float | None = None
    action: str | None = None
    evidence: dict[str, Any] = {}


class NoteDocument(msgspec.Struct, kw_only=True, frozen=True):
    """A note in JSON."""

    code: str
    level: Level
    text: str


def note_documents(texts: Iterable[str]) -> list[NoteDocument]:
    """Notes as they stand in JSON."""
    return [NoteDocument(code=n.code, level=n.level, text=str(n)) for n in as_notes(texts)]


def notes_of_documents(documents: Iterable[NoteDocument]) -> tuple[Note, ...]:
    """Notes from JSON."""
    return tuple(Note(d.text, d.code, d.level) for d in documents)


class MachineDocument(msgspec.Struct, kw_only=True, frozen=True):
    """The report's `machine` object; `timeroof machine --json` writes it alone."""

    name: str
    device: str
    ceilings: list[Ceiling]
    memory: list[MemoryLevel]
    kernel_floor_s: float | None
    software: dict[str, str]
    vendor: str
    kind: str
    architecture: str
    compute_capability: str | None
    launching: str
    device_names: list[str]
    emulated: dict[str, str]
    notes: list[str]
    achievable: list[Ceiling] = []


class TimelineEvent(msgspec.Struct, kw_only=True, frozen=True):
    """One interval of the timeline of a step."""

    start_s: float
    duration_s: float
    stream: str | None
    kernel: int | None
    idle_cause: str | None


class ReportDocument(msgspec.Struct, kw_only=True, frozen=True):
    """The JSON of a report, `timeroof.report/2`."""

    schema: str
    created: str
    version: str
    machine: MachineDocument | None
    source: Source
    totals: Totals
    # Rows of the type that `timeroof.core.columns.row_type` makes of the columns.
    kernels: list[Any]
    timeline: list[TimelineEvent]
    findings: list[Finding]
    ranks: list[RankTotals] | None
    notes: list[NoteDocument]


@dataclass(frozen=True)
class Report:
    """A profile judged on a machine; what every view shows."""

    profile: Profile
    machine: Machine | None
    verdicts: Verdicts
    totals: Totals
    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()
    created: str = ""
    version: str = ""
    extras: dict[str, object] = field(default_factory=dict)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """One judged table: every row with its amounts, bounds, limiter, gap and coordinates."""
        return judged_rows(self.profile, self.verdicts)

    def to_json(self) -> bytes:
        """The report as JSON, `timeroof.report/2`."""
        return msgspec.json.encode(report_document(self))


def report_document_type() -> Any:
    """`ReportDocument` with the type of its rows filled in, as the JSON Schema wants it."""
    fields = [
        (f.name, list[row_type()] if f.name == "kernels" else f.type)  # type: ignore[misc]
        for f in msgspec.structs.fields(ReportDocument)
    ]
    document = ReportDocument.__doc__
    return msgspec.defstruct("ReportDocument", fields, namespace={"__doc__": document})


def report_json_schema() -> dict[str, Any]:
    """The JSON Schema of `timeroof.report/2`."""
    return msgspec.json.schema(report_document_type())


# From a report's tables to the rows of its JSON.


def report_document(report: Report) -> ReportDocument:
    """The JSON document of a report, `timeroof.report/2`."""
    return ReportDocument(
        schema=REPORT_SCHEMA,
        created=report.created,
        version=report.version,
        machine=machine_document(report.machine),
        source=report.profile.source,
        totals=_whole_totals(report.totals),
        kernels=kernel_rows(report.rows),
        timeline=_timeline(report.profile),
        findings=list(report.findings),
        ranks=list(report.profile.ranks) or None,
        notes=note_documents(report.notes),
    )


def machine_document(machine: Machine | None) -> MachineDocument | None:
    """The `machine` object, null where no machine is known."""
    if machine is None:
        return None
    return MachineDocument(**{f: getattr(machine, f) for f in MachineDocument.__struct_fields__})


def kernel_rows(rows: pl.DataFrame) -> list[Any]:
    """One row per kernel, longest first; its fields are the columns that are defined."""
    kind = columns.row_type()
    plain = [c for c in columns.COLUMNS if c.prefix is None]
    families = [(c, _members(rows, c)) for c in columns.COLUMNS if c.prefix is not None]
    documents = []
    for row in rows.iter_rows(named=True):
        values = {c.name: whole(row[c.name]) if c.count else row[c.name] for c in plain}
        values |= {c.name: _object(c, row, members) for c, members in families}
        values["samples"] = values["samples"] or []
        documents.append(kind(**values))
    return documents


def _members(rows: pl.DataFrame, family: Column) -> dict[str, str]:
    """The columns of a family, by the key that each has in the family's object."""
    prefix = family.prefix or ""
    return {c: c.removeprefix(prefix) for c in rows.columns if c.startswith(prefix)}


def _object(family: Column, row: dict[str, Any], members: dict[str, str]) -> dict[str, Any] | None:
    """A family's object in one row: what is known of it, or for amounts null where nothing is.

    Amounts that are 0 are left out: an empty object says "known, and none". An amount that is
    unknown beside known ones is null.
    """
    if family.prefix not in (FLOP, BYTE):
        return {key: row[c] for c, key in members.items() if row[c] is not None}
    if all(row[c] is None for c in members):
        return None
    return {key: whole(row[c]) for c, key in members.items() if row[c] != 0}


def whole(value: Number | None) -> Number | None:
    """An integer where a float is one, so that counts read as counts.

    >>> whole(3.0), whole(2.5), whole(None)
    (3, 2.5, None)
    """
    if value is not None and float(value).is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _whole_totals(totals: Totals) -> Totals:
    return msgspec.structs.replace(
        totals,
        launches=whole(totals.launches),
        contraction_flops=whole(totals.contraction_flops),
        flops={k: whole(v) for k, v in totals.flops.items()},
        bytes={k: whole(v) for k, v in totals.bytes.items()},
    )


def _timeline(profile: Profile) -> list[TimelineEvent]:
    if profile.timeline is None:
        return []
    table = profile.timeline.select(list(TIMELINE_COLUMNS))
    return [TimelineEvent(**row) for row in table.iter_rows(named=True)]


# How every number of one row came about: what `report.why(id)` and `explain --row` give.


WHY_SCHEMA = "timeroof.why/1"


class WhyLine(msgspec.Struct, kw_only=True, frozen=True):
    """One number: its formula with the sizes in it, and where these are from.

    Evaluating `formula` with `sizes` gives `value`. Without a formula the number was measured or
    stated by `source`. A number that nobody knows has no value, and `unknown` says why.
    """

    name: str
    title: str
    value: Number | str | None
    unit: str | None = None
    formula: str | None = None
    sizes: dict[str, Number] = {}
    source: str | None = None
    unknown: str | None = None


class Why(msgspec.Struct, kw_only=True, frozen=True):
    """All numbers of one row, in the order in which one follows from another.

    `change` says what would make the row faster, and how far.
    """

    schema: str
    id: int
    name: str
    short_name: str
    op: str | None
    module: str | None
    shape: list[list[int]] | None
    calls: Number
    lines: list[WhyLine]
    change: list[str]

    def line(self, name: str) -> WhyLine:
        """The line of one number."""
        return next(line for line in self.lines if line.name == name)

    def to_json(self) -> bytes:
        """As JSON, `timeroof.why/1`."""
        return msgspec.json.encode(self)
