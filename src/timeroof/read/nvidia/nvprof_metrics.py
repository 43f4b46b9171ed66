"""nvprof's metrics: averages over a kernel's launches, turned into totals of time and work."""

from __future__ import annotations

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source
from timeroof.read.launches import shown_list
from timeroof.read.nvidia.nvprof_profile import TOOL
from timeroof.read.nvidia.nvprof_values import device_name, glued

# nvprof counts a transaction of 32 bytes.
TRANSACTION_BYTES = 32.0

_FLOPS = {"fp64": "flop_count_dp", "fp32": "flop_count_sp", "fp16": "flop_count_hp"}
# Level -> ways to count its bytes, as metrics that add up and what one of them is in bytes.
_BYTES = {
    "dram": (
        (("dram_read_bytes", "dram_write_bytes"), 1.0),
        (("dram_read_transactions", "dram_write_transactions"), TRANSACTION_BYTES),
    ),
    "l2": ((("l2_read_transactions", "l2_write_transactions"), TRANSACTION_BYTES),),
}
# An amount and its rate: their quotient is the time, as nvprof averages a rate over the
# launches of a kernel by their time.
_RATES = (
    ("dram_read_bytes", 1.0, "dram_read_throughput"),
    ("dram_write_bytes", 1.0, "dram_write_throughput"),
    ("dram_read_transactions", TRANSACTION_BYTES, "dram_read_throughput"),
    ("dram_write_transactions", TRANSACTION_BYTES, "dram_write_throughput"),
    ("l2_read_transactions", TRANSACTION_BYTES, "l2_read_throughput"),
    ("l2_write_transactions", TRANSACTION_BYTES, "l2_write_throughput"),
    ("gst_transactions", TRANSACTION_BYTES, "gst_throughput"),
)
_TENSOR = "tensor_precision_fu_utilization"
_IDLE = r"Idle|\(0\)"
_TENSOR_CHIPS = ("V100", "TITAN V", "GV100", "T4", "RTX")


def profile_of_metrics(rows: pl.DataFrame, command: str | None, where: str) -> Profile:
    """A profile of rows (device, name, calls, metric, average as text)."""
    # A metric may have missed a launch of a kernel that the others saw.
    rows = rows.with_columns(pl.col("calls").max().over("device", "name"))
    values = rows.with_columns(glued(rows["average"]).alias("value"))
    wide = values.pivot(
        on="metric", index=["device", "name", "calls"], values="value", aggregate_function="first"
    )
    metrics = set(wide.columns) - {"device", "name", "calls"}
    time = _time(metrics)
    if time is None:
        raise InputError(
            f"has metrics but no times: {shown_list(sorted(metrics))}",
            where=where,
            advice="record nvprof's summary or GPU trace too, or all metrics",
        )
    columns = [c for precision in _FLOPS for c in _flop_column(precision, metrics)]
    columns += [c for level in _BYTES for c in _byte_column(level, metrics)]
    table = wide.with_columns((time * pl.col("calls")).alias("time_s"), *columns)
    notes = ["Times are inferred from amounts and rates (bytes / bytes per second) of each kernel."]
    if any(c.meta.output_name().startswith("flop/") for c in columns):
        table, more = _tensor(table, rows)
        notes += more
    unknown = table["time_s"].null_count()
    if unknown:
        notes.append(f"{unknown} of {table.height} kernels moved nothing, so have no time.")
    devices = {device_name(d) for d in wide["device"].drop_nulls().unique().to_list()}
    kept = [c for c in table.columns if c not in metrics]
    return Profile.of(
        table.select(kept).with_columns(
            pl.col("device").map_elements(device_name, return_dtype=pl.String),
            pl.lit("inferred").alias("origin.time"),
        ),
        Source(tool=TOOL, command=command),
        device=devices.pop() if len(devices) == 1 else None,
        notes=tuple(notes),
    )


def _time(metrics: set[str]) -> pl.Expr | None:
    """Mean seconds of a launch, from the rate that moved the most bytes."""
    pairs = [
        (pl.col(amount) * size, pl.col(rate))
        for amount, size, rate in _RATES
        if {amount, rate} <= metrics
    ]
    if not pairs:
        return None
    most = pl.max_horizontal(moved for moved, _ in pairs)
    return pl.coalesce(
        pl.when((moved == most) & (rate > 0)).then(moved / rate) for moved, rate in pairs
    )


def _flop_column(precision: str, metrics: set[str]) -> list[pl.Expr]:
    metric = _FLOPS[precision]
    if metric not in metrics:
        return []
    return [(pl.col(metric) * pl.col("calls")).alias(f"flop/{precision}")]


def _byte_column(level: str, metrics: set[str]) -> list[pl.Expr]:
    for parts, size in _BYTES[level]:
        if metrics.issuperset(parts):
            total = pl.sum_horizontal(pl.col(p) for p in parts) * size * pl.col("calls")
            return [total.alias(f"byte/{level}")]
    return []


def _tensor(table: pl.DataFrame, rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Tensor FLOPs are not counted by nvprof: 0 where the unit was idle, else unknown."""
    devices = " ".join(rows["device"].drop_nulls().unique().to_list())
    if not any(chip in devices for chip in _TENSOR_CHIPS):
        return table, []
    idle = (
        rows.filter(pl.col("metric") == _TENSOR)
        .with_columns(pl.when(pl.col("maximum").str.contains(_IDLE)).then(0.0).alias("tensor"))
        .select("device", "name", "calls", pl.col("tensor").alias("flop/fp16-tensor"))
    )
    joined = table.join(
        idle, on=["device", "name", "calls"], how="left", nulls_equal=True, maintain_order="left"
    )
    unknown = joined["flop/fp16-tensor"].null_count()
    note = f"nvprof does not count tensor FLOPs: they are unknown for {unknown} kernels."
    return joined, [note] if unknown else []
