"""rocpd: rocprofv3's SQLite database. Its tables end in the run's id, one set per process."""

from __future__ import annotations

import re

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.amd.counters import copies_of, profile_of_run, summed_instances, wide
from timeroof.read.events import Whole, kernel_kind
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.open import Input
from timeroof.read.sqlite import Database, open_database

# Only plain tables are read, not the database's views: a view is a program in a file.
_AXES = tuple(f"{what}_{axis}" for what in ("grid_size", "workgroup_size") for axis in "xyz")
_TIMES = (pl.col("start").alias("start_ns"), pl.col("end").alias("end_ns"))


class Run:
    """One process: all tables with one suffix."""

    def __init__(self, database: Database, suffix: str) -> None:
        self._database, self._suffix = database, suffix

    def _read(self, table: str, *numbers: str, text: tuple[str, ...] = ()) -> pl.DataFrame:
        schema = {**dict.fromkeys(numbers, pl.Int64), **dict.fromkeys(text, pl.String)}
        return self._database.read(f"rocpd_{table}{self._suffix}", schema)

    def kernels(self, number: int) -> pl.DataFrame:
        """Dispatches with names, places and sizes."""
        places = ("agent_id", "kernel_id", "queue_id", "stream_id", "event_id")
        raw = self._read("kernel_dispatch", "start", "end", *places, *_AXES)
        raw = self._with_names(raw)
        grid = [pl.col(f"grid_size_{axis}").fill_null(1) for axis in "xyz"]
        block = [pl.col(f"workgroup_size_{axis}").fill_null(1) for axis in "xyz"]
        return raw.select(
            kernel_kind(),
            *("name", "device", "correlation"),
            *_TIMES,
            pl.col("agent_id").cast(pl.String).alias("gpu"),
            pl.coalesce("stream_id", "queue_id").cast(pl.String).alias("stream"),
            (grid[0] * grid[1] * grid[2]).alias("grid"),
            pl.format("{}x{}x{}", *grid).alias("label.grid"),
            pl.format("{}x{}x{}", *block).alias("label.block"),
            pl.lit(number, pl.Int64).alias("process"),
        )

    def copies(self, number: int) -> pl.DataFrame:
        """Copies with their bytes."""
        raw = self._read(
            "memory_copy", "start", "end", "name_id", "dst_agent_id", "src_agent_id", "size",
            "stream_id", "event_id",
        )  # fmt: skip
        strings = self._strings().rename({"id": "name_id", "string": "way"})
        raw = raw.join(strings, on="name_id", how="left", maintain_order="left")
        to_device = pl.col("way").fill_null("").str.contains("(?i)^(MEMORY_COPY_)?host")
        raw = raw.with_columns(
            pl.when(to_device).then("dst_agent_id").otherwise("src_agent_id").alias("agent_id")
        )
        texts = (pl.col("agent_id").alias("gpu"), pl.col("stream_id").alias("stream"))
        raw = self._with_agents(self._with_correlations(raw)).select(
            "way", *_TIMES, *(t.cast(pl.String) for t in texts), "device", "correlation", "size"
        )
        return copies_of(raw, number)

    def counters(self) -> pl.DataFrame:
        """Counters in long form, summed over the instances of their unit."""
        schema = {"event_id": pl.Int64, "pmc_id": pl.Int64, "value": pl.Float64}
        values = self._database.read(f"rocpd_pmc_event{self._suffix}", schema)
        names = self._read("info_pmc", "id", text=("name",))
        names = names.rename({"id": "pmc_id", "name": "counter"}).unique("pmc_id")
        kernels = self._read("kernel_dispatch", "event_id", "kernel_id", "agent_id", *_AXES[:3])
        kernels = self._with_names(kernels)
        sizes = [pl.col(axis).fill_null(1) for axis in _AXES[:3]]
        kernels = kernels.select(
            "event_id", "name", (sizes[0] * sizes[1] * sizes[2]).alias("grid")
        ).unique("event_id", keep="first", maintain_order=True)
        joined = kernels.join(values, on="event_id", how="inner", maintain_order="left")
        joined = joined.join(names, on="pmc_id", how="left", maintain_order="left").select(
            "name", "grid", pl.col("event_id").cast(pl.String).alias("dispatch"), "counter", "value"
        )
        return summed_instances(joined)

    def calls(self, number: int) -> pl.DataFrame:
        """Calls of the host and ranges that the program marks."""
        raw = self._read("region", "start", "end", "tid", "name_id", "event_id")
        strings = self._strings()
        raw = self._with_correlations(raw)
        for text in ("name", "category"):
            texts = strings.rename({"id": f"{text}_id", "string": text})
            raw = raw.join(texts, on=f"{text}_id", how="left")
        return raw.select(
            pl.lit(number, pl.Int64).alias("process"),
            "correlation",
            pl.col("tid").alias("thread"),
            *_TIMES,
            pl.col("name", "category").fill_null(""),
        ).drop_nulls(["start_ns", "end_ns"])

    def command(self) -> str | None:
        """The command that was profiled."""
        commands = self._read("info_process", text=("command",))["command"].drop_nulls()
        return str(commands[0]) if len(commands) else None

    def _strings(self) -> pl.DataFrame:
        return self._read("string", "id", text=("string",)).unique("id", keep="first")

    def _with_names(self, raw: pl.DataFrame) -> pl.DataFrame:
        """Add a kernel's name, its device and what links it to its launch."""
        symbols = self._read("info_kernel_symbol", "id", text=("display_name", "kernel_name"))
        symbols = symbols.select(
            pl.col("id").alias("kernel_id"), name=pl.coalesce("display_name", "kernel_name")
        ).unique("kernel_id", keep="first")
        raw = raw.join(symbols, on="kernel_id", how="left", maintain_order="left")
        unnamed = pl.format("kernel {}", pl.col("kernel_id").fill_null(0))
        raw = raw.with_columns(pl.coalesce("name", unnamed).alias("name"))
        return self._with_agents(self._with_correlations(raw))

    def _with_agents(self, raw: pl.DataFrame) -> pl.DataFrame:
        agents = self._read("info_agent", "id", text=("product_name", "name"))
        agents = agents.select(
            pl.col("id").alias("agent_id"), pl.coalesce("product_name", "name").alias("device")
        ).unique("agent_id", keep="first")
        return raw.join(agents, on="agent_id", how="left", maintain_order="left")

    def _with_correlations(self, raw: pl.DataFrame) -> pl.DataFrame:
        """The stack that an event belongs to links calls and dispatches."""
        events = self._read("event", "id", "stack_id", "correlation_id", "category_id")
        link = pl.when(pl.col("correlation_id") > 0).then("correlation_id").otherwise("stack_id")
        events = events.select(
            pl.col("id").alias("event_id"), link.alias("correlation"), "category_id"
        ).unique("event_id", keep="first")
        return raw.join(events, on="event_id", how="left", maintain_order="left")


_DISPATCHES = re.compile(r"^rocpd_kernel_dispatch(_?[0-9a-fA-F_]*)$")


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of all processes in the database."""
    with open_database(found.only) as database:
        suffixes = sorted(m.group(1) for t in database.tables if (m := _DISPATCHES.match(t)))
        runs = [Run(database, suffix) for suffix in suffixes]
        kernels = [k for n, run in enumerate(runs) if (k := run.kernels(n)).height]
        if not kernels:
            raise InputError("has no kernel dispatches", found.name, "record with --kernel-trace")
        counted = [c for run in runs if (c := run.counters()).height]
        copies = [run.copies(n) for n, run in enumerate(runs)]
        calls = pl.concat([run.calls(n) for n, run in enumerate(runs)])
        source = source_of("rocprofv3", found, command=runs[0].command())
    counters = wide(pl.concat(counted)) if counted else None
    return profile_of_run(kernels, counters, copies, calls, Whole(source))
