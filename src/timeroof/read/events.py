"""From single events on devices to a profile: rows with totals, busy and idle time, a timeline.

Every reader whose file has timestamps (Nsight Systems, rocprofv3, rocpd, xplane) brings its
events into one table and ends here. Columns of that table:

* ``kind``, ``name``, ``start_ns``, ``end_ns``: always;
* ``self_ns``: where events nest, the time of each without those inside it;
* ``gpu``: which device of the machine an event ran on; ``stream``: its queue there;
* ``launch_start_ns``, ``launch_end_ns``, ``process``, ``in_graph``: see `idle`;
* ``launches``, other fields of a row, amounts, ``label.*`` and ``origin.*``: where known;
* ``call``: the number of the recorded call behind the event, see `Whole`; ``call_times``: how much
  of such a call the event is, where several kernels share one;
* ``sum.*``: numbers that are summed over a row's events and kept as a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import polars as pl

from timeroof.core.errors import Note
from timeroof.core.profile import LABEL, ORIGIN, TIMELINE_COLUMNS, Profile, Source, amount_columns
from timeroof.machines.catalogue import fitting_machine, inferred_machine, machine_of_device
from timeroof.model.bounds import own_times, tier_of
from timeroof.model.stats import spread_of
from timeroof.read.idle import cause_texts, idle_parts, seconds_by_cause, with_idle
from timeroof.work.call import Call
from timeroof.work.recorded import RecordedCall

TIMELINE_EVENTS = 20_000
NS = 1e9
SUM = "sum."
_TIMES = "call_times"
# More of anything than one event can use.
MAX_AMOUNT = 1e24

_FIELDS = (
    "kind", "name", "short_name", "op", "shape", "dtype", "module", "phase", "device", "call",
)  # fmt: skip
_PLACES = ("stream", "rank")
# Of tables that have no single events.
SUMMARY = Note("A summary by kernel name: no timestamps, so idle time is unknown.", "no-timestamps")
NO_LAUNCHES = Note(
    "No launch of a kernel is in the file: causes of idle time are unknown.", "no-launches"
)
# Kernels that move data between devices. Communication has many homes: NCCL and RCCL, DeepEP's
# "internode" kernels, the multicast and custom all-reduces of PyTorch, vLLM, SGLang, AITER and
# TensorRT-LLM, Transformer Engine's user buffers. Any kernel that is called after a collective is
# one, but for those that a compiler fused from ops beside it, or a product with one.
COLLECTIVE = (
    r"(?i)(?:^|[^a-z])(?:nccl|rccl|hccl|msccl|oneccl|nvshmem|rocshmem)|multimem_"
    r"|(?:one|two)_shot_all_reduce|cross_device_reduce|(?:inter|intra)node(?:_ll)?::|deep_ep::"
    r"|^hcom_|Ep(?:Dispatch|Combine)(?:Inter|Intra)Node|(?:^|[^a-z])userbuffers_"
    r"|^[^<(]*(?:all[-_]?(?:reduce|gather|to[-_]?all)|reduce[-_]?scatter"
    r"|collective-(?:permute|broadcast)|async-collective)"
)
BESIDE_COLLECTIVE = r"(?i)^triton_(?:poi|red|per|for|tem)_|^[^<(]*(?:gemm|matmul)"


@dataclass(frozen=True)
class Whole:
    """What a source knows beside its events."""

    source: Source
    # Where no event has one.
    device: str | None = None
    notes: tuple[str, ...] = ()
    # False for runs under counters: the profiler serialised them, so gaps mean nothing.
    has_gaps: bool = True
    # When the host waited for the devices and fetched data: `idle.host_spans`.
    host: pl.DataFrame | None = None
    # The calls that the column `call` of events numbers.
    calls: Sequence[Call] = ()
    extra: dict[str, object] = field(default_factory=dict)


def profile_of(events: pl.DataFrame, whole: Whole) -> Profile:
    """The profile of a table of events."""
    events, notes = checked(events)
    events = _named_streams(events)
    device, unnamed = one_device(events["device"].unique().to_list() or [])
    device, unnamed = (whole.device, []) if whole.device else (device, unnamed)
    notes = [*whole.notes, *unnamed, *notes]
    if not whole.has_gaps:
        rows, calls = _with_calls(rows_of(events), whole.calls)
        extra = whole.extra | {"notes": tuple(notes), "calls": calls}
        return Profile.of(rows, whole.source, device=device, **extra)
    events = with_exclusive(with_idle(events, whole.host))
    rows, gpus = rows_of(events), _gpus(events)
    timeline, cut = _timeline(events, rows)
    rows, calls = _with_calls(rows, whole.calls)
    wall_s, busy_s = _wall_and_busy(events)
    gaps = events["idle_ns"].to_numpy()
    causes = seconds_by_cause(gaps, idle_parts(events), 1 / NS, gpus, wall_s - busy_s)
    extra = whole.extra | {"notes": (*notes, *devices_note(gpus), *cut), "calls": calls}
    extra |= {"wall_s": wall_s, "kernel_s": busy_s, "idle_by_cause": causes, "timeline": timeline}
    return Profile.of(rows, whole.source, device=device, **extra)


def _with_calls(
    rows: pl.DataFrame, calls: Sequence[Call]
) -> tuple[pl.DataFrame, dict[int, RecordedCall]]:
    """Rows without the numbers of their calls, and the calls by the ids of rows."""
    if "call" not in rows.columns:
        return rows, {}
    if _TIMES not in rows.columns:
        rows = rows.with_columns(pl.lit(None, pl.Float64).alias(_TIMES))
    numbered = rows.select("id", "call", _TIMES).drop_nulls("call").iter_rows()
    found = {row: RecordedCall(calls[code], times) for row, code, times in numbered}
    return rows.drop("call", _TIMES), found


def one_device(names: Iterable[str | None]) -> tuple[str | None, list[Note]]:
    """The one name among those of devices, and a note where there is none or more than one."""
    known = sorted({name for name in names if name})
    if len(known) == 1:
        return known[0], []
    if known:
        text = f"Kernels ran on different devices: {', '.join(known)}."
        return None, [Note(text, "several-devices")]
    return None, [Note("The file names no device: name it with --machine.", "no-device")]


def fitting_device(
    name: str | None, capability: str | None, memory_bytes: float | None, cores: int | None
) -> tuple[str | None, list[Note]]:
    """The device that properties tell where its name tells none, and a note that says so."""
    known = name is not None and (machine_of_device(name) or inferred_machine(name))
    machine = fitting_machine(capability, memory_bytes, cores) if capability else None
    if known or machine is None or capability is None:
        return name, []
    chip = capability if capability.startswith("gfx") else f"compute capability {capability}"
    facts = [chip, *([f"{memory_bytes / 2**30:.0f} GiB"] if memory_bytes else [])]
    facts += [f"{cores} cores"] if cores else []
    said = f"calls its device {name!r}" if name else "names no device"
    like = f"{machine.name}, the fastest GPU with {', '.join(facts)}"
    text = f"The file {said}: it is compared with {like}. --machine names another."
    return machine.device_names[0], [Note(text, "inferred-machine", "warning")]


def kernel_kind(name: str = "name") -> pl.Expr:
    """Kind of a kernel by its name: those of the collective libraries move data."""
    talks = pl.col(name).str.contains(COLLECTIVE) & ~pl.col(name).str.contains(BESIDE_COLLECTIVE)
    return pl.when(talks).then(pl.lit("collective")).otherwise(pl.lit("kernel")).alias("kind")


# From and to which memory a copy goes, as CUPTI, ROCm, Level Zero and XLA call it: A is an array
# on the device, M the host's memory.
COPY_OVER = (
    r"[HM](?:to|2)[DA]|[DA](?:to|2)[HM]"
    r"|(?i:host[ _-]?to[ _-]?device|device[ _-]?to[ _-]?host)"
)
COPY_WITHIN = r"[DA](?:to|2)[DA]|(?i:device[ _-]?to[ _-]?device)"
COPY_PEER = r"P(?:to|2)P|(?i:peer[ _-]?to[ _-]?peer)"
COPY_OF_HOST = r"[HM](?:to|2)[HM]|(?i:host[ _-]?to[ _-]?host)"


def copy_bytes(size: pl.Expr, name: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Bytes of a copy over PCI Express and in a device's memory, by its name.

    A copy within a device reads and writes its memory, one that enters or leaves does one of both.
    A name that does not tell which leaves both unknown, and which link joins peers nobody says;
    a memset only writes.
    """
    over, within = name.str.contains(COPY_OVER), name.str.contains(COPY_WITHIN)
    peer, host = name.str.contains(COPY_PEER), name.str.contains(COPY_OF_HOST)
    sets = name.str.contains(r"(?i)memset|fill")
    link = pl.when(over).then(size).when(within | sets | host).then(0.0)
    once = over | peer | sets
    return link, pl.when(once).then(size).when(within).then(2 * size).when(host).then(0.0)


