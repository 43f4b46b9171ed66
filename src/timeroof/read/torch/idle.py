"""How long a device did nothing before each piece of its work in a trace, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from timeroof.read.idle import (
    CAUSES,
    NO_CAUSE,
    Floats,
    Host,
    IdleParts,
    Ints,
    Issue,
    Union,
    gaps,
    issued_at,
    wait_of,
)
from timeroof.read.torch.contexts import DATA, Contexts
from timeroof.read.torch.links import BY_GRAPH, Links
from timeroof.read.torch.tables import ANNOTATION, Trace

_PROFILER = re.compile(r"Activity Buffer|Buffer Flush|Instrumentation|Profiler", re.IGNORECASE)


@dataclass
class Idling:
    """Per piece of device work, in microseconds: idle before, its cause, waiting, latency."""

    idle: Floats
    parts: IdleParts
    # The stream had nothing to do while other streams of the device were busy.
    stream_wait: Floats
    launch_delay: Floats
    queue_depth: Floats
    busy_us: dict[int, float]

    @property
    def cause(self) -> Ints:
        """The cause of the larger part of the idle before each."""
        return self.parts.larger(self.idle)


def idle(trace: Trace, links: Links, contexts: Contexts) -> Idling:
    """The idling of every device of a trace."""
    device, stream = trace.device["device"], trace.device["stream"]
    start, end = trace.device["start"], trace.device["end"]
    count = trace.device.height
    launched = np.append(trace.launches["start"], np.nan)[links.launch]
    returned = np.append(trace.launches["end"], np.nan)[links.launch]
    replayed = links.link == BY_GRAPH
    issue = issued_at(launched, returned, start, end, replayed)
    none = np.full(count, NO_CAUSE)
    found = Idling(
        np.zeros(count), IdleParts(none, np.zeros(count), none.copy()), np.zeros(count),
        start - launched, np.full(count, np.nan), {},
    )  # fmt: skip
    why = _host(trace, contexts)
    for one in np.unique(device).tolist():
        rows = np.flatnonzero(device == one)
        rows = rows[np.argsort(start[rows], kind="stable")]
        before = gaps(start[rows], end[rows])
        found.idle[rows] = before.length
        after = rows[before.after]
        same = stream[rows] == stream[after]
        inside = replayed[rows] & (links.launch[rows] == links.launch[after])
        mine = Issue(issue.at[rows], issue.done[rows])
        parts = why.causes(before, start[rows], mine, same, inside)
        for whole, part in zip(found.parts, parts, strict=True):
            whole[rows] = part
        busy = Union(start[rows], end[rows])
        found.busy_us[one] = busy.length
        for lane in np.unique(stream[rows]).tolist():
            here = rows[stream[rows] == lane]
            own = gaps(start[here], end[here])
            found.stream_wait[here] = np.maximum(busy.overlap(own.since, start[here]), 0.0)
            found.stream_wait[here[:1]] = 0.0
            found.queue_depth[here] = _queue_depth(launched[here], end[here])
    return found


def _queue_depth(launched: Floats, end: Floats) -> Floats:
    """How much work of the stream was launched and not done when each was launched."""
    known = np.isfinite(launched)
    order, ended = np.sort(launched[known]), np.sort(end[known])
    ahead = np.searchsorted(order, launched, side="left")
    done = np.searchsorted(ended, launched, side="right")
    return np.where(known, np.maximum(ahead - done, 0), np.nan)


def _host(trace: Trace, contexts: Contexts) -> Host:
    """The host's side of idle time."""
    names = trace.names.values_in_order()
    waiting = np.array([*(wait_of(n) is not None for n in names), False])
    rows = np.flatnonzero(waiting[trace.launches["name"]])
    rows = rows[np.argsort(trace.launches["end"][rows], kind="stable")]
    profiling = np.array([*(bool(_PROFILER.search(n)) for n in names), False])
    own = profiling[trace.overheads["name"]]
    loads = (contexts.phase[:-1] == DATA) & (trace.frames["kind"] == ANNOTATION)
    return Host(
        trace.launches["start"][rows],
        trace.launches["end"][rows],
        Union(trace.frames["start"][loads], trace.frames["end"][loads]),
        Union(trace.overheads["start"][own], trace.overheads["end"][own]),
    )


__all__ = ["CAUSES", "Idling", "idle"]
