"""Kineto and other Chrome traces: PyTorch (NVIDIA, AMD, CPU), JAX, and any complete events."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TypeGuard

import msgspec
import numpy as np
import polars as pl

from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile, Source, Steps
from timeroof.read.events import (
    cut_note,
    devices_note,
    fitting_device,
    known_sum,
    one_device,
    timeline_of,
)
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.idle import seconds_by_cause
from timeroof.read.open import Input
from timeroof.read.text import encoding_of
from timeroof.read.torch import rows as row_maker
from timeroof.read.torch.contexts import exchange
from timeroof.read.torch.host import (
    DISPATCH_ROWS,
    HOST_ROWS,
    drives_device,
    host_rows,
    host_times,
    plain_profile,
)
from timeroof.read.torch.json_stream import EventStream, Text
from timeroof.read.torch.links import BY_GRAPH, INFERRED, OUTSIDE, Idling, step_times
from timeroof.read.torch.tables import ANNOTATION, COLLECTIVE, KERNEL, OP, Trace, collect

# Steps of training as PyTorch's profiler marks them, and the timeline of one of them.
# Microseconds.
PER_SECOND = 1e6


def steps(trace: Trace, idling: Idling | None = None) -> Steps | None:
    """How many steps there are, the median time of one, and how long a device idles outside."""
    start, end = step_times(trace)
    if not len(start):
        return None
    pauses: dict[str, float] = {}
    if idling is not None:
        lengths = idling.parts.length * idling.pause / np.maximum(idling.idle, 1e-9)
        parts = idling.parts._replace(length=lengths)
        pauses = seconds_by_cause(idling.pause, parts, _US, len(idling.busy_us), 0.0)
    median_s = float(np.median(end - start)) * _US
    pause_s = sum(pauses.values()) if idling is not None else None
    return Steps(count=len(start), profiled_s=median_s, pause_s=pause_s, pause_by_cause=pauses)


def timeline(trace: Trace, table: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame | None:
    """The work that the last step launched, in order; all work where there are no steps."""
    if not table.height:
        return None
    start, end = step_times(trace)
    if len(start):
        launched = np.append(trace.launches["start"], np.nan)[table["launch"].to_numpy()]
        began = np.where(np.isfinite(launched), launched, table["start"].to_numpy())
        inside = (began >= start[-1]) & (began < end[-1])
        table = table.filter(inside) if inside.any() else table
    ids = rows.select("id", *(pl.col(f".{k}").alias(k) for k in row_maker.KEY))
    work = table.select(*row_maker.KEY, "start", "duration", pl.col("cause").alias("idle_code"))
    return timeline_of(work, ids, row_maker.stream_name(trace), PER_SECOND)


# Counters per kernel that CUPTI's range profiler wrote into a trace. Its events replay every
# kernel several times: their durations are no kernel times, and are left unknown. Instructions
# are per thread, so a fused multiply-add counts two.
_PRECISIONS = {"d": "fp64", "f": "fp32", "h": "fp16"}
_BYTES = {"dram__bytes": "byte/dram", "lts__t_bytes": "byte/l2", "l1tex__t_bytes": "byte/l1"}
_OPS = "sass_thread_inst_executed_op_"


def range_rows(ranges: list[tuple[str, str, dict[str, object]]]) -> pl.DataFrame:
    """One row per kernel name and device, with its counters as amounts; no time."""
    found = [{"name": n, "device": d, **amounts(counters)} for n, d, counters in ranges]
    table = pl.DataFrame(found, infer_schema_length=None)
    collected = [known_sum(c).alias(c) for c in table.columns if c not in ("name", "device")]
    calls = pl.len().cast(pl.Float64).alias("calls")
    rows = table.group_by("name", "device", maintain_order=True).agg(calls, *collected)
    rows = rows.with_columns(kind=pl.lit("kernel"), time_s=pl.lit(None, pl.Float64))
    return rows.with_columns(pl.lit("measured").alias("origin.flops"))


def amounts(counters: dict[str, object]) -> dict[str, float]:
    """FLOPs per precision and bytes per level that counters give; what is missing is left out.

    >>> s = "smsp__sass_thread_inst_executed_op_"
    >>> amounts({s + "fadd_pred_on.sum": 1, s + "fmul_pred_on.sum": 2, s + "ffma_pred_on.sum": 4})
    {'flop/fp32': 11.0}
    """
    values = {k: float(v) for k, v in counters.items() if isinstance(v, int | float) and v >= 0}
    found: dict[str, float] = {}
    for letter, precision in _PRECISIONS.items():
        parts = [
            next((w * v for k, v in values.items() if f"{_OPS}{letter}{what}_pred_on" in k), None)
            for what, w in (("add", 1), ("mul", 1), ("fma", 2))
        ]
        if None not in parts:
            found[f"flop/{precision}"] = sum(p for p in parts if p is not None)
    for metric, resource in _BYTES.items():
        whole = values.get(f"{metric}.sum")
        parts = [values.get(f"{metric}_{way}.sum") for way in ("read", "write")]
        if whole is not None:
            found[resource] = whole
        elif None not in parts:
            found[resource] = sum(p for p in parts if p is not None)
    return found


_US = 1e-6
_WHY = "Kernel times are unknown, because the ranges' durations include replays."
REPLAYED = Note(f"Amounts are measured in counter ranges. {_WHY}", "no-times")


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of one trace."""
    entry = found.only
    text = Text(entry, options.progress)
    stream = EventStream(text.pieces(), entry.name)
    trace = Trace()
    for events in stream:
        collect(trace, events)
    _take_marks_for_annotations(trace)
    notes = [*text.notes, *stream.notes, *trace.notes]
    if options.companions:
        from timeroof.read.torch.execution_trace import lend_shapes

        notes += lend_shapes(trace, options.companions)
    exchange(trace)
    options.progress("linking kernels to ops", 0.92)
    source = _source(found, stream.top, trace)
    profile = _profile(trace, stream.top, source)
    options.progress("read", 1.0)
    return replace(profile, notes=(*notes, *profile.notes))