def checked(events: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Events that can be true, sorted by device and start, and a note on those left out."""
    if "gpu" not in events.columns:
        events = events.with_columns(pl.lit("0").alias("gpu"))
    for column in ("stream", "device"):
        if column not in events.columns:
            events = events.with_columns(pl.lit(None, pl.String).alias(column))
    times = [pl.col("start_ns").cast(pl.Float64), pl.col("end_ns").cast(pl.Float64)]
    sane = times[0].is_finite() & times[1].is_finite() & (times[1] >= times[0])
    named = pl.col("name").is_not_null() & (pl.col("start_ns") >= 0)
    good = events.filter(sane.fill_null(False) & named)
    lost = events.height - good.height
    notes: list[str] = []
    if lost:
        text = f"{lost} events without a name or with impossible times are left out."
        notes.append(Note(text, "left-out", "warning"))
    good, wrong = _known_amounts(good)
    if wrong:
        text = f"{wrong} amounts below 0 or beyond reason are taken as unknown."
        notes.append(Note(text, "impossible-amounts", "warning"))
    empty = [c for c in good.columns if c.startswith(LABEL) and good[c].null_count() == good.height]
    return good.drop(empty).sort("gpu", "start_ns", "end_ns", maintain_order=True), notes


def _known_amounts(events: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Amounts that can be true; others become unknown, and how many these are."""
    columns = amount_columns(events)
    before = sum(events[c].null_count() for c in columns)
    possible = [pl.when(pl.col(c).is_between(0, MAX_AMOUNT)).then(pl.col(c)) for c in columns]
    events = events.with_columns(p.alias(c) for p, c in zip(possible, columns, strict=True))
    return events, sum(events[c].null_count() for c in columns) - before


def with_exclusive(events: pl.DataFrame) -> pl.DataFrame:
    """Add ``exclusive_ns`` and ``alone_ns``, see `overlap`.

    A device's events that nest leave one another their own time; threads of a host are not told.
    """
    if "self_ns" in events.columns and not (events["kind"] == "op").any():
        return events.with_columns(exclusive_ns=pl.col("self_ns"), alone_ns=pl.col("self_ns"))
    if "self_ns" in events.columns or not events.height:
        return events
    first = events["start_ns"].min()
    start, end = ((events[c] - first).cast(pl.Float64).to_numpy() for c in ("start_ns", "end_ns"))
    kinds = {kind: tier_of(kind) for kind in events["kind"].unique().to_list()}
    tier = events["kind"].replace_strict(kinds, return_dtype=pl.Int64).to_numpy()
    gpu = events["gpu"].rank("dense").cast(pl.Int64).to_numpy()
    own = own_times(start, end, tier, gpu)
    return events.with_columns(exclusive_ns=pl.Series(own.exclusive), alone_ns=pl.Series(own.alone))


def rows_of(events: pl.DataFrame) -> pl.DataFrame:
    """One row per (kind, name, …, labels) with totals over its events, longest first."""
    keys = key_columns(events)
    whole = pl.col("end_ns") - pl.col("start_ns")
    duration = (pl.col("self_ns") if "self_ns" in events.columns else whole).cast(pl.Float64)
    totals = [
        pl.len().cast(pl.Float64).alias("calls"),
        duration.sum().truediv(NS).alias("time_s"),
        spread_of(duration).alias("time_spread"),
        *(known_sum(c).alias(c) for c in amount_columns(events)),
        *(one_origin(c).alias(c) for c in events.columns if c.startswith(ORIGIN)),
        *(_sum_label(c) for c in events.columns if c.startswith(SUM)),
    ]
    if "idle_ns" in events.columns:
        totals.append(pl.col("idle_ns").cast(pl.Float64).sum().truediv(NS).alias("idle_before_s"))
    if "exclusive_ns" in events.columns:
        own = pl.col("exclusive_ns", "alone_ns").sum().truediv(NS)
        totals.append(own.name.map(lambda name: f"{name.removesuffix('_ns')}_s"))
    totals += [known_sum(c).alias(c) for c in ("launches", _TIMES) if c in events.columns]
    rows = events.group_by(keys, maintain_order=True).agg(totals)
    rows = rows.sort("time_s", descending=True, maintain_order=True)
    rows = rows.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("id"))
    return rows.with_columns(pl.lit("measured").alias(f"{ORIGIN}time"))


