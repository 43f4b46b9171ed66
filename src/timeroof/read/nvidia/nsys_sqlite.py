"""Nsight Systems' SQLite export (``nsys export --type sqlite``): kernels, copies, whole graphs."""

from __future__ import annotations

import polars as pl

from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile, Steps
from timeroof.read.events import NO_LAUNCHES, Whole, kernel_kind, profile_of
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.idle import NO_PROCESS, host_spans, link_launches
from timeroof.read.open import Input
from timeroof.read.ranges import Places, lend_places
from timeroof.read.sqlite import Database, open_database

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSETS = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"

# CUPTI's copy kinds: name, bytes over PCI Express and bytes of device memory per byte copied.
_COPY_KINDS = {
    1: ("HtoD", 1, 1), 2: ("DtoH", 1, 1), 3: ("HtoA", 1, 1), 4: ("AtoH", 1, 1),
    5: ("AtoA", 0, 2), 6: ("AtoD", 0, 2), 7: ("DtoA", 0, 2), 8: ("DtoD", 0, 2),
    9: ("HtoH", 0, 0), 10: ("PtoP", None, 1),
    11: ("unified HtoD", 1, 1), 12: ("unified DtoH", 1, 1), 13: ("unified DtoD", 0, 2),
}  # fmt: skip
_PLACE = dict.fromkeys(
    ["start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphNodeId"], pl.Int64
)
_TIMES = (pl.col("start").alias("start_ns"), pl.col("end").alias("end_ns"))
_THREAD = pl.col("globalTid")
_OF_HOST = ((_THREAD // 2**24).alias("process"), _THREAD.alias("thread"), *_TIMES)
_COMMON = (
    *_TIMES,
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
        kernel_kind(),
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
    listed = [(kind, *rest) for kind, rest in _COPY_KINDS.items()]
    schema = {"copyKind": pl.Int64, "_what": pl.String, "_pcie": pl.Int64, "_dram": pl.Int64}
    kinds = pl.DataFrame(listed, schema=schema, orient="row")
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
    text = pl.format("{}x{}x{}", *(axis.fill_null(1) for axis in axes))
    return pl.when(axes[0].is_not_null()).then(text)


# Tables and columns differ between versions and recording options; only the kernels are needed.
_RANGE_TYPES = (59, 60, 70, 71)
_ADVICE = "record with --cuda-graph-trace=node to see them"
_WHOLE = f"CUDA graphs were traced as a whole, without their kernels: {_ADVICE}."
WHOLE_GRAPHS = Note(_WHOLE, "whole-graphs")


def read(found: Input, options: ReadOptions) -> Profile:
    """The linked profile of an export."""
    with open_database(found.only) as database:
        return _read(database, found, options)


def _read(database: Database, found: Input, options: ReadOptions) -> Profile:
    options.progress("reading kernels", 0.1)
    strings = read_strings(database)
    events = _events(database, strings, found.name)
    options.progress("linking launches", 0.5)
    calls = _calls(database, strings, events)
    events = link_launches(events, calls)
    events, notes, places = _placed(events, _ranges(database, strings, events))
    host = host_spans(calls, places.data if places else None)
    events = _with_launches(_on_devices(events, database)).drop("correlation")
    notes += [WHOLE_GRAPHS] if database.has(GRAPHS) else []
    options.progress("summing up", 0.8)
    version, command = _tool(database)
    source = source_of("Nsight Systems", found, version=version, command=command)
    extra: dict[str, object] = {}
    if places and places.steps:
        extra["steps"] = Steps(count=places.steps)
    return profile_of(events, Whole(source, None, tuple(notes), extra=extra, host=host))


def _events(database: Database, strings: pl.DataFrame, where: str) -> pl.DataFrame:
    """All device activities in one table, or a word on why there are none."""
    if not (database.has(KERNELS) or database.has(GRAPHS)):
        advice = "record with `nsys profile --trace=cuda,nvtx` and export again"
        raise InputError(f"has no GPU kernels (table {KERNELS} is absent or empty)", where, advice)
    parts = [read_kernels(database, strings)]
    parts += [part(database) for part in (read_graphs, read_copies, read_memsets)]
    events = pl.concat([p for p in parts if p.height], how="diagonal")
    if "link/pcie" in events.columns:
        is_kernel = ~pl.col("kind").is_in(["copy", "memset"])
        events = events.with_columns(
            pl.when(is_kernel).then(0.0).otherwise(pl.col("link/pcie")).alias("link/pcie"),
            pl.when(~is_kernel).then(pl.lit("measured")).alias("origin.bytes/dram"),
        )
    return events


def _calls(database: Database, strings: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Host calls that launched one of the events or waited for the device."""
    wanted = dict.fromkeys(("start", "end", "globalTid", "correlationId", "nameId"), pl.Int64)
    raw = database.read("CUPTI_ACTIVITY_KIND_RUNTIME", wanted)
    texts = strings.rename({"id": "nameId", "value": "name"})
    calls = raw.join(texts, on="nameId", how="left", maintain_order="left").select(
        *_OF_HOST, pl.col("correlationId").alias("correlation"), pl.col("name").fill_null("")
    )
    return _of_processes(calls, events).drop_nulls(["start_ns", "end_ns"])


def _of_processes(host: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Calls or ranges; in an export that names no process correlations are taken as unique."""
    if events["process"].max() != NO_PROCESS:
        return host
    return host.with_columns(pl.lit(NO_PROCESS, pl.Int64).alias("process"))


def _ranges(database: Database, strings: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """NVTX ranges with their texts."""
    numbers = ("start", "end", "eventType", "globalTid", "textId")
    raw = database.read("NVTX_EVENTS", {**dict.fromkeys(numbers, pl.Int64), "text": pl.String})
    raw = raw.filter(pl.col("eventType").is_in(_RANGE_TYPES) & pl.col("end").is_not_null())
    texts = strings.rename({"id": "textId", "value": "_text"})
    ranges = raw.join(texts, on="textId", how="left", maintain_order="left").select(
        *_OF_HOST, pl.coalesce("text", "_text").alias("text")
    )
    return _of_processes(ranges, events)


def _placed(
    events: pl.DataFrame, ranges: pl.DataFrame
) -> tuple[pl.DataFrame, list[str], Places | None]:
    """Events with op, module and phase from the ranges around their launches."""
    if "launch_start_ns" not in events.columns:
        return events, [NO_LAUNCHES], None
    unlinked = events.filter(pl.col("launch_start_ns").is_null()).height
    text = f"{unlinked} of {events.height} GPU activities have no launch in the file."
    notes: list[str] = [Note(text, "unlinked")] if unlinked else []
    if not ranges.height:
        return events.drop("launch_thread"), notes, None
    places = Places(ranges)
    placed = places.at(events["launch_thread"], events["launch_start_ns"])
    events = events.drop("launch_thread").hstack(placed)
    events, helped = lend_places(events, ["kind", "name", "label.grid"])
    if helped:
        text = f"{helped} kernels take their op from kernels of the same name and grid."
        notes.append(Note(text, "inferred-op"))
    return events, notes, places


def _on_devices(events: pl.DataFrame, database: Database) -> pl.DataFrame:
    """Events with their GPU and its name.

    CUDA numbers the GPUs that a process may see: number 0 of two processes may be two GPUs.
    """
    by_id = database.pairs("TARGET_INFO_GPU", "id", "name")
    by_cuda = database.pairs("TARGET_INFO_GPU", "cuDevice", "name")
    seen = dict.fromkeys(("pid", "cudaId", "gpuId"), pl.Int64)
    mapped = database.read("TARGET_INFO_CUDA_DEVICE", seen).drop_nulls()
    of_process = mapped.unique(("pid", "cudaId"), keep="first").with_columns(
        pl.col("cudaId", "gpuId").cast(pl.String)
    )
    pid = (pl.col("process") % 2**24).alias("pid")
    placed = events.with_columns(pid, pl.col("gpu").alias("cudaId")).join(
        of_process, on=("pid", "cudaId"), how="left", maintain_order="left"
    )
    if placed.height and not placed["gpuId"].null_count():
        names, number = by_id, pl.col("gpuId")
    else:
        ids = dict(of_process.select("cudaId", "gpuId").iter_rows())
        lent = {cuda: by_id[gpu] for cuda, gpu in ids.items() if gpu in by_id}
        names, number = {**by_id, **by_cuda, **lent}, pl.col("gpu")
    device = number.replace_strict(names, default=None, return_dtype=pl.String)
    return placed.with_columns(number.alias("gpu"), device.alias("device")).drop(
        "pid", "cudaId", "gpuId"
    )


def _with_launches(events: pl.DataFrame) -> pl.DataFrame:
    """One launch per event; a graph's nodes share the one launch of their graph."""
    if not events["in_graph"].any():
        return events
    first = pl.int_range(pl.len()).over("process", "correlation", "in_graph") == 0
    count = pl.when(pl.col("in_graph") & ~first).then(0.0).otherwise(1.0)
    return events.with_columns(count.alias("launches"))


def _tool(database: Database) -> tuple[str | None, str | None]:
    """The tool's version and the command that it recorded."""
    export = database.pairs("META_DATA_EXPORT", "name", "value")
    export = export or database.pairs("EXPORT_META_DATA", "name", "value")
    capture = database.pairs("META_DATA_CAPTURE", "name", "value")
    words = [capture.get("PROCESS_0:COMMAND", "")]
    words += [capture.get(f"PROCESS_0:ARGUMENT_{n}", "") for n in range(20)]
    command = " ".join(word for word in words if word)
    return export.get("EXPORT_PRODUCT_VERSION"), command or None
