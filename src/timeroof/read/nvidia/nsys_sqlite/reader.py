"""Nsight Systems' SQLite export (``nsys export --type sqlite``): a linked profile from its tables.

Tables and columns differ between versions and recording options; only the kernels are needed.
"""

from __future__ import annotations

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source, SourceFile, Steps
from timeroof.read.database import Database, open_database, table_errors
from timeroof.read.device_events import Whole, profile_of
from timeroof.read.format import ReadOptions
from timeroof.read.hints import NSYS_TABLES, holds_table
from timeroof.read.idle import link_launches
from timeroof.read.nvidia.nsys_sqlite import activities
from timeroof.read.opening import Input, short_name
from timeroof.read.ranges import Places, lend_places

_RANGE_TYPES = (59, 60, 70, 71)


class NsysSqlite:
    """Nsight Systems, exported to SQLite."""

    name = "nsys-sqlite"
    title = "Nsight Systems SQLite export"

    def sniff(self, found: Input) -> bool:
        """An SQLite file with Nsight Systems' tables."""
        return len(found.entries) == 1 and holds_table(found.only, NSYS_TABLES)

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The linked profile of an export."""
        entry = found.only
        with open_database(entry) as database, table_errors(entry.name, "Nsight Systems export"):
            return _read(database, entry.name, options)


def _read(database: Database, where: str, options: ReadOptions) -> Profile:
    options.progress("reading kernels", 0.1)
    strings = activities.read_strings(database)
    events = _events(database, strings, where)
    options.progress("linking launches", 0.5)
    events = link_launches(events, _calls(database, strings, events))
    events, notes, steps = _placed(events, _ranges(database, strings))
    events, device, device_notes = _with_devices(events, database)
    notes += device_notes + _graph_notes(database)
    events = _with_launches(events).drop("process", "correlation", "in_graph")
    options.progress("summing up", 0.8)
    version, command = _tool(database)
    source = Source(
        tool="Nsight Systems",
        version=version,
        files=[SourceFile(name=short_name(where))],
        command=command,
    )
    extra: dict[str, object] = {"steps": Steps(count=steps)} if steps else {}
    return profile_of(events, Whole(source, device, tuple(notes), extra=extra))


def _events(database: Database, strings: pl.DataFrame, where: str) -> pl.DataFrame:
    """All device activities in one table, or a word on why there are none."""
    if not (database.has(activities.KERNELS) or database.has(activities.GRAPHS)):
        raise InputError(
            f"has no GPU kernels (table {activities.KERNELS} is absent or empty)",
            where=where,
            advice="record with `nsys profile --trace=cuda,nvtx` and export again",
        )
    parts = [
        activities.read_kernels(database, strings),
        activities.read_graphs(database),
        activities.read_copies(database),
        activities.read_memsets(database),
    ]
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
        (pl.col("globalTid") // 2**24).alias("process"),
        pl.col("correlationId").alias("correlation"),
        pl.col("globalTid").alias("thread"),
        pl.col("start").alias("start_ns"),
        pl.col("end").alias("end_ns"),
        pl.col("name").fill_null(""),
    )
    if events["process"].max() == 0:
        # An export that names no process: correlations are taken as unique.
        calls = calls.with_columns(pl.lit(0, pl.Int64).alias("process"))
    return calls.drop_nulls(["start_ns", "end_ns"])


def _ranges(database: Database, strings: pl.DataFrame) -> pl.DataFrame:
    """NVTX ranges with their texts."""
    numbers = ("start", "end", "eventType", "globalTid", "textId")
    raw = database.read("NVTX_EVENTS", {**dict.fromkeys(numbers, pl.Int64), "text": pl.String})
    raw = raw.filter(pl.col("eventType").is_in(_RANGE_TYPES) & pl.col("end").is_not_null())
    texts = strings.rename({"id": "textId", "value": "_text"})
    return raw.join(texts, on="textId", how="left", maintain_order="left").select(
        pl.col("globalTid").alias("thread"),
        pl.col("start").alias("start_ns"),
        pl.col("end").alias("end_ns"),
        pl.coalesce("text", "_text").alias("text"),
    )


def _placed(events: pl.DataFrame, ranges: pl.DataFrame) -> tuple[pl.DataFrame, list[str], int]:
    """Events with op, module and phase from the ranges around their launches."""
    if "launch_start_ns" not in events.columns:
        return events, ["no launch of a kernel is in the file: causes of idle are unknown"], 0
    unlinked = events.filter(pl.col("launch_start_ns").is_null()).height
    notes = [f"{unlinked} of {events.height} GPU activities have no launch in the file"]
    notes = notes if unlinked else []
    if not ranges.height:
        return events.drop("launch_thread"), notes, 0
    places = Places(ranges)
    placed = places.at(events["launch_thread"], events["launch_start_ns"])
    events = events.drop("launch_thread").hstack(placed)
    events, helped = lend_places(events, ["kind", "name", "label.grid"])
    if helped:
        notes.append(f"{helped} of them take their op from kernels of the same name and grid")
    return events, notes, places.steps


def _with_devices(
    events: pl.DataFrame, database: Database
) -> tuple[pl.DataFrame, str | None, list[str]]:
    """Events with their device's name, the name that all share, and a note where none is known."""
    names = _device_names(database)
    events = events.with_columns(
        pl.col("gpu").replace_strict(names, default=None, return_dtype=pl.String).alias("device")
    )
    used = events["device"].unique().to_list()
    if used == [None]:
        return events, None, ["the file names no device (TARGET_INFO_GPU is absent)"]
    if len(used) > 1:
        return events, None, [f"kernels ran on different devices: {', '.join(map(str, used))}"]
    return events, str(used[0]), []


def _device_names(database: Database) -> dict[str, str]:
    """GPU names by CUDA's device number."""
    by_id = database.pairs("TARGET_INFO_GPU", "id", "name")
    by_cuda = database.pairs("TARGET_INFO_GPU", "cuDevice", "name")
    mapped = database.pairs("TARGET_INFO_CUDA_DEVICE", "cudaId", "gpuId")
    return {**by_id, **by_cuda, **{c: by_id[g] for c, g in mapped.items() if g in by_id}}


def _with_launches(events: pl.DataFrame) -> pl.DataFrame:
    """One launch per event; a graph's nodes share the one launch of their graph."""
    if not events["in_graph"].any():
        return events
    first = pl.int_range(pl.len()).over("process", "correlation", "in_graph") == 0
    count = pl.when(pl.col("in_graph") & ~first).then(0.0).otherwise(1.0)
    return events.with_columns(count.alias("launches"))


def _graph_notes(database: Database) -> list[str]:
    if not database.has(activities.GRAPHS):
        return []
    return [
        "CUDA graphs were traced as a whole, without their kernels: record with"
        " --cuda-graph-trace=node to see them"
    ]


def _tool(database: Database) -> tuple[str | None, str | None]:
    """The tool's version and the command that it recorded."""
    export = database.pairs("META_DATA_EXPORT", "name", "value")
    export = export or database.pairs("EXPORT_META_DATA", "name", "value")
    capture = database.pairs("META_DATA_CAPTURE", "name", "value")
    words = [capture.get("PROCESS_0:COMMAND", "")]
    words += [capture.get(f"PROCESS_0:ARGUMENT_{n}", "") for n in range(20)]
    command = " ".join(word for word in words if word)
    return export.get("EXPORT_PRODUCT_VERSION"), command or None


FORMAT = NsysSqlite()