def key_columns(events: pl.DataFrame) -> list[str]:
    """The columns that tell one row from another."""
    fixed = [c for c in (*_FIELDS, *_PLACES) if c in events.columns]
    return fixed + [c for c in events.columns if c.startswith(LABEL)]


def known_sum(column: str) -> pl.Expr:
    """A sum that is unknown as soon as one of its parts is."""
    return pl.when(pl.col(column).null_count() == 0).then(pl.col(column).sum().cast(pl.Float64))


def _sum_label(column: str) -> pl.Expr:
    total = known_sum(column).round(0).cast(pl.Int64, strict=False).cast(pl.String)
    return total.alias(LABEL + column.removeprefix(SUM))


def one_origin(column: str) -> pl.Expr:
    """The origin that all events of a row share; inferred where they do not."""
    origin = pl.col(column)
    return pl.when(origin.n_unique() == 1).then(origin.first()).otherwise(pl.lit("inferred"))


def _named_streams(events: pl.DataFrame) -> pl.DataFrame:
    """Streams of several devices carry their device's name."""
    if _gpus(events) < 2:
        return events
    stream = pl.format("{}:{}", "gpu", pl.col("stream").fill_null("?"))
    return events.with_columns(stream.alias("stream"))


def _gpus(events: pl.DataFrame) -> int:
    return events["gpu"].n_unique()


