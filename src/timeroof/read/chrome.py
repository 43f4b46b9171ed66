"""Chrome traces of other tools: XLA's (JAX, TensorFlow), and any with complete events.

XLA names its processes: ``/device:GPU:0`` has a thread per stream, and further threads
that tell the same time again by module or by op; ``/host:CPU`` runs thunks with an
``hlo_op``. A trace that says nothing of the kind is a host's, and its time is self time.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from timeroof.read.idle import Bools, Union, gaps
from timeroof.read.torch.host import self_times
from timeroof.read.torch.rows import text_of
from timeroof.read.torch.tables import Trace

_DEVICE = re.compile(r"/device:(GPU|TPU|XLA_GPU|ROCM|CUSTOM)|^GPU\s*\d|^TPU:\d", re.IGNORECASE)
_STREAM = re.compile(r"^stream|^XLA Ops$|^queue", re.IGNORECASE)
_COPY, _MEMSET = r"(?i)memcpy", r"(?i)memset"
_COLLECTIVE = (
    r"(?i)nccl|rccl|all-?reduce|all-?gather|reduce-?scatter|all-?to-?all|collective-permute"
)
_US = 1e-6


class PlainRows:
    """The rows of a trace without categories, and its times."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        places = [(str(p), str(t)) for p, t in trace.threads.values_in_order()]
        device = [bool(_DEVICE.search(trace.process_names.get(p, ""))) for p, _ in places]
        named = [bool(_STREAM.search(trace.thread_names.get(pt, ""))) for pt in places]
        on_device = np.array([d and n for d, n in zip(device, named, strict=True)], dtype=bool)
        self.is_device = bool(on_device.any()) and bool(on_device[trace.plain["thread"]].any())
        self.chosen = on_device[trace.plain["thread"]] if self.is_device else self._host()
        self.processes = [trace.process_names.get(p, p) for p, _ in places]
        self.streams = [trace.thread_names.get(pt, pt[1]) for pt in places]

    def _host(self) -> Bools:
        """Of a host's events the ones that are XLA's ops, where there are any."""
        ops = [bool(op) for op, _, _ in self.trace.scopes.values_in_order()]
        xla = np.array([*ops, False], dtype=bool)[self.trace.plain["scope"]]
        return xla if xla.any() else np.ones(len(xla), dtype=bool)

    def rows(self) -> pl.DataFrame:
        """One row per (name, op, stream); kinds by name on a device, op on a host."""
        table, plain = self._table(), self.trace
        recorded = plain.scopes.values_in_order()
        keys = ["name", "scope", "thread"]
        grouped = table.group_by(keys, maintain_order=True).agg(
            pl.len().alias("calls"),
            (pl.col("own").sum() * _US).alias("time_s"),
            (pl.col("idle").sum() * _US).alias("idle_before_s"),
        )
        rows = grouped.select(
            text_of("name", plain.names.values_in_order()).alias("name"),
            text_of("scope", [tf or op or None for op, _, tf in recorded]).alias("op"),
            text_of("scope", [m or None for _, m, _ in recorded]).alias("label.hlo_module"),
            text_of("scope", [op or None for op, _, _ in recorded]).alias("label.hlo_op"),
            text_of("thread", self.streams).alias("stream"),
            text_of("thread", self.processes).alias("label.process"),
            pl.col("calls", "time_s"),
            (pl.col("idle_before_s") if self.is_device else pl.lit(None, pl.Float64)).alias(
                "idle_before_s"
            ),
            pl.lit("measured").alias("origin.time"),
        )
        return rows.with_columns(self._kind().alias("kind"))

    def _kind(self) -> pl.Expr:
        if not self.is_device:
            return pl.lit("op")
        name = pl.col("name")
        return (
            pl.when(name.str.contains(_MEMSET))
            .then(pl.lit("memset"))
            .when(name.str.contains(_COPY))
            .then(pl.lit("copy"))
            .when(name.str.contains(_COLLECTIVE))
            .then(pl.lit("collective"))
            .otherwise(pl.lit("kernel"))
        )

    def _table(self) -> pl.DataFrame:
        plain = self.trace.plain
        rows = np.flatnonzero(self.chosen)
        thread, start, end = (plain[c][rows] for c in ("thread", "start", "end"))
        own = end - start
        if not self.is_device:
            own = self_times(np.lexsort((-end, start, thread)), thread, start, end)
        order = np.argsort(start, kind="stable")
        idle = np.zeros(len(rows))
        process = np.unique(np.array(self.processes))
        for one in process.tolist():
            mine = order[np.array([p == one for p in self.processes])[thread[order]]]
            idle[mine] = gaps(start[mine], end[mine]).length
        return pl.DataFrame(
            {"name": plain["name"][rows], "scope": plain["scope"][rows],
             "thread": thread, "own": own, "idle": idle}
        )  # fmt: skip

    def times(self) -> tuple[float, float, int]:
        """Wall and busy seconds, busy on average over devices; and how many devices there are."""
        plain = self.trace.plain
        start, end = plain["start"][self.chosen], plain["end"][self.chosen]
        wall_us = float(end.max() - start.min())
        if not self.is_device:
            return wall_us * _US, Union(start, end).length * _US, 1
        owner = np.array(self.processes)[plain["thread"][self.chosen]]
        devices = np.unique(owner).tolist()
        busy = [Union(start[owner == d], end[owner == d]).length for d in devices]
        return wall_us * _US, sum(busy) / len(busy) * _US, len(devices)
