"""From nvprof's rows to a profile: kernels, copies with their bytes, and the idle between."""

from __future__ import annotations

import re

import polars as pl

from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile, Source
from timeroof.read.csv import in_base_units
from timeroof.read.events import (
    copy_bytes,
    drop_impossible,
    kernel_kind,
    one_device,
    rows_of_launches,
    shown_list,
)

# How nvprof prints: units glued to numbers, powers of 1024, copies in brackets.
_BINARY = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
_UNIT = re.compile(r"([KMGT]?)B(/s)?")
_GLUED = r"^(-?[\d.]+(?:e[+-]?\d+)?)([A-Za-z/%]*)$"

# Lines before the tables: "==1234== NVPROF is profiling …", "======== Profiling result:".
PREAMBLE = re.compile(
    r"(?m)^==(?:\d+|=+)== (?:NVPROF is profiling|Profiling (?:application|result)|Metric result)"
)
COMMAND = re.compile(r"^==(?:\d+|=+)== NVPROF is profiling process \d+, command: (.*)$")


def unit_value(unit: str) -> float | None:
    """What one of a unit is in seconds or bytes; nvprof's KB is 1024 bytes.

    >>> unit_value("us"), unit_value("KB"), unit_value("GB/s"), unit_value("%")
    (1e-06, 1024.0, 1073741824.0, None)
    """
    text = unit.strip()
    if text in _SECONDS:
        return _SECONDS[text]
    match = _UNIT.fullmatch(text)
    return _BINARY[match[1]] if match else None


def glued(column: pl.Series) -> pl.Series:
    """Numbers with a unit glued on, in seconds, bytes or as they are; the rest is null.

    >>> glued(pl.Series(["56.7454s", "2.0000KB", "12", "-", "99.72%", "Low (1)"])).to_list()
    [56.7454, 2048.0, 12.0, None, 99.72, None]
    """
    text = column.str.strip_chars()
    number = text.str.extract(_GLUED, 1).cast(pl.Float64, strict=False)
    units = text.str.extract(_GLUED, 2).fill_null("")
    factors = {u: unit_value(u) or 1.0 for u in units.unique().to_list()}
    table = pl.DataFrame({"value": number, "unit": units}).with_columns(
        pl.col("unit").replace_strict(factors, return_dtype=pl.Float64).alias("factor")
    )
    return table.select(in_base_units("value", "factor")).to_series().alias(column.name)


# The last one that fits counts.
_KINDS = ((r"(?i)^\[.*memset", "memset"), (r"(?i)^\[.*memcpy", "copy"))


def kind_of_name() -> pl.Expr:
    """The kind of a row by its name: copies and memsets are in brackets."""
    kind = kernel_kind()
    for pattern, name in _KINDS:
        kind = pl.when(pl.col("name").str.contains(pattern)).then(pl.lit(name)).otherwise(kind)
    return kind.alias("kind")


def is_activity() -> pl.Expr:
    """Whether a row is work of the device; page faults are events in brackets."""
    name = pl.col("name")
    return ~name.str.contains(r"^\[") | name.str.contains(r"(?i)memcpy|memset")


def device_name(text: str) -> str:
    """A device without its number.

    >>> device_name("TITAN Xp (0)")
    'TITAN Xp'
    """
    return re.sub(r"\s*\(\d+\)\s*$", "", text.strip().strip('"'))


TOOL = "nvprof"
_TEXT = "Times are inferred from amounts and rates (bytes / bytes per second) of each kernel."
INFERRED_TIMES = Note(_TEXT, "inferred-times")
PCIE = "link/pcie"


def profile_of_rows(found: pl.DataFrame, command: str | None, where: str) -> Profile:
    """A profile of summary rows or of single activities with their starts."""
    rows = found.filter(is_activity() & pl.col("name").is_not_null())
    notes: list[str] = []
    if left_out := found.height - rows.height:
        text = f"{left_out} page faults and other events that are no work are left out."
        notes.append(Note(text, "left-out"))
    rows, dropped = drop_impossible(_amounts(rows).filter(pl.col("time_s").is_not_null()))
    if not rows.height:
        raise InputError("has no kernel or copy with a time", where=where, advice="record it again")
    whole: dict[str, object] = {}
    if "start_s" in rows.columns:
        rows = _with_idle(rows)
        wall_s = rows.select(pl.col("end_s").max() - pl.col("start_s").min()).item()
        busy_s = max(0.0, wall_s - rows["idle_before_s"].sum())
        whole = {"wall_s": wall_s, "kernel_s": busy_s}
    device, unnamed = one_device(rows["device"].unique() if "device" in rows.columns else [])
    kept = rows.drop("start_s", "end_s", "moved", strict=False)
    whole |= {"device": device, "notes": (*notes, *dropped, *unnamed)}
    return Profile.of(rows_of_launches(kept), Source(tool=TOOL, command=command), **whole)


