"""Idle time of a device: how long nothing ran before each piece of its work, and why.

Idle is a time in which no stream of the device is busy; the work that ends it bears it. So the
idle before all work of a device adds up to its window less its busy time. Every reader whose
file has timestamps asks here, with times in any unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from timeroof.core.vocabulary import IdleCause, remembered
from timeroof.model.bounds import distinct, rows_of_each

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


# By NVIDIA's "API synchronization behavior" and the notes of each call, and by HIP's reference:
# * cudaFree, cuMemFree, hipFree and their kin for host memory and arrays wait for the device;
#   those with "Async" are ordered by their stream, and allocations only order streams.
# * Copies between host and device block the host: a pageable source is staged after the stream
#   has been waited for. Copies from device to device do not (cuMemcpyDtoD, DtoA, AtoD, AtoA,
#   and those between peers), nor do memsets. Where a name does not tell the direction
#   (cudaMemcpy), the call may block; whether it did, its times say.
_COPIES = (
    "Memcpy Memcpy2D Memcpy3D MemcpyToSymbol MemcpyFromSymbol MemcpyToArray MemcpyFromArray"
    " Memcpy2DToArray Memcpy2DFromArray MemcpyHtoD MemcpyDtoH MemcpyHtoA MemcpyAtoH"
    " Memcpy2DUnaligned MemcpyParam2D MemcpyWithStream"
)
_FREES = "Free FreeHost FreeArray FreeMipmappedArray HostFree MemFree MemFreeHost ArrayDestroy"
_WAITS = frozenset(
    api + name for api in ("cuda", "cu", "hip") for name in f"{_COPIES} {_FREES}".split()
) | {"urQueueFinish", "urEventWait", "piQueueFinish", "piEventsWait"}  # Below SYCL.
# Versions of a function, and its variants for a default stream per thread.
_VARIANT = re.compile(r"(?:_(?:ptsz|ptds|spt))?(?:_v\d+)?$")
# All runtimes (CUDA, HIP, Level Zero, Ascend, …) have this word in calls that only wait.
_SYNCHRONIZE = "Synchronize"


@remembered(4096)
def waits(call: str) -> bool:
    """Whether a call of a device's API waits for the device before it returns.

    >>> [waits(c) for c in ("cudaFree_v3020", "cuMemcpyDtoH_v2", "hipEventSynchronize")]
    [True, True, True]
    >>> [waits(c) for c in ("cuMemcpyDtoD_v2", "cudaMemcpyAsync", "cudaFreeAsync")]
    [False, False, False]
    """
    name = _VARIANT.sub("", call)
    return name in _WAITS or _SYNCHRONIZE in name


# Arithmetic on intervals of time: unions, gaps, overlaps, all by column.


class Gaps(NamedTuple):
    """Before each interval (in order of start): how long nothing ran, since when, after whom."""

    length: Floats
    since: Floats
    after: Ints


def gaps(start: Floats, end: Floats) -> Gaps:
    """Gaps before intervals sorted by start; the first has none.

    >>> gaps(np.array([0.0, 1.0, 5.0]), np.array([3.0, 2.0, 6.0])).length.tolist()
    [0.0, 0.0, 2.0]
    """
    if not len(start):
        return Gaps(start, start, np.empty(0, np.int64))
    reach = np.maximum.accumulate(end)
    # The interval that reaches furthest so far: the last one that set a new maximum.
    new = np.concatenate([[True], end[1:] > reach[:-1]])
    furthest = np.maximum.accumulate(np.where(new, np.arange(len(end)), 0))
    since = np.concatenate([start[:1], reach[:-1]])
    after = np.concatenate([[0], furthest[:-1]])
    return Gaps(np.maximum(start - since, 0.0), since, after)


class Union:
    """The union of intervals, which can be asked how much of it lies before a time."""

    def __init__(self, start: Floats, end: Floats) -> None:
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        found = gaps(start, end)
        first = np.ones(len(start), dtype=np.bool_)
        first[1:] = start[1:] > found.since[1:]
        reach = np.maximum.accumulate(end) if len(end) else end
        last = np.append(first[1:], True) if len(first) else first
        self.start, self.end = start[first], reach[last]
        self._before = np.concatenate([[0.0], np.cumsum(self.end - self.start)])

    @property
    def length(self) -> float:
        """How long the union is."""
        return float(self._before[-1])

    def before(self, time: Floats) -> Floats:
        """How much of the union lies before each time.

        >>> Union(np.array([0.0, 4.0]), np.array([2.0, 6.0])).before(np.array([1.0, 5.0])).tolist()
        [1.0, 3.0]
        """
        if not len(self.start):
            return np.zeros(len(time))
        place = np.searchsorted(self.start, time, side="right")
        inside = np.minimum(time, self.end[place - 1]) - self.start[place - 1]
        return np.where(place > 0, self._before[place - 1] + inside, 0.0)

    def overlap(self, start: Floats, end: Floats) -> Floats:
        """How much of the union lies within each interval."""
        return self.before(end) - self.before(start)


_NEVER = Union(np.empty(0), np.empty(0))


# Why a device was idle. Causes are numbers in tables of millions, by their place in CAUSES.
CAUSES = list(IdleCause)
NO_CAUSE = -1
# Causes that end with the host's call.
_HOST_CAUSES = (IdleCause.LAUNCH_STARVED, IdleCause.HOST_SYNC, IdleCause.DATA)
# Work that is launched on an idle device starts so soon: until then it is being launched.
LONGEST_LAUNCH_US = 20.0
# Between two kernels of a graph a device takes a few microseconds.
LONGEST_GRAPH_GAP_US = 20.0
_CODES = {cause: code for code, cause in enumerate(CAUSES)}


class IdleParts(NamedTuple):
    """A gap's two parts: until the host had issued the work, and from then on.

    `length` is that of the second part, `later` its cause; `cause` is that of the first.
    """

    cause: Ints
    length: Floats
    later: Ints

    def larger(self, gap: Floats) -> Ints:
        """The cause of the larger part of each gap."""
        return np.where(self.length > 0.5 * gap, self.later, self.cause)


@dataclass
class Host:
    """What the host did while a device idled: its waits for devices, data loading, profiling.

    Waits are sorted by their ends. `microsecond` is one in the unit of all times: so far the
    clocks of host and device may be apart, and older traces round.
    """

    wait_start: Floats = field(default_factory=lambda: np.empty(0))
    wait_end: Floats = field(default_factory=lambda: np.empty(0))
    data: Union = _NEVER
    profiler: Union = _NEVER
    microsecond: float = 1.0

    def causes(
        self, before: Gaps, until: Floats, issue: Issue, same_stream: Bools, graphs: Graphs
    ) -> IdleParts:
        """The causes of each gap, which ends with work that the host issued.

        The host's part ends with its call: where the work starts much later, that is the device's
        own time, or another stream's. Beside the kernels of a replayed graph nobody issues
        anything: a longer gap there is work that was not recorded, and so is one after the launch
        of a graph of which no kernel was recorded.
        """
        length, since = before.length, before.since
        queued = issue.at <= since
        host_until = np.clip(np.where(np.isnan(issue.done), until, issue.done), since, until)
        half = 0.5 * (host_until - since)
        device = np.where(same_stream, _CODES[IdleCause.DEVICE], _CODES[IdleCause.OTHER_STREAM])
        long = length > LONGEST_GRAPH_GAP_US * self.microsecond
        silent = ((graphs.beside & queued) | graphs.unseen) & long
        rule: list[tuple[Bools, IdleCause]] = [
            (self.profiler.overlap(since, until) > 0.5 * length, IdleCause.PROFILER),
            (np.isnan(issue.at) | silent, IdleCause.UNKNOWN),
            (queued & same_stream, IdleCause.DEVICE),
            (queued, IdleCause.OTHER_STREAM),
            (self.data.overlap(since, host_until) > half, IdleCause.DATA),
            (self._drained(since, issue.at), IdleCause.HOST_SYNC),
        ]
        cause = np.select(
            [length <= 0, *(holds for holds, _ in rule)],
            [NO_CAUSE, *(_CODES[cause] for _, cause in rule)],
            _CODES[IdleCause.LAUNCH_STARVED],
        )
        by_host = np.isin(cause, [_CODES[c] for c in _HOST_CAUSES])
        later = until - host_until
        late = by_host & (later > LONGEST_LAUNCH_US * self.microsecond)
        return IdleParts(cause, np.where(late, later, 0.0), device)

    def _drained(self, since: Floats, issued: Floats) -> Bools:
        """Whether the host waited for the device to become idle before it launched again."""
        if not len(self.wait_end):
            return np.zeros(len(since), dtype=bool)
        place = np.searchsorted(self.wait_end, since - self.microsecond)
        inside = place < len(self.wait_end)
        place = np.minimum(place, len(self.wait_end) - 1)
        waited = self.wait_start[place] <= since + self.microsecond
        returned = self.wait_end[place] <= issued + self.microsecond
        return np.asarray(inside & waited & returned, dtype=np.bool_)


class Graphs(NamedTuple):
    """Of each gap: whether a replayed graph's kernel is beside it, and whether one was launched
    whose kernels nobody recorded.
    """

    beside: Bools
    unseen: Bools


class Unseen:
    """Times at which graphs were launched of which no kernel was recorded."""

    def __init__(self, launched: Floats) -> None:
        self._launched = np.sort(launched)

    def between(self, earlier: Floats, later: Floats) -> Bools:
        """Whether one was launched between two other launches; unknown times are between none."""
        first, last = (np.searchsorted(self._launched, at) for at in (earlier, later))
        known = np.isfinite(earlier) & np.isfinite(later)
        return np.asarray(known & (last > first), dtype=np.bool_)


class Issue(NamedTuple):
    """When the host issued each piece of work: from when it may run, and when the call was over."""

    at: Floats
    done: Floats


def issued_at(
    launched: Floats, returned: Floats, start: Floats, end: Floats, replayed: Bools
) -> Issue:
    """When the host issued work: at the end of the call, or when the work began.

    Calls that last until the work is done, and replays of graphs, count from their start.
    """
    blocking = (returned > end) | replayed
    done = np.minimum(returned, start)
    return Issue(np.where(blocking, launched, done), done)


def seconds_by_cause(
    gap: Floats, parts: IdleParts, unit_s: float, devices: int, whole_idle_s: float
) -> dict[str, float]:
    """Idle seconds by cause, the mean of one device; what no gap explains is unknown.

    `gap` are the gaps before each piece of work, in the unit of `parts`; the causes sum to
    `whole_idle_s`.
    """
    idle_s = np.concatenate([gap - parts.length, parts.length]) * unit_s
    cause = np.concatenate([parts.cause, parts.later])
    totals = {
        CAUSES[code].value: float(idle_s[cause == code].sum()) / max(devices, 1)
        for code in distinct(cause[idle_s > 0]).tolist()
        if code != NO_CAUSE
    }
    missing = whole_idle_s - sum(totals.values())
    if missing > 1e-9:
        totals[IdleCause.UNKNOWN.value] = totals.get(IdleCause.UNKNOWN.value, 0.0) + missing
    return totals


# The same for tables of events, whose times are nanoseconds.
_SPANS = ("process", "start_ns", "end_ns", "is_wait")
NO_PROCESS = 0


def host_spans(calls: pl.DataFrame, data: pl.DataFrame | None = None) -> pl.DataFrame:
    """The calls that wait for a device, and the ranges in which the program fetches data.

    Both have process, start_ns, end_ns; calls also have name.
    """
    waiting = [name for name in calls["name"].unique().to_list() if waits(name)]
    parts = [calls.filter(pl.col("name").is_in(waiting)).with_columns(is_wait=pl.lit(True))]
    if data is not None:
        parts.append(data.with_columns(is_wait=pl.lit(False)))
    return pl.concat([part.select(_SPANS).drop_nulls() for part in parts], how="vertical_relaxed")


def link_launches(events: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Give events the host call that launched them.

    `calls` has process, correlation, thread, start_ns, end_ns, name; events have process and
    correlation. Where several calls share a correlation the first one counts.
    """
    if not calls.height:
        return events
    keys = ["process", "correlation"]
    first = calls.sort("start_ns").unique(keys, keep="first", maintain_order=True)
    launches = first.select(*keys, pl.col("thread", "start_ns", "end_ns").name.prefix("launch_"))
    return events.join(launches, on=keys, how="left", maintain_order="left")


