"""A study's cases as one flat table: Parquet or CSV by suffix."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from timeroof.api.here import scope_for
from timeroof.core.errors import UsageError
from timeroof.core.machine import Machine
from timeroof.core.writing import write_atomically
from timeroof.study.store import Kept
from timeroof.study.store.cases import row_of

SUFFIXES = (".parquet", ".csv")
_JSON = ("params", "samples_s", "amounts", "origins", "labels")
# A cell that begins so is a formula to a spreadsheet.
_FORMULA = r"^([=+\-@\t\r])"


def check_export(path: Path) -> Path:
    """Refuse a name that asks for no known format, before any work is done."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{str(path)!r} is no export's name", advice="end it in .parquet or .csv")
    return path


def cases_table(kept: Sequence[Kept], machine: Machine | None = None) -> pl.DataFrame:
    """One row per case, failed ones too: parameters, amounts, origins and labels as columns."""
    lines = [_line(k, machine) for k in kept]
    if not lines:
        return pl.DataFrame(schema={"case_key": pl.String, "status": pl.String})
    return pl.DataFrame(lines, infer_schema_length=None)


def _line(kept: Kept, machine: Machine | None) -> dict[str, Any]:
    result = kept.result
    row = {k: v for k, v in row_of(kept).items() if k not in _JSON}
    row |= {f"param.{k}": str(v) for k, v in result.case.params.items()}
    row |= result.amounts
    row |= {f"origin.{k}": v for k, v in result.origins.items()}
    row |= {f"label.{k}": v for k, v in result.labels.items()}
    row["label.scope"] = scope_for(1, machine) if result.case.threads == 1 else "all"
    return row | {"samples_s": result.samples_s}


def export(kept: Sequence[Kept], path: Path, machine: Machine | None = None) -> None:
    """Write the table, whole or not at all; `machine` says whose ceilings judge one thread."""
    table = cases_table(kept, machine)
    data = io.BytesIO()
    if check_export(path).suffix == ".parquet":
        table.write_parquet(data)
    else:
        _flat(table).write_csv(data)
    write_atomically(path, data.getvalue())


def _flat(table: pl.DataFrame) -> pl.DataFrame:
    """CSV has no lists: samples as JSON text; texts that a spreadsheet would run are quoted."""
    texts = [c for c, kind in table.schema.items() if kind == pl.String]
    table = table.with_columns(pl.col(c).str.replace(_FORMULA, "'$1") for c in texts)
    if "samples_s" not in table.columns:
        return table
    samples = [msgspec.json.encode(s).decode() for s in table["samples_s"].to_list()]
    return table.with_columns(pl.Series("samples_s", samples))
