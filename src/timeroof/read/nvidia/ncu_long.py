"""Nsight Compute's long CSV: one row per launch and metric, sections and rules among them."""

from __future__ import annotations

import polars as pl

from timeroof.read.numbers import in_base_units, numbers
from timeroof.read.nvidia.ncu_parts import Part, reading_of, some_metrics
from timeroof.read.tables import Table

_COLUMNS = {
    "id": ("ID",),
    "process": ("Process ID",),
    "name": ("Kernel Name", "Function Name"),
    "stream": ("Stream",),
    "grid": ("Grid Size",),
    "block": ("Block Size",),
    "device": ("Device Name",),
    "capability": ("CC",),
    "metric": ("Metric Name",),
    "unit": ("Metric Unit",),
    "value": ("Metric Value",),
}
_OF_LAUNCH = ("name", "stream", "grid", "block", "device", "capability")


def is_long(header: list[str]) -> bool:
    """Whether a header is that of a long table."""
    return {"ID", "Kernel Name", "Metric Name", "Metric Value"} <= set(header)


def read_long(table: Table, name: str, folder: str) -> Part:
    """The launches of a long table, with the roles of its metrics as columns."""
    places = {key: table.position(*names) for key, names in _COLUMNS.items()}
    found = {key: place for key, place in places.items() if place is not None}
    launches, values, metrics = [], [], set[str]()
    for frame in table.frames(list(found.values())):
        rows = frame.select(
            (pl.col(str(found[key])) if key in found else pl.lit(None, pl.String)).alias(key)
            for key in _COLUMNS
        ).filter(pl.col("id").str.contains(r"^\s*\d+\s*$") & pl.col("name").is_not_null())
        rows = rows.with_columns(_launch_key())
        # All rows of a launch name it: rules and sections without a metric too.
        launches.append(rows.group_by("launch", maintain_order=True).agg(_first(_OF_LAUNCH)))
        measured = rows.filter(pl.col("metric").str.len_chars() > 0)
        metrics |= set(measured["metric"].unique().to_list())
        values.append(_values(measured))
    return _part(launches, values, metrics, name, folder)


def _launch_key() -> pl.Expr:
    process = pl.col("process").fill_null("").str.strip_chars()
    return pl.concat_str(process, pl.lit("#"), pl.col("id").str.strip_chars()).alias("launch")


def _first(columns: tuple[str, ...]) -> list[pl.Expr]:
    return [pl.col(c).drop_nulls().first() for c in columns]


def _values(rows: pl.DataFrame) -> pl.DataFrame:
    """Launch, role, rank and value in base units of the rows that have a role."""
    rows = rows.with_columns(pl.col("unit").fill_null(""))
    pairs = rows.select("metric", "unit").unique(maintain_order=True)
    known = [
        (metric, unit, *reading)
        for metric, unit in pairs.iter_rows()
        if (reading := reading_of(metric, unit)) is not None
    ]
    schema = {
        "metric": pl.String,
        "unit": pl.String,
        "role": pl.String,
        "rank": pl.Int64,
        "factor": pl.Float64,
    }
    readings = pl.DataFrame(known, schema=schema, orient="row")
    joined = rows.select("launch", "metric", "unit", "value").join(
        readings, on=["metric", "unit"], how="inner", maintain_order="left"
    )
    joined = joined.with_columns(numbers(joined["value"]))
    return joined.select("launch", "role", "rank", in_base_units("value", "factor"))


def _part(
    launches: list[pl.DataFrame],
    values: list[pl.DataFrame],
    metrics: set[str],
    name: str,
    folder: str,
) -> Part:
    schema = dict.fromkeys(("launch", *_OF_LAUNCH), pl.String)
    table = pl.concat([pl.DataFrame(schema=schema), *launches])
    table = table.group_by("launch", maintain_order=True).agg(_first(_OF_LAUNCH))
    device, capability = _only(table["device"]), _only(table["capability"])
    table = table.drop("device", "capability")
    measured = pl.concat(values) if values else pl.DataFrame()
    if measured.height:
        best = (
            measured.sort("rank", maintain_order=True)
            .group_by("launch", "role", maintain_order=True)
            .agg(pl.col("value").drop_nulls().first())
        )
        table = table.join(
            best.pivot(on="role", index="launch", values="value"),
            on="launch",
            how="left",
            maintain_order="left",
        )
    return Part(name, folder, table, some_metrics(metrics), device, capability)


def _only(column: pl.Series) -> str | None:
    """The one value that a column has."""
    values = column.drop_nulls().unique().to_list()
    return str(values[0]) if len(values) == 1 else None