def _wall_and_busy(events: pl.DataFrame) -> tuple[float, float]:
    """Seconds from the first event to the last end; mean over devices of their busy seconds."""
    if not events.height:
        return 0.0, 0.0
    wall_ns = events["end_ns"].max() - events["start_ns"].min()  # type: ignore[operator]
    per_gpu = events.group_by("gpu").agg(
        (pl.col("end_ns").max() - pl.col("start_ns").min() - pl.col("idle_ns").sum()).alias("busy")
    )
    busy_ns = per_gpu["busy"].cast(pl.Float64).mean()
    return float(wall_ns) / NS, float(busy_ns) / NS  # type: ignore[arg-type]


def _timeline(events: pl.DataFrame, rows: pl.DataFrame) -> tuple[pl.DataFrame, list[Note]]:
    """The first events in order of time, each with its row's id; a note where some are left out."""
    keys = key_columns(events)
    duration = (pl.col("end_ns") - pl.col("start_ns")).alias("duration")
    work = events.select(*keys, pl.col("start_ns").alias("start"), duration, "idle_code")
    timeline = timeline_of(work, rows.select(*keys, "id"), pl.col("stream"), NS)
    return timeline, cut_note(events.height)


def timeline_of(
    work: pl.DataFrame, ids: pl.DataFrame, stream: pl.Expr, per_second: float
) -> pl.DataFrame:
    """The first pieces of work in order of time, each with the id of its row.

    `work` has start, duration, idle_code and the columns that tell rows apart, which `ids` has
    beside the id of each row.
    """
    keys = [column for column in ids.columns if column != "id"]
    window = work.sort("start", maintain_order=True).head(TIMELINE_EVENTS)
    joined = window.join(ids, on=keys, how="left", nulls_equal=True, maintain_order="left")
    since = pl.col("start") - window["start"].min()
    return joined.select(
        (since.cast(pl.Float64) / per_second).alias("start_s"),
        (pl.col("duration").cast(pl.Float64) / per_second).alias("duration_s"),
        stream.cast(pl.String).alias("stream"),
        pl.col("id").cast(pl.Int64).alias("kernel"),
        cause_texts("idle_code").alias("idle_cause"),
    ).cast(dict(TIMELINE_COLUMNS))  # type: ignore[arg-type]