def with_idle(events: pl.DataFrame, host: pl.DataFrame | None = None) -> pl.DataFrame:
    """Add ``idle_ns``, ``idle_code`` and the parts of `IdleParts` to events sorted by start."""
    none, idle = np.full(events.height, NO_CAUSE), np.zeros(events.height)
    parts = IdleParts(none, idle.copy(), none.copy())
    if events.height:
        _find_idle(events, host, idle, parts)
    return events.with_columns(
        idle_ns=pl.Series(idle),
        idle_code=pl.Series(parts.larger(idle)),
        idle_cause=pl.Series(parts.cause),
        idle_later_ns=pl.Series(parts.length),
        idle_later=pl.Series(parts.later),
    )


def idle_parts(events: pl.DataFrame) -> IdleParts:
    """The parts that `with_idle` found, in nanoseconds."""
    columns = ("idle_cause", "idle_later_ns", "idle_later")
    return IdleParts(*(events[c].to_numpy() for c in columns))


def _find_idle(
    events: pl.DataFrame, host: pl.DataFrame | None, idle: Floats, parts: IdleParts
) -> None:
    """Fill in the idle before each event and its parts."""
    first = events["start_ns"].min()
    start, end = _since(events, "start_ns", first), _since(events, "end_ns", first)
    replayed = np.zeros(events.height, dtype=np.bool_)
    if "in_graph" in events.columns:
        replayed = np.asarray(events["in_graph"].to_numpy(), dtype=np.bool_)
    launched, returned = (_since(events, f"launch_{at}_ns", first) for at in ("start", "end"))
    issue = issued_at(launched, returned, start, end, replayed)
    stream, gpu, process = (_codes(events, c) for c in ("stream", "gpu", "process"))
    hosts = _hosts(host, first)
    for _, rows in rows_of_each(gpu):
        before = gaps(start[rows], end[rows])
        after = rows[before.after]
        same = stream[rows] == stream[after]
        beside = replayed[rows] | replayed[after]
        idle[rows] = before.length
        for one, of in rows_of_each(process[rows]):
            at = rows[of]
            mine = Gaps(before.length[of], before.since[of], before.after[of])
            why = hosts.get(one, Host(microsecond=1e3))
            own = Issue(issue.at[at], issue.done[at])
            graphs = Graphs(beside[of], np.zeros(len(at), dtype=np.bool_))
            found = why.causes(mine, start[at], own, same[of], graphs)
            for whole, part in zip(parts, found, strict=True):
                whole[at] = part


