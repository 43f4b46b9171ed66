"""Read a Kineto or other Chrome trace into a profile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source, SourceFile
from timeroof.read.chrome import PlainRows
from timeroof.read.format import ReadOptions
from timeroof.read.opening import Entry, Input, short_name
from timeroof.read.torch.autograd import exchange
from timeroof.read.torch.collecting import collect
from timeroof.read.torch.companions import lend_shapes
from timeroof.read.torch.cutting import EventStream
from timeroof.read.torch.host import host_rows, host_times
from timeroof.read.torch.idling import seconds_by_cause
from timeroof.read.torch.linking import BY_GRAPH, INFERRED, OUTSIDE
from timeroof.read.torch.ranges import range_rows
from timeroof.read.torch.rows import device_rows
from timeroof.read.torch.steps import MAX_TIMELINE, steps, timeline
from timeroof.read.torch.text import Text
from timeroof.read.torch.trace import COLLECTIVE, KERNEL, Trace
from timeroof.read.torch.work import Work, device_work

_US = 1e-6
_SEVERAL = "{} devices: rows sum over them; wall, busy and idle seconds are the mean of one"


def read_trace(found: Input, options: ReadOptions) -> Profile:
    """The profile of one trace; of a folder or archive with several, an error says to name one."""
    if len(found.entries) != 1:
        raise InputError(
            f"holds {len(found.entries)} files", where=found.name, advice="name one trace of it"
        )
    entry = found.only
    text = Text(entry, options.progress)
    stream = EventStream(text.pieces(), entry.name)
    trace = Trace()
    for events in stream:
        collect(trace, events)
    notes = [*text.notes, *stream.notes, *trace.notes]
    notes += lend_shapes(trace, options.companions)
    exchange(trace)
    options.progress("linking kernels to ops", 0.92)
    source = _source(entry, stream.top, trace)
    profile = _profile(trace, stream.top, source)
    options.progress("read", 1.0)
    return replace(profile, notes=(*notes, *profile.notes))


def _profile(trace: Trace, top: dict[str, Any], source: Source) -> Profile:
    if trace.device.height:
        return _device_profile(trace, top, source)
    if trace.ranges:
        return _range_profile(trace, top, source)
    if trace.frames.height:
        return _host_profile(trace, top, source)
    if trace.plain.height:
        return _plain_profile(trace, source)
    where = source.files[0].name
    raise InputError(
        "has no event with a duration that is a kernel, copy or op",
        where=where,
        advice="record again with activities CPU and CUDA",
    )


def _source(entry: Entry, top: dict[str, Any], trace: Trace) -> Source:
    kineto = trace.device.height or trace.frames.height or trace.ranges
    version = top.get("schemaVersion")
    return Source(
        tool="Kineto" if kineto else "Chrome trace",
        version=f"schema {version}" if isinstance(version, int) and kineto else None,
        files=[SourceFile(name=short_name(entry.name))],
    )


def _ranked(rows: pl.DataFrame, top: dict[str, Any]) -> pl.DataFrame:
    info = top.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    known = rank if isinstance(rank, int) and not isinstance(rank, bool) and rank >= 0 else None
    return rows.with_columns(pl.lit(known, pl.Int64).alias("rank"))


def device_names(top: dict[str, Any], used: list[str]) -> dict[str, str]:
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


def _used_device(names: dict[str, str], used: list[str]) -> tuple[str | None, list[str]]:
    """The one name of the devices that worked, and a note where there is none or more than one."""
    found = sorted({names[d] for d in used if d in names})
    if len(found) > 1:
        return None, [f"kernels ran on different devices: {', '.join(found)}"]
    if not found:
        return None, ["the trace names no device: say which with --machine"]
    return found[0], []


def _device_profile(trace: Trace, top: dict[str, Any], source: Source) -> Profile:
    work = device_work(trace)
    used = [str(d) for d in trace.devices.values_in_order()]
    names = device_names(top, used)
    device, notes = _used_device(names, used)
    rows = device_rows(trace, work, names, device)
    wall_us = float(trace.device["end"].max() - trace.device["start"].min())
    table = rows.select(c for c in rows.columns if not c.startswith("."))
    busy_us = sum(work.idling.busy_us.values()) / len(work.idling.busy_us)
    return Profile.of(
        _ranked(table, top),
        source,
        device=device,
        wall_s=wall_us * _US,
        kernel_s=busy_us * _US,
        idle_by_cause=seconds_by_cause(work.idling, wall_us),
        steps=steps(trace),
        timeline=timeline(trace, work.table, rows),
        notes=(*notes, *_link_notes(trace, work)),
    )


def _link_notes(trace: Trace, work: Work) -> list[str]:
    kernels = work.table.filter(pl.col("kind").is_in([KERNEL, COLLECTIVE]))
    missing = kernels.filter(pl.col("launch") < 0).height
    link = kernels["link"]
    inferred, outside = (link == INFERRED).sum(), (link == OUTSIDE).sum()
    replayed, devices = (link == BY_GRAPH).sum(), len(work.idling.busy_us)
    notes = []
    if missing:
        notes.append(f"{missing} of {kernels.height} kernels have no launch in the trace")
    if outside:
        notes.append(f"{outside} of {kernels.height} kernels were launched outside of any op")
    if replayed:
        notes.append(f"{replayed} kernels were replayed from graphs: they keep their own names")
    if inferred:
        notes.append(
            f"{inferred} kernels without an op of their own take op and shapes from linked"
            " kernels of the same name and grid that take about as long (label inferred)"
        )
    if devices > 1:
        notes.append(_SEVERAL.format(devices))
    if work.table.height > MAX_TIMELINE and not steps(trace):
        notes.append(f"the timeline shows the first {MAX_TIMELINE} of {work.table.height} events")
    return notes


def _host_profile(trace: Trace, top: dict[str, Any], source: Source) -> Profile:
    rows, contexts = host_rows(trace)
    if not rows.height:
        raise InputError(
            "has annotations but no op and no kernel",
            where=source.files[0].name,
            advice="record again with activities CPU and CUDA",
        )
    wall_s, busy_s, causes = host_times(trace, contexts)
    return Profile.of(
        _ranked(rows, top),
        source,
        wall_s=wall_s,
        kernel_s=busy_s,
        idle_by_cause=causes,
        steps=steps(trace),
        notes=("the trace has no device events: rows are ops on the host, by self time",),
    )


def _range_profile(trace: Trace, top: dict[str, Any], source: Source) -> Profile:
    rows = range_rows(trace.ranges)
    used = rows["device"].unique().to_list()
    names = device_names(top, used)
    device, notes = _used_device(names, used)
    shown = pl.col("device").replace_strict(names, default=None, return_dtype=pl.String)
    return Profile.of(
        _ranked(rows.with_columns(shown), top),
        source,
        device=device,
        notes=(
            *notes,
            f"{len(trace.ranges)} counter ranges: amounts are measured, kernel times are unknown,"
            " because the ranges' durations include replays",
        ),
    )


def _plain_profile(trace: Trace, source: Source) -> Profile:
    plain = PlainRows(trace)
    wall_s, busy_s, devices = plain.times()
    notes = [] if plain.is_device else ["no device events: rows are host events, by self time"]
    if devices > 1:
        notes.append(_SEVERAL.format(devices))
    return Profile.of(plain.rows(), source, wall_s=wall_s, kernel_s=busy_s, notes=tuple(notes))
