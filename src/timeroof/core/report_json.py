"""From a report's tables to the rows of its JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl

from timeroof.core import columns
from timeroof.core.columns import BYTE, FLOP, Column, Number
from timeroof.core.machine import Machine
from timeroof.core.notes import note_documents
from timeroof.core.profile import TIMELINE_COLUMNS, Profile
from timeroof.core.report import (
    REPORT_SCHEMA,
    MachineDocument,
    Report,
    ReportDocument,
    TimelineEvent,
    Totals,
)


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
        ranks=None,
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


def whole(value: float | None) -> Number | None:
    """An integer where a float is one, so that counts read as counts.

    >>> whole(3.0), whole(2.5), whole(None)
    (3, 2.5, None)
    """
    if value is not None and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


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
