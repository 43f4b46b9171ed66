"""From a report's tables to the rows of its JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from timeroof.core.machine import Machine
from timeroof.core.profile import KERNEL_COLUMNS, LABEL, ORIGIN, TIMELINE_COLUMNS, Profile
from timeroof.core.report import (
    REPORT_SCHEMA,
    KernelRow,
    MachineDocument,
    Number,
    Report,
    ReportDocument,
    TimelineEvent,
    Totals,
)
from timeroof.core.verdict import BOUND, Verdicts


def report_document(report: Report) -> ReportDocument:
    """The JSON document of a report, `timeroof.report/1`."""
    return ReportDocument(
        schema=REPORT_SCHEMA,
        created=report.created,
        version=report.version,
        machine=machine_document(report.machine),
        source=report.profile.source,
        totals=_whole_totals(report.totals),
        kernels=kernel_rows(report.profile, report.verdicts),
        timeline=_timeline(report.profile),
        findings=list(report.findings),
        notes=list(report.notes),
    )


def machine_document(machine: Machine | None) -> MachineDocument | None:
    """The `machine` object, null where no machine is known."""
    if machine is None:
        return None
    return MachineDocument(**{f: getattr(machine, f) for f in MachineDocument.__struct_fields__})


def kernel_rows(profile: Profile, verdicts: Verdicts) -> list[KernelRow]:
    """One row per kernel, longest first."""
    amounts = profile.amount_columns
    flops = [a for a in amounts if a.startswith("flop/")]
    bytes_ = [a for a in amounts if a.startswith("byte/")]
    labels = [c for c in profile.kernels.columns if c.startswith(LABEL)]
    origins = [c for c in profile.kernels.columns if c.startswith(ORIGIN)]
    bounds = [c for c in verdicts.table.columns if c.startswith(BOUND)]
    fixed = [c for c in KERNEL_COLUMNS if c != "samples"]
    judged = [
        c for c in verdicts.table.columns if c not in {"id", "elapsed_s", "owed_flops", *bounds}
    ]
    rows = []
    for row, verdict in zip(
        profile.kernels.iter_rows(named=True), verdicts.table.iter_rows(named=True), strict=True
    ):
        values: dict[str, Any] = {c: row[c] for c in fixed} | {c: verdict[c] for c in judged}
        for count in ("calls", "launches", "contraction_flops", "padding_flops"):
            values[count] = whole(values[count])
        rows.append(
            KernelRow(
                **values,
                samples=row["samples"] or [],
                labels=_present(row, labels, LABEL),
                origin=_present(row, origins, ORIGIN),
                flops=_amounts(row, flops, "flop/"),
                bytes=_amounts(row, bytes_, "byte/"),
                bounds=_present(verdict, bounds, BOUND),
            )
        )
    return rows


def whole(value: float | None) -> Number | None:
    """An integer where a float is one, so that counts read as counts.

    >>> whole(3.0), whole(2.5), whole(None)
    (3, 2.5, None)
    """
    if value is not None and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _present(row: dict[str, Any], columns: list[str], prefix: str) -> dict[str, Any]:
    return {c.removeprefix(prefix): row[c] for c in columns if row[c] is not None}


def _amounts(
    row: dict[str, Any], columns: list[str], prefix: str
) -> dict[str, Number | None] | None:
    """Amounts that are not zero, null entries for unknown ones, null if nothing is known.

    An empty object says: known, and none.
    """
    if all(row[c] is None for c in columns):
        return None
    return {c.removeprefix(prefix): whole(row[c]) for c in columns if row[c] != 0}


def _whole_totals(totals: Totals) -> Totals:
    return msgspec.structs.replace(
        totals,
        launches=whole(_float(totals.launches)),
        contraction_flops=whole(_float(totals.contraction_flops)),
        flops={k: whole(_float(v)) for k, v in totals.flops.items()},
        bytes={k: whole(_float(v)) for k, v in totals.bytes.items()},
    )


def _float(value: Number | None) -> float | None:
    return None if value is None else float(value)


def _timeline(profile: Profile) -> list[TimelineEvent]:
    if profile.timeline is None:
        return []
    table = profile.timeline.select(list(TIMELINE_COLUMNS))
    return [TimelineEvent(**row) for row in table.iter_rows(named=True)]