# What PyTorch's profiler and its users mark. Old traces record these as ops.
_MARK = re.compile(
    r"ProfilerStep[#*]|Optimizer\.\w+#|enumerate\(DataLoader\)|DataParallel\.|## "
    r"|DistributedDataParallel\."
)


def _take_marks_for_annotations(trace: Trace) -> None:
    """A marked stretch of time is nobody's op, in whatever category it was recorded."""
    marks = np.array([*(bool(_MARK.match(n)) for n in trace.names.values_in_order()), False])
    if trace.frames.height and marks.any():
        kind = trace.frames["kind"]
        as_op = marks[trace.frames["name"]] & (kind == OP)
        trace.frames["kind"] = np.where(as_op, ANNOTATION, kind)


def _profile(trace: Trace, top: dict[str, object], source: Source) -> Profile:
    if trace.device.height:
        return _device_profile(trace, top, source)
    if trace.ranges:
        return _range_profile(trace, top, source)
    if trace.frames.height:
        return _host_profile(trace, top, source)
    if trace.plain.height:
        return plain_profile(trace, source)
    where = source.files[0].name
    advice = "record again with activities CPU and CUDA"
    raise InputError("has no event with a duration that is a kernel, copy or op", where, advice)


def _source(found: Input, top: dict[str, object], trace: Trace) -> Source:
    if not (trace.device.height or trace.frames.height or trace.ranges):
        return source_of("Chrome trace", found)
    schema = top.get("schemaVersion")
    version = f"schema {schema}" if isinstance(schema, int) else None
    source = source_of("Kineto", found, version=version)
    return msgspec.structs.replace(source, ranks=_distributed(top, "world_size"))


def _ranked(rows: pl.DataFrame, top: dict[str, object]) -> pl.DataFrame:
    return rows.with_columns(pl.lit(_distributed(top, "rank"), pl.Int64).alias("rank"))


def _distributed(top: dict[str, object], what: str) -> int | None:
    """A number of the distributed program that a trace is one rank of."""
    info = top.get("distributedInfo")
    found = info.get(what) if isinstance(info, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def device_names(top: dict[str, object], used: list[str]) -> dict[str, str]:
    """Names of devices by their number, as far as the trace says them.

    ROCm counts CPUs among its agents, so that the only GPU may be number 2: where all
    devices have one name, every number has it.
    """
    listed = top.get("deviceProperties")
    found = {}
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict) and isinstance(one.get("name"), str) and one["name"].strip():
            found[str(one.get("id"))] = one["name"].strip()
    if len(set(found.values())) == 1:
        found |= dict.fromkeys(used, next(iter(found.values())))
    return found


def named_device(top: dict[str, object], used: list[str]) -> tuple[str | None, list[Note]]:
    """The device of a trace by its name, else by what its properties fit."""
    names = device_names(top, used)
    device, notes = one_device(names.get(d) for d in used)
    if any(note.code == "several-devices" for note in notes):
        return device, notes
    listed = top.get("deviceProperties")
    facts = {_facts(one) for one in listed if isinstance(one, dict)} if _is_list(listed) else set()
    if len(facts) != 1:
        return device, notes
    found, inferred = fitting_device(device, *facts.pop())
    return (found, inferred) if inferred else (device, notes)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _facts(one: dict[str, object]) -> tuple[str | None, float | None, int | None]:
    """Architecture, memory and cores of a device.

    NVIDIA's and AMD's numbers of architectures overlap: by its name it is AMD's, or by wavefronts
    of 64 threads.
    """
    major, minor, memory, cores, warp = (
        value if isinstance(value := one.get(key), int) else None
        for key in ("computeMajor", "computeMinor", "totalGlobalMem", "numSms", "warpSize")
    )
    if major is None or minor is None:
        return None, None, None
    by_amd = warp == 64 or re.search(
        r"\b(?:amd|radeon|instinct|gfx\d+)", str(one.get("name")), re.I
    )
    capability = f"gfx{major}{minor}" if by_amd else f"{major}.{minor}"
    return capability, memory, cores


