"""The device activities of an Nsight Systems export: kernels, copies, memsets, whole graphs."""

from __future__ import annotations

import polars as pl

from timeroof.read.database import Database
from timeroof.read.device_events import COLLECTIVE

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSETS = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"

# CUPTI's copy kinds: name, bytes over PCI Express and bytes of device memory per byte copied.
_COPY_KINDS = {
    1: ("HtoD", 1, 1),
    2: ("DtoH", 1, 1),
    3: ("HtoA", 1, 1),
    4: ("AtoH", 1, 1),
    5: ("AtoA", 0, 2),
    6: ("AtoD", 0, 2),
    7: ("DtoA", 0, 2),
    8: ("DtoD", 0, 2),
    9: ("HtoH", 0, 0),
    10: ("PtoP", None, 1),
    11: ("unified HtoD", 1, 1),
    12: ("unified DtoH", 1, 1),
    13: ("unified DtoD", 0, 2),
}
_PLACE = {
    "start": pl.Int64,
    "end": pl.Int64,
    "deviceId": pl.Int64,
    "streamId": pl.Int64,
    "correlationId": pl.Int64,
    "globalPid": pl.Int64,
    "graphNodeId": pl.Int64,
}
_COMMON = (
    pl.col("start").alias("start_ns"),
    pl.col("end").alias("end_ns"),
    pl.col("deviceId").fill_null(0).cast(pl.String).alias("gpu"),
    pl.col("streamId").cast(pl.String).alias("stream"),
    pl.col("correlationId").alias("correlation"),
    # The process in the upper bits of a global id; its thread in the lower 24.
    (pl.col("globalPid").fill_null(0) // 2**24).alias("process"),
)


def read_strings(database: Database) -> pl.DataFrame:
    """The table of texts that other tables point to: id, value."""
    strings = database.read("StringIds", {"id": pl.Int64, "value": pl.String})
    return strings.drop_nulls().unique("id", keep="first", maintain_order=True)


def read_kernels(database: Database, strings: pl.DataFrame) -> pl.DataFrame:
    """Kernels with their names, grids and blocks."""
    sizes = [f"{what}{axis}" for what in ("grid", "block") for axis in "XYZ"]
    numbers = dict.fromkeys(("demangledName", "shortName", *sizes), pl.Int64)
    raw = database.read(KERNELS, {**_PLACE, **numbers, "graphId": pl.Int64})
    texts = strings.rename({"id": "_id"})
    for column in ("demangledName", "shortName"):
        text = texts.rename({"_id": column, "value": f"_{column}"})
        raw = raw.join(text, on=column, how="left", maintain_order="left")
    unnamed = pl.format("kernel {}", pl.coalesce("demangledName", "shortName", pl.lit(0)))
    name = pl.coalesce("_demangledName", "_shortName", unnamed)
    return raw.with_columns(name.alias("name")).select(
        pl.when(pl.col("name").str.contains(COLLECTIVE))
        .then(pl.lit("collective"))
        .otherwise(pl.lit("kernel"))
        .alias("kind"),
        "name",
        pl.col("_shortName").alias("short_name"),
        *_COMMON,
        *(_triple(what).alias(f"label.{what}") for what in ("grid", "block")),
        pl.col("graphId").cast(pl.String).alias("label.graph"),
        pl.col("graphNodeId").is_not_null().alias("in_graph"),
    )


def read_copies(database: Database) -> pl.DataFrame:
    """Copies with the bytes that cross PCI Express and that device memory sees."""
    raw = database.read(COPIES, {**_PLACE, "bytes": pl.Int64, "copyKind": pl.Int64})
    kinds = pl.DataFrame(
        [(kind, *rest) for kind, rest in _COPY_KINDS.items()],
        schema={"copyKind": pl.Int64, "_what": pl.String, "_pcie": pl.Int64, "_dram": pl.Int64},
        orient="row",
    )
    raw = raw.join(kinds, on="copyKind", how="left", maintain_order="left")
    return raw.select(
        pl.lit("copy").alias("kind"),
        pl.format("Memcpy {}", pl.col("_what").fill_null("of unknown kind")).alias("name"),
        *_COMMON,
        (pl.col("bytes") * pl.col("_pcie")).cast(pl.Float64).alias("link/pcie"),
        (pl.col("bytes") * pl.col("_dram")).cast(pl.Float64).alias("byte/dram"),
        pl.col("graphNodeId").is_not_null().alias("in_graph"),
    )


def read_memsets(database: Database) -> pl.DataFrame:
    """Memsets with the bytes that they write."""
    raw = database.read(MEMSETS, {**_PLACE, "bytes": pl.Int64})
    return raw.select(
        pl.lit("memset").alias("kind"),
        pl.lit("Memset").alias("name"),
        *_COMMON,
        pl.lit(0.0).alias("link/pcie"),
        pl.col("bytes").cast(pl.Float64).alias("byte/dram"),
        pl.col("graphNodeId").is_not_null().alias("in_graph"),
    )


def read_graphs(database: Database) -> pl.DataFrame:
    """Graphs that were traced as a whole: their kernels are not in the file."""
    raw = database.read(GRAPHS, {**_PLACE, "graphId": pl.Int64})
    return raw.select(
        pl.lit("kernel").alias("kind"),
        pl.format("CUDA graph {}", pl.col("graphId").fill_null(0)).alias("name"),
        *_COMMON,
        pl.col("graphId").cast(pl.String).alias("label.graph"),
        pl.lit(False).alias("in_graph"),
    )


def _triple(what: str) -> pl.Expr:
    axes = [pl.col(f"{what}{axis}") for axis in "XYZ"]
    return pl.when(axes[0].is_not_null()).then(
        pl.format("{}x{}x{}", *(axis.fill_null(1) for axis in axes))
    )
