"""Tables for other programs: the judged rows as CSV and Parquet."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.profile import Profile
from timeroof.core.verdict import Verdicts

if TYPE_CHECKING:
    from timeroof.core.report import Report


def judged_table(profile: Profile, verdicts: Verdicts) -> pl.DataFrame:
    """One row per kernel with everything known of it, lists left out."""
    return pl.concat([profile.kernels.drop("samples"), verdicts.table.drop("id")], how="horizontal")


def runs_table(reports: Sequence[Report], names: Sequence[str]) -> pl.DataFrame:
    """The judged rows of one run, or of several under one another with the run's name first."""
    tables = [judged_table(report.profile, report.verdicts) for report in reports]
    if len(tables) == 1:
        return tables[0]
    named = [
        table.select(pl.lit(name).alias("run"), pl.all())
        for table, name in zip(tables, names, strict=True)
    ]
    return pl.concat(named, how="diagonal")


def csv_bytes(profile: Profile, verdicts: Verdicts) -> bytes:
    """The judged rows as CSV; columns that say nothing are left out."""
    return table_csv(judged_table(profile, verdicts))


def table_csv(table: pl.DataFrame) -> bytes:
    """A table as CSV; columns that say nothing are left out."""
    said = [c for c in table.columns if table[c].null_count() < table.height]
    buffer = io.BytesIO()
    table.select(said or table.columns).write_csv(buffer)
    return buffer.getvalue()


def table_parquet(table: pl.DataFrame) -> bytes:
    """A table as Parquet, with every column and its type."""
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()
