"""Counters give amounts, the clean run gives times: two profiles of one program as one."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from timeroof.core.profile import LABEL, ORIGIN, Profile, amount_columns
from timeroof.core.units import format_percent
from timeroof.counters.joining_rows import per_row
from timeroof.counters.joining_units import is_one_unit, join_unit

# Labels that keep what shapes said where counters took their place.
FLOPS_BEFORE, BYTES_BEFORE = f"{LABEL}flops_from_shapes", f"{LABEL}bytes_dram_from_shapes"


def join(timed: Profile, counted: Profile, launches: pl.DataFrame | None = None) -> Profile:
    """The timed profile with the counted amounts.

    Rows are matched by kernel name. With the launches of the counted run, and a timeline of the
    timed one, the n-th launch of a kernel takes the amounts of the n-th counted; otherwise a
    row takes the average of its kernel's launches times its own. Amounts that were not counted
    stay as they were. Times are never taken from the run under counters.
    """
    if is_one_unit(counted):
        return join_unit(timed, counted)
    found, notes = per_row(timed, counted, launches)
    if not found.height:
        note = "No kernel of the counted run has a name of the clean run: no counter is used."
        return replace(timed, notes=(*timed.notes, *counted.notes, note))
    table = _with_amounts(timed.kernels, found)
    share = _counted_share(table, found)
    first = (
        f"Amounts of {found.height} of {table.height} rows ({format_percent(share)} of the time)"
        f" are measured by {counted.source.tool}; all times are from the clean run."
    )
    joined = timed.with_kernels(table)
    return replace(
        joined, notes=tuple(dict.fromkeys((*timed.notes, first, *notes, *counted.notes)))
    )


def _with_amounts(table: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Rows with the amounts that were found for their id."""
    amounts = amount_columns(found)
    both = dict.fromkeys((*amount_columns(table), *amounts))
    flops = [c for c in both if c.startswith("flop/")]
    levels = [c for c in amounts if c.startswith("byte/")]
    new = found.rename({c: f"_{c}" for c in found.columns if c != "id"})
    wide = table.join(new, on="id", how="left", maintain_order="left")
    # FLOPs are one statement over all precisions: all of them are counted, or none is taken.
    told = [f"_{c}" for c in flops if f"_{c}" in wide.columns]
    known = pl.all_horizontal(pl.col(c).is_not_null() for c in told) if told else pl.lit(False)
    columns = [_before(wide, flops, FLOPS_BEFORE, known)] if told else []
    if "byte/dram" in levels:
        columns.append(
            _before(wide, ["byte/dram"], BYTES_BEFORE, pl.col("_byte/dram").is_not_null())
        )
    columns += [_flops(wide, c, known) for c in flops] if told else []
    columns += [_chosen(wide, c, pl.col(f"_{c}").is_not_null()) for c in levels]
    columns.append(_origin(wide, "flops", known))
    columns += [
        _origin(wide, f"bytes/{c.removeprefix('byte/')}", pl.col(f"_{c}").is_not_null())
        for c in levels
    ]
    return wide.with_columns(columns).select(pl.exclude("^_.*$"))


def _old(wide: pl.DataFrame, column: str, absent: float | None) -> pl.Expr:
    return pl.col(column) if column in wide.columns else pl.lit(absent, pl.Float64)


def _flops(wide: pl.DataFrame, column: str, known: pl.Expr) -> pl.Expr:
    """Counted FLOPs of a precision; one that only shapes spoke of was not executed."""
    name = f"_{column}"
    new = pl.col(name) if name in wide.columns else pl.lit(0.0)
    had_flops = any(c.startswith("flop/") for c in wide.columns)
    return (
        pl.when(known)
        .then(new)
        .otherwise(_old(wide, column, 0.0 if had_flops else None))
        .alias(column)
    )


def _chosen(wide: pl.DataFrame, column: str, known: pl.Expr) -> pl.Expr:
    new = pl.col(f"_{column}")
    return pl.when(known).then(new).otherwise(_old(wide, column, None)).alias(column)


def _before(wide: pl.DataFrame, columns: list[str], label: str, known: pl.Expr) -> pl.Expr:
    held = [pl.col(c) for c in columns if c in wide.columns]
    if not held:
        return pl.lit(None, pl.String).alias(label)
    whole = pl.all_horizontal(c.is_not_null() for c in held)
    total = pl.sum_horizontal(held)
    return pl.when(known & whole).then(total.cast(pl.String)).alias(label)


def _origin(wide: pl.DataFrame, what: str, known: pl.Expr) -> pl.Expr:
    column = f"{ORIGIN}{what}"
    new = pl.col(f"_{column}") if f"_{column}" in wide.columns else pl.lit("measured")
    old = pl.col(column) if column in wide.columns else pl.lit(None, pl.String)
    return pl.when(known).then(new.fill_null("measured")).otherwise(old).alias(column)


def _counted_share(table: pl.DataFrame, found: pl.DataFrame) -> float | None:
    total_s = float(table["time_s"].sum())
    own_s = float(table.filter(pl.col("id").is_in(found["id"].implode()))["time_s"].sum())
    return own_s / total_s if total_s else None