def _since(table: pl.DataFrame, column: str, first: object) -> Floats:
    """Times as floats that lose no nanosecond: since the first event. What is unknown is NaN."""
    if column not in table.columns:
        return np.full(table.height, np.nan)
    since = (table[column] - first).cast(pl.Float64)
    return since.fill_null(float("nan")).to_numpy()


def _codes(events: pl.DataFrame, column: str) -> Ints:
    """Numbers of a column's values; those of `process` are its own."""
    if column not in events.columns:
        return np.full(events.height, NO_PROCESS)
    values = events[column]
    if column == "process":
        return values.fill_null(NO_PROCESS).to_numpy()
    return values.fill_null("?").rank("dense").cast(pl.Int64).to_numpy()


def _hosts(spans: pl.DataFrame | None, first: object) -> Mapping[int, Host]:
    """What each process did, from `host_spans`."""
    found: dict[int, Host] = {}
    for (process,), part in spans.group_by("process") if spans is not None else ():
        waits = part.filter("is_wait").sort("end_ns", maintain_order=True)
        data = part.filter(~pl.col("is_wait"))
        start, end, *loads = (
            _since(table, at, first) for table in (waits, data) for at in ("start_ns", "end_ns")
        )
        found[int(str(process))] = Host(start, end, Union(*loads), microsecond=1e3)
    return found


def cause_texts(column: str) -> pl.Expr:
    """Codes of a column as the causes that they stand for."""
    names = pl.Series([cause.value for cause in CAUSES])
    return pl.when(pl.col(column) >= 0).then(pl.lit(names).gather(pl.col(column)))
