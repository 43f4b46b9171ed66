"""A report: a judged profile with its totals and findings, and the JSON that others script on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from timeroof.core.columns import Number, row_type
from timeroof.core.machine import Ceiling, Machine, MemoryLevel
from timeroof.core.profile import Profile, Source, Steps
from timeroof.core.verdict import Verdicts, judged_rows

if TYPE_CHECKING:
    import polars as pl

REPORT_SCHEMA = "timeroof.report/1"


class Ladder(msgspec.Struct, kw_only=True, frozen=True):
    """Seconds as it ran, every kernel at its roof, each phase fused, the step one ideal kernel."""

    measured_s: float | None
    roof_s: float | None
    fused_s: float | None
    ideal_s: float | None


class Totals(msgspec.Struct, kw_only=True, frozen=True):
    """Sums over a judged profile; a sum over nothing is unknown (null), not 0."""

    wall_s: float | None
    kernel_s: float | None
    idle_s: float | None
    idle_by_cause: dict[str, float]
    steps: Steps | None
    launches: Number | None
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
    by_limiter: dict[str, float]

    @property
    def clean_scale(self) -> float:
        """Seconds of a clean step by those of a timed one, the profiler's own cost left out.

        Rows of a live run were timed with instruments; scaled, they sum to the run as it is.
        """
        clean_s = self.steps.clean_s if self.steps is not None else None
        timed_s = (self.wall_s or 0.0) - self.idle_by_cause.get("profiler", 0.0)
        return clean_s / timed_s if clean_s and timed_s > 0 else 1.0


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


class ReportDocument(msgspec.Struct, kw_only=True, frozen=True):
    """The JSON of a report, `timeroof.report/1`."""

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
    notes: list[str]


@dataclass(frozen=True)
class Report:
    """A profile judged on a machine; what every view shows."""

    profile: Profile
    machine: Machine | None
    verdicts: Verdicts
    totals: Totals
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    created: str = ""
    version: str = ""
    extras: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """One judged table: every row with its amounts, bounds, limiter, gap and coordinates."""
        return judged_rows(self.profile, self.verdicts)

    def to_json(self) -> bytes:
        """The report as JSON, `timeroof.report/1`."""
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
    """The JSON Schema of `timeroof.report/1`."""
    return msgspec.json.schema(report_document_type())
