"""Rows of traces without Kineto's device work, every second in one row.

Kineto's own have ops on the host. Others are XLA's (JAX, TensorFlow), and any with complete
events: XLA names its processes, ``/device:GPU:0`` has a thread per stream, and further threads
that tell the same time again by module or by op; ``/host:CPU`` runs thunks with an ``hlo_op``.
A trace that says nothing of the kind is a host's, and its time is self time.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from timeroof.core.errors import Note
from timeroof.core.profile import Profile, Source
from timeroof.core.vocabulary import IdleCause
from timeroof.read.events import COPY_OVER, COPY_WITHIN, Whole, kernel_kind, profile_of
from timeroof.read.idle import Bools, Floats, Ints, Union
from timeroof.read.torch.contexts import DATA, PHASE_NAMES, Contexts, module_paths, walk
from timeroof.read.torch.events import Signature
from timeroof.read.torch.links import op_phases
from timeroof.read.torch.rows import (
    recorded_calls,
    shape_of,
    signature_labels,
    signatures_of,
    spread_and_samples,
    text_of,
)  # fmt: skip
from timeroof.read.torch.tables import ANNOTATION, NONE, OP, Codes, Trace
from timeroof.work.recorded import RecordedCall

_US = 1e-6
_KEY = ["name", "signature", "module", "phase", "stream", "children", "collective"]


def self_times(order: Ints, thread: Ints, start: Floats, end: Floats) -> Floats:
    """Time of each op less the time of ops inside it; they sum to the time in any op.

    At every moment the op that started last and has not ended owns the time, so that
    even ops that overlap without nesting share no second.
    """
    own = [0.0] * len(start)
    starts, ends, threads = start.tolist(), end.tolist(), thread.tolist()
    stack: list[int] = []
    now, current = 0.0, NONE
    for row in order.tolist():
        if threads[row] != current:
            now = _unwind(stack, ends, own, now, float("inf"))
            current = threads[row]
        else:
            now = _unwind(stack, ends, own, now, starts[row])
        if stack:
            own[stack[-1]] += max(starts[row] - now, 0.0)
        now = max(now, starts[row]) if stack else starts[row]
        stack.append(row)
    _unwind(stack, ends, own, now, float("inf"))
    return np.array(own)


def _unwind(
    stack: list[int], ends: list[float], own: list[float], now: float, until: float
) -> float:
    """End the ops that end before a time; each owns the time since the last event."""
    while stack and ends[stack[-1]] <= until:
        row = stack.pop()
        own[row] += max(ends[row] - now, 0.0)
        now = max(now, ends[row])
    return now


def host_rows(trace: Trace) -> tuple[pl.DataFrame, Contexts, dict[int, RecordedCall]]:
    """One row per (op, shape, module, phase, thread): kind op, time its own; and their calls."""
    contexts = walk(trace, np.empty(0, np.int64))
    frames = trace.frames
    rows = np.flatnonzero(frames["kind"] == OP)
    thread, start, end = frames["thread"][rows], frames["start"][rows], frames["end"][rows]
    own = self_times(np.lexsort((-end, start, thread)), thread, start, end)
    children, texts = _children(trace, contexts)
    columns = {c: frames[c][rows] for c in ("name", "signature", "collective")}
    columns |= {"module": contexts.module[rows], "phase": op_phases(contexts, rows)}
    columns |= {"stream": thread, "children": children[rows], "own": own}
    grouped = _grouped(pl.DataFrame(columns))
    recorded = signatures_of(trace.signatures)
    asked = grouped.select(
        "id", "name", "signature", pl.lit(None, pl.Float64).alias("times"),
        pl.lit(None, pl.Int64).alias("launched"), pl.col("children").is_not_null(),
        pl.lit(None, pl.Int64).alias("kernel"), pl.lit(0, pl.Int64).alias("layouts"),
        pl.lit(0, pl.Int64).alias("gradient"),
    )  # fmt: skip
    calls = recorded_calls(trace, recorded, asked)
    return _shown(trace, contexts, grouped, texts, recorded), contexts, calls


def _children(trace: Trace, contexts: Contexts) -> tuple[Ints, list[str]]:
    """Per frame a code of the names of the ops right below it, so that none counts twice."""
    names, kind = trace.frames["name"], trace.frames["kind"]
    parent = contexts.parent[:-1]
    # A frame between two ops (an annotation, a module) does not part them.
    for _ in range(8):
        passing = (parent >= 0) & (np.append(kind, OP)[parent] != OP)
        if not passing.any():
            break
        parent = np.where(passing, contexts.parent[parent], parent)
    ops = (kind == OP) & (parent >= 0)
    below = pl.DataFrame({"parent": parent[ops], "name": names[ops]})
    below = below.group_by("parent").agg(pl.col("name").unique().sort())
    codes, found = Codes(), np.full(len(parent), NONE, np.int64)
    all_names = trace.names.values_in_order()
    for row, listed in below.iter_rows():
        found[row] = codes[tuple(listed)]
    return found, [" ".join(sorted(all_names[n] for n in c)) for c in codes.values_in_order()]


def _grouped(table: pl.DataFrame) -> pl.DataFrame:
    own = pl.col("own")
    coded = [c for c in _KEY if c != "phase"]
    return (
        table.with_columns(pl.when(pl.col(c) >= 0).then(pl.col(c)).alias(c) for c in coded)
        .group_by(_KEY, maintain_order=True)
        .agg(pl.len().alias("calls"), (own.sum() * _US).alias("time_s"), *spread_and_samples("own"))
        .sort("time_s", descending=True, maintain_order=True)
        .with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("id"))
    )


def _shown(
    trace: Trace,
    contexts: Contexts,
    grouped: pl.DataFrame,
    children: list[str],
    recorded: list[Signature],
) -> pl.DataFrame:
    names = trace.names.values_in_order()
    return grouped.select(
        "id",
        pl.lit("op").alias("kind"),
        text_of("name", names).alias("name"),
        text_of("name", names).alias("op"),
        text_of("phase", PHASE_NAMES).alias("phase"),
        text_of("module", module_paths(contexts.modules)).alias("module"),
        shape_of(recorded),
        text_of("signature", [s.dtype for s in recorded]).alias("dtype"),
        text_of("stream", [t for _, t in trace.threads.values_in_order()]).alias("stream"),
        pl.col("calls", "time_s", "time_spread", "samples"),
        pl.col("calls").cast(pl.String).alias("label.op_calls"),
        text_of("children", children).alias("label.child_ops"),
        *signature_labels(recorded),
        pl.lit("measured").alias("origin.time"),
    )


def host_times(trace: Trace, contexts: Contexts) -> tuple[float, float, dict[str, float]]:
    """Wall time, time in any op, and the time outside of ops by cause; in seconds."""
    frames = trace.frames
    ops = frames["kind"] == OP
    busy = Union(frames["start"][ops], frames["end"][ops])
    wall_us = float(frames["end"][ops].max() - frames["start"][ops].min())
    loads = (contexts.phase[:-1] == DATA) & (frames["kind"] == ANNOTATION)
    loading = Union(frames["start"][loads], frames["end"][loads])
    gap_start, gap_end = busy.end[:-1], busy.start[1:]
    data_us = float(loading.overlap(gap_start, gap_end).sum())
    idle_us = wall_us - busy.length
    # A trace of ops does not tell Python from sleeping.
    causes = {IdleCause.UNKNOWN: (idle_us - data_us) * _US, IdleCause.DATA: data_us * _US}
    return wall_us * _US, busy.length * _US, {c.value: s for c, s in causes.items() if s > 0}


HOST_ROWS = Note("No device events: rows are events of the host, by self time.", "host-rows")
DISPATCH_ROWS = Note(
    "The program ran on a GPU, but the file has no kernels: rows are host time of ops, without"
    " FLOPs and bytes. Record again with activities CPU and CUDA.",
    "host-rows",
    "warning",
)
# What only programs of a GPU call or mark; a profiler synchronises devices that nobody uses, too.
_OF_DEVICE = re.compile(
    r"cu(da)?(Graph)?Launch|hip\w*Launch|(cuda|hip)Memcpy\w*Async|nccl:"
    r"|aten::(record_stream|cudnn_|miopen_)"
)


def drives_device(trace: Trace) -> bool:
    """Whether a trace of ops is of a program that ran on a device: its ops only issue work."""
    return any(_OF_DEVICE.match(name) for name in trace.names.values_in_order())


# Chrome traces of other tools.
_DEVICE = re.compile(r"/device:(GPU|TPU|XLA_GPU|ROCM|CUSTOM)|^GPU\s*\d|^TPU:\d", re.IGNORECASE)
_STREAM = re.compile(r"^stream|^queue", re.IGNORECASE)
# TensorFlow 1 has a process per queue, and one of all streams; a device's own is what issued them.
_QUEUE = re.compile(r"^.*(/device:\w+:\d+)/(stream:\w+|memcpy)\b")
# The process in which rocprof has the copies of all devices.
_ROCPROF_COPIES = "COPY"
# What a TPU runs; of a GPU a viewer derives these from the streams, which hold the same time.
_XLA_OPS = "XLA Ops"
_COPY, _MEMSET = rf"(?i:memcpy)|^Copy(?:{COPY_OVER}|{COPY_WITHIN})", r"(?i)memset|^FillBuffer"


def plain_profile(trace: Trace, source: Source) -> Profile:
    """The profile of a trace without categories: of its device's streams, else of its host."""
    places = [(str(p), str(t)) for p, t in trace.threads.values_in_order()]
    named = [
        (trace.process_names.get(p, ""), trace.thread_names.get((p, t), "")) for p, t in places
    ]
    streams = _on_devices(named)
    on_device = np.array([place in streams for place in named], dtype=bool)[trace.plain["thread"]]
    if on_device.any():
        events = _plain_events(trace, on_device, places, _device_kind())
        if any(thread == _XLA_OPS for _, thread in streams):
            # Loops hold the ops that they run.
            events = events.with_columns(_self_ns(trace, on_device))
        return profile_of(events, Whole(source))
    # Of a host's events the ones that are XLA's ops, where there are any.
    ops = [bool(op) for op, _, _ in trace.scopes.values_in_order()]
    xla = np.array([*ops, False], dtype=bool)[trace.plain["scope"]]
    chosen = xla if xla.any() else np.ones(len(xla), dtype=bool)
    start, end = trace.plain["start"][chosen], trace.plain["end"][chosen]
    events = _plain_events(trace, chosen, places, pl.lit("op"))
    busy_s = Union(start, end).length * _US
    seconds = {"wall_s": float(end.max() - start.min()) * _US, "kernel_s": busy_s}
    whole = Whole(source, None, (HOST_ROWS,), has_gaps=False, extra=dict(seconds))
    return profile_of(events.with_columns(_self_ns(trace, chosen)), whole)