def cut_note(events: int) -> list[Note]:
    """That a timeline does not show all."""
    text = f"The timeline shows the first {TIMELINE_EVENTS} of {events} events."
    return [Note(text, "timeline-cut")] if events > TIMELINE_EVENTS else []


def devices_note(devices: int) -> list[Note]:
    """What numbers mean where several devices worked."""
    text = f"{devices} devices: row times are summed; wall, busy and idle times are per device."
    return [Note(text, "several-devices")] if devices > 1 else []


# Launches of kernels, one row each, and how they become the rows of a profile. Every reader of
# counters ends here: a table with `name`, `time_s` and amounts per launch becomes one row per
# kernel, with exact totals, its calls and the single times.
# Single times are kept where they are few enough to be looked at.
MAX_SAMPLES = 1000

# What makes launches one row, beside the kernel's name.
ROW_KEYS = ("kind", "name", "op", "shape", "dtype", "module", "phase", "rank", "device")


def rows_of_launches(launches: pl.DataFrame) -> pl.DataFrame:
    """One row per kernel: totals over its launches, unknown where one launch is unknown.

    A stream or label stays where all launches of the kernel agree on it.
    """
    keys = [k for k in ROW_KEYS if k in launches.columns]
    agreed = [c for c in launches.columns if c == "stream" or c.startswith((LABEL, ORIGIN))]
    amounts = [*amount_columns(launches), *(c for c in ("idle_before_s",) if c in launches.columns)]
    calls = pl.col("calls").sum() if "calls" in launches.columns else pl.len()
    time = pl.col("time_s")
    # Sums and averages over launches say nothing of how single ones differ.
    single = pl.col("calls").max() <= 1 if "calls" in launches.columns else pl.lit(True)
    few = single & (pl.len() > 1) & (pl.len() <= MAX_SAMPLES) & (time.null_count() == 0)
    ones = [pl.when(pl.col(c).n_unique() == 1).then(pl.col(c).first()).alias(c) for c in agreed]
    totals = [
        calls.cast(pl.Float64).alias("calls"),
        known_sum("time_s").alias("time_s"),
        pl.when(single).then(spread_of(time)).alias("time_spread"),
        pl.when(few).then(time.implode()).alias("samples"),
        *(known_sum(c).alias(c) for c in amounts),
    ]
    return launches.lazy().group_by(keys, maintain_order=True).agg(*totals, *ones).collect()


def drop_impossible(launches: pl.DataFrame) -> tuple[pl.DataFrame, list[Note]]:
    """Launches without those whose time is below 0 or no number, and a note that says so."""
    time = pl.col("time_s")
    possible = launches.filter(time.is_null() | (time.is_finite() & (time >= 0)))
    gone = launches.height - possible.height
    text = f"{gone} of {launches.height} launches have no possible time and are left out."
    return _known_amounts(possible)[0], [Note(text, "left-out", "warning")] if gone else []


def shown_list(names: Sequence[str], most: int = 5) -> str:
    """A few names of many, for a message.

    >>> shown_list(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    shown = ", ".join(name if len(name) <= 80 else name[:77] + "..." for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
