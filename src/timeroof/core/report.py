"""A report: a judged profile with its totals and findings, and the JSON that others script on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from timeroof.core.columns import Number, row_type
from timeroof.core.machine import Ceiling, Machine, MemoryLevel
from timeroof.core.notes import Note, NoteDocument
from timeroof.core.profile import Profile, Source, Steps
from timeroof.core.verdict import Verdicts, judged_rows

if TYPE_CHECKING:
    import polars as pl

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


class Finding(msgspec.Struct, kw_only=True, frozen=True):
    """Something to know or to do, with the seconds at stake and the evidence."""

    code: str
    title: str
    why: str
    kernels: list[int] = []
    gain_s: float | None = None
    action: str | None = None
    evidence: dict[str, Any] = {}


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


class TimelineEvent(msgspec.Struct, kw_only=True, frozen=True):
    """One interval of the timeline of a step."""

    start_s: float
    duration_s: float
    stream: str | None
    kernel: int | None
    idle_cause: str | None


class RankTotals(msgspec.Struct, kw_only=True, frozen=True):
    """Seconds of one rank of a distributed run."""

    rank: int
    wall_s: float | None
    kernel_s: float | None
    communication_s: float | None
    idle_s: float | None


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
    extras: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """One judged table: every row with its amounts, bounds, limiter, gap and coordinates."""
        return judged_rows(self.profile, self.verdicts)

    def to_json(self) -> bytes:
        """The report as JSON, `timeroof.report/2`."""
        from timeroof.core.report_json import report_document

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
