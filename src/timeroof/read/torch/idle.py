"""How long a device did nothing before each piece of its work, and why.

Idle is a time in which no stream of the device is busy; the work that ends it bears it.
So the idle before all work of a device adds up to its window less its busy time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from timeroof.read.torch.contexts import DATA, Contexts
from timeroof.read.torch.links import BY_GRAPH, Links
from timeroof.read.torch.tables import (
    ANNOTATION,
    NONE,
    Bools,
    Floats,
    Gaps,
    Ints,
    Trace,
    Union,
    gaps,
)

NO_CAUSE, STARVED, STREAM, SYNC, DATA_WAIT, BETWEEN, PROFILER, UNKNOWN = range(-1, 7)
CAUSES = [
    # The host issued the work too late.
    "launch-starved",
    # The work was issued in time and followed work of another stream.
    "other-stream",
    # The host waited for the device, and only then issued more.
    "host-sync",
    # The host was fetching data.
    "data",
    # Issued in time, same stream: the device's own time between two kernels.
    "device",
    # The profiler was busy with itself.
    "profiler",
    # No launch was recorded.
    "unknown",
]
# Calls that return only when the device has done what was asked of it.
_BLOCKING = re.compile(
    r"(cuda|hip|cu|ze)\w*Synchronize|(cuda|hip)(Memcpy|Free|HostFree)$|hipMemcpyWithStream"
    r"|cuMemcpy(DtoH|HtoD)_v\d|zeEventHostSynchronize"
)
_PROFILER = re.compile(r"Activity Buffer|Buffer Flush|Instrumentation|Profiler", re.IGNORECASE)
# Times are rounded to microseconds in older traces.
_TOLERANCE_US = 1.0


@dataclass
class Idling:
    """Per piece of device work, in microseconds: idle before, its cause, waiting, latency."""

    idle: Floats
    cause: Ints
    # The stream had nothing to do while other streams of the device were busy.
    stream_wait: Floats
    launch_delay: Floats
    queue_depth: Floats
    busy_us: dict[int, float]
    stream_busy_us: dict[tuple[int, int], float]


def idle(trace: Trace, links: Links, contexts: Contexts) -> Idling:
    """The idling of every device of a trace."""
    device, stream = trace.device["device"], trace.device["stream"]
    start, end = trace.device["start"], trace.device["end"]
    count = trace.device.height
    launched = np.append(trace.launches["start"], np.nan)[links.launch]
    issued = _issued(trace, links, launched)
    found = Idling(
        np.zeros(count), np.full(count, NO_CAUSE), np.zeros(count),
        start - launched, np.full(count, np.nan), {}, {},
    )  # fmt: skip
    why = _Why(trace, contexts)
    for one in np.unique(device).tolist():
        rows = np.flatnonzero(device == one)
        rows = rows[np.argsort(start[rows], kind="stable")]
        before = gaps(start[rows], end[rows])
        found.idle[rows] = before.length
        same = stream[rows] == stream[rows[before.after]]
        found.cause[rows] = why.causes(before, start[rows], issued[rows], same)
        busy = Union(start[rows], end[rows])
        found.busy_us[one] = busy.length
        for lane in np.unique(stream[rows]).tolist():
            mine = rows[stream[rows] == lane]
            own = gaps(start[mine], end[mine])
            found.stream_wait[mine] = np.maximum(busy.overlap(own.since, start[mine]), 0.0)
            found.stream_wait[mine[:1]] = 0.0
            found.queue_depth[mine] = _queue_depth(launched[mine], end[mine])
            found.stream_busy_us[one, lane] = Union(start[mine], end[mine]).length
    return found


def _issued(trace: Trace, links: Links, launched: Floats) -> Floats:
    """When the host was done with issuing: at the end of the call, or when the work began.

    Calls that last until the work is done, and replays of graphs, count from their start.
    """
    returned = np.append(trace.launches["end"], np.nan)[links.launch]
    blocking = (returned > trace.device["end"]) | (links.link == BY_GRAPH)
    return np.where(blocking, launched, np.minimum(returned, trace.device["start"]))


def _queue_depth(launched: Floats, end: Floats) -> Floats:
    """How much work of the stream was launched and not done when each was launched."""
    known = np.isfinite(launched)
    order, ended = np.sort(launched[known]), np.sort(end[known])
    ahead = np.searchsorted(order, launched, side="left")
    done = np.searchsorted(ended, launched, side="right")
    return np.where(known, np.maximum(ahead - done, 0), np.nan)


class _Why:
    """The host's side of idle time."""

    def __init__(self, trace: Trace, contexts: Contexts) -> None:
        names = trace.names.values_in_order()
        blocking = np.array([*(bool(_BLOCKING.match(n)) for n in names), False])
        rows = np.flatnonzero(blocking[trace.launches["name"]])
        rows = rows[np.argsort(trace.launches["end"][rows], kind="stable")]
        self.sync_start, self.sync_end = trace.launches["start"][rows], trace.launches["end"][rows]
        profiling = np.array([*(bool(_PROFILER.search(n)) for n in names), False])
        own = profiling[trace.overheads["name"]]
        self.profiler = Union(trace.overheads["start"][own], trace.overheads["end"][own])
        loads = (contexts.phase[:-1] == DATA) & (trace.frames["kind"] == ANNOTATION)
        self.data = Union(trace.frames["start"][loads], trace.frames["end"][loads])

    def causes(self, before: Gaps, until: Floats, issued: Floats, same_stream: Bools) -> Ints:
        """The cause of each gap, which ends with work that the host issued at `issued`."""
        length, since = before.length, before.since
        queued = issued <= since
        half = 0.5 * length
        return np.select(
            [
                length <= 0,
                self.profiler.overlap(since, until) > half,
                np.isnan(issued),
                queued & same_stream,
                queued,
                self.data.overlap(since, until) > half,
                self._drained(since, issued),
            ],
            [NO_CAUSE, PROFILER, UNKNOWN, BETWEEN, STREAM, DATA_WAIT, SYNC],
            STARVED,
        )

    def _drained(self, since: Floats, issued: Floats) -> Bools:
        """Whether the host waited for the device to become idle before it launched again."""
        if not len(self.sync_end):
            return np.zeros(len(since), dtype=bool)
        place = np.searchsorted(self.sync_end, since - _TOLERANCE_US)
        inside = place < len(self.sync_end)
        place = np.minimum(place, len(self.sync_end) - 1)
        waited = self.sync_start[place] <= since + _TOLERANCE_US
        returned = self.sync_end[place] <= issued + _TOLERANCE_US
        return np.asarray(inside & waited & returned, dtype=np.bool_)


def seconds_by_cause(found: Idling, wall_us: float) -> dict[str, float]:
    """Seconds of idle by cause, on average over the devices; they sum to wall less busy time."""
    devices = max(len(found.busy_us), 1)
    totals = {
        CAUSES[c]: float(found.idle[found.cause == c].sum()) / devices / 1e6
        for c in np.unique(found.cause).tolist()
        if c != NONE
    }
    missing = wall_us / 1e6 - sum(found.busy_us.values()) / devices / 1e6 - sum(totals.values())
    if missing > 1e-9:
        totals[CAUSES[UNKNOWN]] = totals.get(CAUSES[UNKNOWN], 0.0) + missing
    return totals