def _self_ns(trace: Trace, chosen: Bools) -> pl.Series:
    """The time of events without those inside them, thread by thread."""
    thread, start, end = (trace.plain[c][chosen] for c in ("thread", "start", "end"))
    own = self_times(np.lexsort((-end, start, thread)), thread, start, end)
    return pl.Series("self_ns", own * 1e3)


def _on_devices(named: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """The threads that are queues of a device, of (process, thread) by their names."""
    devices = [place for place in named if _DEVICE.search(place[0])]
    processes = {process for process, _ in devices if _QUEUE.match(process)}
    if processes:
        apart = {process for process in processes if "/stream:all" not in process}
        chosen = apart if any("/stream:" in process for process in apart) else processes
        return {place for place in devices if place[0] in chosen}
    told = {process for process, thread in devices if thread}
    queues = {place for place in devices if _STREAM.search(place[1]) or place[0] not in told}
    has_queues = {process for process, _ in queues}
    queues |= {place for place in devices if place[1] == _XLA_OPS and place[0] not in has_queues}
    copies = {place for place in named if place[0] == _ROCPROF_COPIES}
    return queues | copies if queues else set()


def _plain_events(
    trace: Trace, chosen: Bools, places: list[tuple[str, str]], kind: pl.Expr
) -> pl.DataFrame:
    plain, scopes = trace.plain, trace.scopes.values_in_order()
    columns = {c: plain[c][chosen] for c in ("name", "scope", "thread", "start", "end")}
    first = columns["start"].min()
    processes = [trace.process_names.get(p, p) for p, _ in places]
    device = next((process for process in processes if _DEVICE.search(process)), None)
    processes = [device or p if p == _ROCPROF_COPIES else p for p in processes]
    queues = [_QUEUE.match(p) for p in processes]
    streams = [
        queue[2] if queue else trace.thread_names.get(at, at[1])
        for queue, at in zip(queues, places, strict=True)
    ]
    processes = [queue[1] if queue else p for queue, p in zip(queues, processes, strict=True)]
    table = pl.DataFrame(columns).select(
        text_of("name", trace.names.values_in_order()).alias("name"),
        ((pl.col("start") - first) * 1e3).alias("start_ns"),
        ((pl.col("end") - first) * 1e3).alias("end_ns"),
        text_of("thread", processes).alias("gpu"),
        text_of("thread", streams).alias("stream"),
        text_of("scope", [tf or op or None for op, _, tf in scopes]).alias("op"),
        text_of("scope", [module or None for _, module, _ in scopes]).alias("label.hlo_module"),
        text_of("scope", [op or None for op, _, _ in scopes]).alias("label.hlo_op"),
        text_of("thread", processes).alias("label.process"),
    )
    return table.with_columns(kind.alias("kind"))


def _device_kind() -> pl.Expr:
    # XLA names a stream after what runs on it: Stream #22(MemcpyOther).
    only_copies = pl.col("stream").fill_null("").str.contains(r"\((?:Memcpy\w*(?:,\s*)?)+\)$")
    kind = pl.when(only_copies).then(pl.lit("copy")).otherwise(kernel_kind())
    for pattern, name in ((_COPY, "copy"), (_MEMSET, "memset")):
        kind = pl.when(pl.col("name").str.contains(pattern)).then(pl.lit(name)).otherwise(kind)
    return kind