def _amounts(rows: pl.DataFrame) -> pl.DataFrame:
    """Bytes of copies: once in DRAM and once over the link, or twice in DRAM on the device."""
    rows = rows.with_columns(kind_of_name(), pl.lit("measured").alias("origin.time"))
    if "moved" not in rows.columns:
        return rows
    link, dram = copy_bytes(pl.col("moved"), pl.col("name"))
    moves = pl.col("kind").is_in(["copy", "memset"])
    return rows.with_columns(
        pl.when(moves).then(dram).alias("byte/dram"),
        pl.when(moves).then(link).otherwise(0.0).alias(PCIE),
    )


def _with_idle(rows: pl.DataFrame) -> pl.DataFrame:
    """The seconds that the device was idle before each activity."""
    rows = rows.sort("start_s", maintain_order=True)
    rows = rows.with_columns(end_s=pl.col("start_s") + pl.col("time_s"))
    busy_until = pl.col("end_s").cum_max().shift(1)
    idle = (pl.col("start_s") - busy_until).clip(lower_bound=0.0).fill_null(0.0)
    return rows.with_columns(idle.alias("idle_before_s"))


# nvprof's metrics: averages over a kernel's launches, turned into totals of time and work.
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
        advice = "record nvprof's summary or GPU trace too, or all metrics"
        raise InputError(f"has metrics but no times: {shown_list(sorted(metrics))}", where, advice)
    counted = {precision: metric for precision, metric in _FLOPS.items() if metric in metrics}
    columns = [(pl.col(m) * pl.col("calls")).alias(f"flop/{p}") for p, m in counted.items()]
    columns += [c for level in _BYTES for c in _byte_column(level, metrics)]
    table = wide.with_columns((time * pl.col("calls")).alias("time_s"), *columns)
    notes: list[str] = [INFERRED_TIMES]
    if any(c.meta.output_name().startswith("flop/") for c in columns):
        table, more = _tensor(table, rows)
        notes += more
    if unknown := table["time_s"].null_count():
        text = f"{unknown} of {table.height} kernels moved nothing, so have no time."
        notes.append(Note(text, "no-times"))
    device, unnamed = one_device(device_name(d) for d in wide["device"].drop_nulls().unique())
    kept = [c for c in table.columns if c not in metrics]
    named = pl.col("device").map_elements(device_name, return_dtype=pl.String)
    table = table.select(kept).with_columns(named, pl.lit("inferred").alias("origin.time"))
    source = Source(tool=TOOL, command=command)
    return Profile.of(table, source, device=device, notes=(*notes, *unnamed))


def _time(metrics: set[str]) -> pl.Expr | None:
    """Mean seconds of a launch, from the rate that moved the most bytes."""
    known = [way for way in _RATES if {way[0], way[2]} <= metrics]
    if not known:
        return None
    pairs = [(pl.col(amount) * size, pl.col(rate)) for amount, size, rate in known]
    most = pl.max_horizontal(moved for moved, _ in pairs)
    return pl.coalesce(pl.when((m == most) & (rate > 0)).then(m / rate) for m, rate in pairs)


def _byte_column(level: str, metrics: set[str]) -> list[pl.Expr]:
    ways = [(parts, size) for parts, size in _BYTES[level] if metrics.issuperset(parts)]
    totals = [pl.sum_horizontal(parts) * size * pl.col("calls") for parts, size in ways]
    return [total.alias(f"byte/{level}") for total in totals[:1]]


def _tensor(table: pl.DataFrame, rows: pl.DataFrame) -> tuple[pl.DataFrame, list[Note]]:
    """Tensor FLOPs are not counted by nvprof: 0 where the unit was idle, else unknown."""
    devices = " ".join(rows["device"].drop_nulls().unique().to_list())
    if not any(chip in devices for chip in _TENSOR_CHIPS):
        return table, []
    keys = ["device", "name", "calls"]
    none = pl.when(pl.col("maximum").str.contains(_IDLE)).then(0.0).alias("flop/fp16-tensor")
    idle = rows.filter(pl.col("metric") == _TENSOR).select(*keys, none)
    joined = table.join(idle, on=keys, how="left", nulls_equal=True, maintain_order="left")
    unknown = joined["flop/fp16-tensor"].null_count()
    text = f"nvprof does not count tensor FLOPs: they are unknown for {unknown} kernels."
    return joined, [Note(text, "tensor-flops", "warning")] if unknown else []