def _device_profile(trace: Trace, top: dict[str, object], source: Source) -> Profile:
    work = row_maker.device_work(trace)
    used = [str(d) for d in trace.devices.values_in_order()]
    names = device_names(top, used)
    device, notes = named_device(top, used)
    rows = row_maker.device_rows(trace, work, names, device)
    wall_us = float(trace.device["end"].max() - trace.device["start"].min())
    table = rows.select(c for c in rows.columns if not c.startswith("."))
    kept = [pl.col(f".{c}").alias(c) for c in ("op", "signature", "times", "launched")]
    more = [pl.col(f".{c}").alias(c) for c in ("name", "layouts", "gradient")]
    asked = rows.select("id", *kept, pl.lit(False).alias("children"), *more)
    idling = work.idling
    busy_us = sum(idling.busy_us.values()) / len(idling.busy_us)
    idle_s = (wall_us - busy_us) * _US
    causes = seconds_by_cause(idling.idle, idling.parts, _US, len(idling.busy_us), idle_s)
    times = {"wall_s": wall_us * _US, "kernel_s": busy_us * _US, "idle_by_cause": causes}
    return Profile.of(
        _ranked(table, top),
        source,
        device=device,
        **times,
        steps=steps(trace, idling),
        timeline=timeline(trace, work.table, rows),
        notes=(*notes, *_link_notes(trace, work)),
        calls=row_maker.recorded_calls(trace, work.signatures, asked, work.telling),
    )


def _link_notes(trace: Trace, work: row_maker.Work) -> list[Note]:
    kernels = work.table.filter(pl.col("kind").is_in([KERNEL, COLLECTIVE]))
    missing = kernels.filter(pl.col("launch") < 0).height
    link = kernels["link"]
    inferred, outside = (link == INFERRED).sum(), (link == OUTSIDE).sum()
    replayed, devices = (link == BY_GRAPH).sum(), len(work.idling.busy_us)
    of, alike = f"of {kernels.height} kernels", "kernels with the same name, grid and duration"
    lent = f"Their op and shapes were inferred from {alike}."
    said = [
        (missing, f"{missing} {of} have no launch in the trace.", "unlinked"),
        (outside, f"{outside} {of} were launched outside of any op.", "outside-ops"),
        (replayed, f"{replayed} {of} were replayed from graphs and have no op.", "graph-replay"),
        (inferred, f"{inferred} {of} have no op of their own. {lent}", "inferred-op"),
    ]
    notes = [Note(text, code) for count, text, code in said if count]
    cut = [] if steps(trace) else cut_note(work.table.height)
    return [*notes, *devices_note(devices), *cut]


def _host_profile(trace: Trace, top: dict[str, object], source: Source) -> Profile:
    rows, contexts, calls = host_rows(trace)
    if not rows.height:
        advice = "record again with activities CPU and CUDA"
        raise InputError("has annotations but no op and no kernel", source.files[0].name, advice)
    wall_s, busy_s, causes = host_times(trace, contexts)
    times = {"wall_s": wall_s, "kernel_s": busy_s, "idle_by_cause": causes, "steps": steps(trace)}
    rows = _ranked(rows, top)
    if drives_device(trace):
        # The time is that of issuing work, and none in which the work was done.
        return Profile.of(rows, source, notes=(DISPATCH_ROWS,), **times)
    return Profile.of(rows, source, notes=(HOST_ROWS,), calls=calls, **times)


def _range_profile(trace: Trace, top: dict[str, object], source: Source) -> Profile:
    rows = range_rows(trace.ranges)
    used = rows["device"].unique().to_list()
    names = device_names(top, used)
    device, notes = named_device(top, used)
    shown = pl.col("device").replace_strict(names, default=None, return_dtype=pl.String)
    return Profile.of(
        _ranked(rows.with_columns(shown), top), source, device=device, notes=(*notes, REPLAYED)
    )


def sniff(found: Input) -> bool:
    """An object with trace events, or a list of objects with a phase letter."""
    head = found.only.head
    encoding, skip = encoding_of(head)
    head = head[skip:]
    if encoding != "utf-8":
        head = head.decode(encoding, "replace").encode("utf-8", "replace")
    head = head.lstrip()
    if head[:1] == b"[":
        return b'"ph"' in head
    kineto = b'"deviceProperties"' in head and b'"schemaVersion"' in head
    return head[:1] == b"{" and (b'"traceEvents"' in head or kineto)
