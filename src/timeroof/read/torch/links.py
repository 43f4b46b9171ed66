"""Link device work to the launch, the op, the module and the phase that it came from."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

from timeroof.model.bounds import distinct, rows_of_each
from timeroof.read import idle as idling
from timeroof.read.torch import contexts as around
from timeroof.read.torch.tables import ANNOTATION, COLLECTIVE, KERNEL, NONE, OP, Codes, Trace
from timeroof.work.parts import changes_layout, computes_gradients, gradient_of, is_beside, prepared

# How a kernel got its op, or why it has none.
NO_LINK, BY_LAUNCH, BY_ID, BY_GRAPH, INFERRED, OUTSIDE = range(6)
LINK_NAMES = ["none", "launch", "external id", "graph", "inferred", "launch outside ops"]


# A step of training as PyTorch's profiler marks it.
_TRAINING_STEP = re.compile(r"ProfilerStep#\d+")


class Links(msgspec.Struct):
    """Per piece of device work: its launch and op (rows, -1: none), and what they say of it."""

    launch: idling.Ints
    op: idling.Ints
    outer: idling.Ints
    module: idling.Ints
    phase: idling.Ints
    link: idling.Ints


def launch_rows(trace: Trace) -> idling.Ints:
    """The row of the launch of every piece of device work, by correlation number; -1: none."""
    return _lookup(trace.launches["correlation"], trace.device["correlation"])


def _lookup(keys: idling.Floats, wanted: idling.Floats) -> idling.Ints:
    """The first row that has each wanted key; NaN is found nowhere."""
    rows = np.flatnonzero(np.isfinite(keys))
    if not len(rows):
        return np.full(len(wanted), NONE, np.int64)
    rows = rows[np.argsort(keys[rows], kind="stable")]
    place = np.searchsorted(keys[rows], wanted)
    place[place == len(rows)] = 0
    return np.where(keys[rows[place]] == wanted, rows[place], NONE)


def link(trace: Trace, launch: idling.Ints, used: idling.Ints, contexts: around.Contexts) -> Links:
    """Links of all device work; `used` are the launches that were walked, in that order."""
    place = np.full(trace.launches.height + 1, NONE, np.int64)
    place[used] = np.arange(len(used))
    walked = place[launch]
    parent = np.where(walked >= 0, np.append(contexts.launch_parent, NONE)[walked], NONE)
    graph = _is_graph(trace, launch)
    by_launch = (contexts.op[parent] >= 0) & ~graph
    by_id = np.where(by_launch | graph, NONE, _by_external_id(trace))
    parent = np.where(by_id >= 0, by_id, parent)
    how = np.select(
        [graph, by_launch, by_id >= 0, launch >= 0], [BY_GRAPH, BY_LAUNCH, BY_ID, OUTSIDE], NO_LINK
    )
    # What a graph replays was recorded elsewhere: the op around the replay is not its op.
    op = np.where(graph, NONE, contexts.op[parent])
    own_module = contexts.module[parent]
    outer = np.where(op >= 0, contexts.outer[parent], NONE)
    module = np.where(own_module >= 0, own_module, _forward(trace, contexts)[parent])
    return Links(launch, op, outer, module, op_phases(contexts, parent), how)


def _is_graph(trace: Trace, launch: idling.Ints) -> idling.Bools:
    names = trace.names.values_in_order()
    replays = np.array([*("GraphLaunch" in n for n in names), False])
    name = np.append(trace.launches["name"], NONE)[launch]
    return np.asarray(replays[name], dtype=np.bool_)


def _graphs_without_kernels(trace: Trace, launch: idling.Ints) -> idling.Floats:
    """When graphs were launched of which no kernel is in the trace."""
    rows = np.arange(trace.launches.height)
    silent = _is_graph(trace, rows)
    silent[launch[launch >= 0]] = False
    return np.asarray(trace.launches["start"][silent], dtype=np.float64)


def _by_external_id(trace: Trace) -> idling.Ints:
    """The op with the same External id, unless the ids only repeat the correlation numbers."""
    ids, correlation = trace.device["external_id"], trace.device["correlation"]
    given = np.isfinite(ids)
    if not given.any() or np.mean(ids[given] == correlation[given]) > 0.5:
        return np.full(trace.device.height, NONE, np.int64)
    keys = np.where(trace.frames["kind"] == OP, trace.frames["external_id"], np.nan)
    return _lookup(keys, ids)


def op_phases(contexts: around.Contexts, parent: idling.Ints) -> idling.Ints:
    """Phases; unmarked work is forward, in training only where autograd or a module saw it."""
    phase = contexts.phase[parent]
    trains = bool(np.isin(contexts.phase, (around.BACKWARD, around.OPTIMIZER)).any())
    seen = (contexts.sequenced[parent] > 0) | (contexts.module[parent] >= 0)
    forward = seen | (not trains) | (not contexts.sequenced.any())
    unmarked = np.where(forward, around.FORWARD, around.OTHER)
    known = np.where(phase == around.UNMARKED, unmarked, phase)
    return np.where(parent < 0, around.UNMARKED, known)


def _forward(trace: Trace, contexts: around.Contexts) -> idling.Ints:
    """Per frame under the autograd engine the module of its forward op, by sequence number."""
    none = np.full(len(contexts.op), NONE, np.int64)
    engines = distinct(contexts.engine[contexts.engine >= 0])
    sequence, start = trace.frames["sequence"], trace.frames["start"]
    known = (contexts.module[:-1] >= 0) & (contexts.engine[:-1] < 0) & (sequence >= 0)
    if not len(engines) or not known.any():
        return none
    both = pl.DataFrame({"sequence": sequence, "start": start})
    made = both.with_columns(module=contexts.module[:-1]).filter(known).sort("start")
    asked = both[engines].with_columns(row=engines).sort("start")
    found = asked.join_asof(made, on="start", by="sequence", check_sortedness=False).drop_nulls()
    none[found["row"].to_numpy()] = found["module"].to_numpy()
    return np.where(contexts.engine >= 0, none[contexts.engine], NONE)


_PROFILER = re.compile(r"Activity Buffer|Buffer Flush|Instrumentation|Profiler", re.IGNORECASE)


class Idling(msgspec.Struct):
    """Per piece of device work, in microseconds: idle before, its cause, latency of its launch."""

    idle: idling.Floats
    # What of the idle is outside of all steps: a pause that no step can give back.
    pause: idling.Floats
    parts: idling.IdleParts
    launch_delay: idling.Floats
    busy_us: dict[int, float]

    @property
    def cause(self) -> idling.Ints:
        """The cause of the larger part of the idle before each."""
        return self.parts.larger(self.idle)


def step_times(trace: Trace) -> tuple[idling.Floats, idling.Floats]:
    """Start and end of every step, in order."""
    names = trace.names.values_in_order()
    is_step = np.array([*(bool(_TRAINING_STEP.match(n)) for n in names), False])
    rows = np.flatnonzero(is_step[trace.frames["name"]] & (trace.frames["kind"] == ANNOTATION))
    rows = rows[np.argsort(trace.frames["start"][rows], kind="stable")]
    return trace.frames["start"][rows], trace.frames["end"][rows]


def _pauses(trace: Trace, idle_us: idling.Floats) -> idling.Floats:
    start, end = step_times(trace)
    if not len(start):
        return np.zeros_like(idle_us)
    until = trace.device["start"]
    return np.maximum(idle_us - idling.Union(start, end).overlap(until - idle_us, until), 0.0)


def idle(trace: Trace, links: Links, contexts: around.Contexts) -> Idling:
    """How long every device did nothing before each piece of its work, and why."""
    device, stream = trace.device["device"], trace.device["stream"]
    start, end = trace.device["start"], trace.device["end"]
    launched = np.append(trace.launches["start"], np.nan)[links.launch]
    returned = np.append(trace.launches["end"], np.nan)[links.launch]
    replayed = links.link == BY_GRAPH
    issue = idling.issued_at(launched, returned, start, end, replayed)
    none = np.full(trace.device.height, idling.NO_CAUSE)
    parts = idling.IdleParts(none, np.zeros(len(none)), none.copy())
    idle_us = np.zeros(len(none))
    found = Idling(idle_us, idle_us.copy(), parts, start - launched, {})
    why = _host(trace, contexts)
    graphs = idling.Unseen(_graphs_without_kernels(trace, links.launch))
    for one, unordered in rows_of_each(device):
        rows = unordered[np.argsort(start[unordered], kind="stable")]
        before = idling.gaps(start[rows], end[rows])
        found.idle[rows] = before.length
        after = rows[before.after]
        same = stream[rows] == stream[after]
        beside = replayed[rows] | replayed[after]
        unseen = graphs.between(launched[after], launched[rows])
        inside = idling.Graphs(beside, unseen)
        mine = idling.Issue(issue.at[rows], issue.done[rows])
        causes = why.causes(before, start[rows], mine, same, inside)
        for whole, part in zip(parts, causes, strict=True):
            whole[rows] = part
        found.busy_us[one] = idling.Union(start[rows], end[rows]).length
    found.pause = _pauses(trace, found.idle)
    return found


def _host(trace: Trace, contexts: around.Contexts) -> idling.Host:
    """The host's side of idle time."""
    names = trace.names.values_in_order()
    waiting = np.array([*(idling.waits(n) for n in names), False])
    rows = np.flatnonzero(waiting[trace.launches["name"]])
    rows = rows[np.argsort(trace.launches["end"][rows], kind="stable")]
    profiling = np.array([*(bool(_PROFILER.search(n)) for n in names), False])
    own = profiling[trace.overheads["name"]]
    loads = (contexts.phase[:-1] == around.DATA) & (trace.frames["kind"] == ANNOTATION)
    data = idling.Union(trace.frames["start"][loads], trace.frames["end"][loads])
    profiler = idling.Union(trace.overheads["start"][own], trace.overheads["end"][own])
    calls = trace.launches
    return idling.Host(calls["start"][rows], calls["end"][rows], data, profiler)


# Ops for kernels that have none, and the share of an op's work that a kernel does.
_IS_KERNEL = pl.col("kind").is_in([KERNEL, COLLECTIVE])
# How many steps of a quarter the time of a kernel may be from its lender's (three: not quite
# double), and up to when a time says nothing.
_STEP, _ALIKE_STEPS, _TOO_SHORT_US = 1.25, 3, 10.0
_SHORTEST_LENGTH = int(np.floor(np.log(_TOO_SHORT_US) / np.log(_STEP)))
KEYS = ["op", "signature", "outer", "phase", "layouts", "gradient"]


def with_shares(work: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Add `op_calls`: how many calls of its op each kernel stands for.

    An op may launch several kernels, and its FLOPs must not be counted for each. The
    kernel that takes the longest (by name, on average over calls with that signature)
    stands for the call, or several of that name share it; the others stand for none. One
    that by its name only changes a layout or adds up partial results stands for a call
    only where there is no other. Kernels that do the same for long and for short rows share
    the call by time: how many rows are long is data.

    Kernels that do a part of their op's work also have `part_calls`, how many calls' parts they
    stand for: of those that change layouts beside another kernel (`layouts`: how many of these
    their call has) the share by time, of a convolution's two gradients (`gradient`) one each.
    """
    beside = [code for code, name in enumerate(names) if is_beside(name)]
    moving = [code for code in beside if changes_layout(names[code])]
    of_op = ["op", "signature", "twin"]
    launched = _IS_KERNEL & (pl.col("call") >= 0)
    work = work.with_columns(pl.col("name").replace(twins(names)).alias("twin"))
    kernels = work.filter(launched)
    means = kernels.group_by(of_op).agg(pl.col("duration").mean().alias("mean"))
    sizes = (pl.len(), pl.col("duration").sum().alias("time"), pl.col("name").n_unique())
    named = kernels.group_by("call", *of_op).agg(sizes).join(means, on=of_op, nulls_equal=True)
    updates, prepares = prepared(names)
    before = pl.col("op").is_in(updates) & pl.col("twin").is_in(prepares)
    ranked = named.with_columns((~pl.col("twin").is_in(beside) & ~before).alias("works"))
    longest = ranked.sort("works", "mean", "twin", descending=True).unique("call", keep="first")
    by_time = (pl.col("name") > 1) & (pl.col("time") > 0)
    shares = longest.select(
        "call", "twin", (1 / pl.col("len")).alias("even"),
        pl.when(by_time).then(1 / pl.col("time")).alias("per_time"),
    )  # fmt: skip
    joined = work.join(shares, on=["call", "twin"], how="left", maintain_order="left")
    share = (pl.col("duration") * pl.col("per_time")).fill_null(pl.col("even")).fill_null(0.0)
    joined = joined.with_columns(pl.when(launched).then(share).alias("op_calls"))
    joined = joined.drop("twin", "even", "per_time")
    moves = launched & pl.col("name").is_in(moving) & (pl.col("op_calls") == 0)
    joined = joined.with_columns(
        pl.lit(0, pl.Int64).alias("layouts"), pl.lit(0, pl.Int64).alias("gradient"),
        pl.lit(0.0).alias("part_calls"),
    )  # fmt: skip
    if moving and joined.select(moves.any()).item():
        share = pl.col("duration") / pl.col("duration").sum().over("call")
        parts = joined.filter(moves).with_columns(
            pl.len().over("call").cast(pl.Int64).alias("layouts"), share.alias("part_calls")
        )
        joined = _put_back(joined, moves, parts)
    return _with_gradients(joined, names)


_ROW_KINDS = re.compile(r"_(?:cta|warp)_per_row")


def twins(names: Sequence[str]) -> dict[int, int]:
    """Kernels that do the same for long and short rows: codes of names, each to the first such.

    >>> twins(["backward_kernel_cta_per_row_1<float>", "backward_kernel_warp_per_row_1<float>"])
    {1: 0}
    """
    first: dict[str, int] = {}
    found = {}
    for code, name in enumerate(names):
        if _ROW_KINDS.search(name):
            found[code] = first.setdefault(_ROW_KINDS.sub("", name.partition("<")[0]), code)
    return {code: one for code, one in found.items() if code != one}


def _with_gradients(work: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Tell the kernels of a convolution's two gradients apart, where a call has both."""
    backward = [code for code, name in enumerate(names) if computes_gradients(name)]
    of_backward = pl.col("op").is_in(backward) & (pl.col("call") >= 0) & (pl.col("layouts") == 0)
    asked = work.filter(of_backward)["name"].unique().to_list() if backward else []
    told = {code: gradient for code in asked if (gradient := gradient_of(names[code]))}
    if len(set(told.values())) < 2:
        return work
    of_name = pl.col("name").replace_strict(told, default=0, return_dtype=pl.Int64)
    one_of = pl.len().over("call", "gradient").cast(pl.Float64)
    parts = (
        work.with_columns(of_name.alias("gradient"))
        .filter(of_backward & (pl.col("gradient") > 0))
        .filter(pl.col("gradient").n_unique().over("call") == 2)
        .with_columns((1 / one_of).alias("part_calls"))
    )
    return _put_back(work, of_backward, parts)


def _put_back(work: pl.DataFrame, where: pl.Expr, parts: pl.DataFrame) -> pl.DataFrame:
    """The table with changed rows in their old places: `parts` are some of those at `where`."""
    numbered = work.with_row_index(".row")
    key = ["name", "call", "start", "stream", "device"]
    columns = ["layouts", "gradient", "part_calls"]
    rows = numbered.filter(where).select(".row", *key)
    changed = parts.select(*key, *columns).join(rows, on=key, nulls_equal=True)
    return (
        numbered.join(
            changed.select(".row", *columns), on=".row", how="left", suffix=".new",
            maintain_order="left",
        )
        .with_columns(pl.coalesce(f"{c}.new", c).alias(c) for c in columns)
        .select(work.columns)
    )  # fmt: skip


def with_inferred(work: pl.DataFrame) -> pl.DataFrame:
    """Lend kernels without an op the op of linked kernels with the same name and grid.

    A product's grid does not tell how much is summed over, but its time does: of several
    ops those lend whose kernels take about as long, of these the most frequent, and none
    where the times are far apart. Where grids were not recorded (AMD), name and time tell alone:
    the times must be closer, and where a kernel is too short for its time to tell anything, all of
    its name must have one and the same op. What a graph replays borrows nothing then: its
    kernels are of another run of the program.
    """
    work = work.with_columns(pl.col("grid").fill_null(NONE).alias("at"))
    gridless = pl.col("at") == NONE
    is_kernel = _IS_KERNEL & (~gridless | (pl.col("link") != BY_GRAPH))
    place = ["name", "at"]
    linked = work.filter(is_kernel & pl.col("op").is_not_null())
    borrows = is_kernel & pl.col("op").is_null()
    if not linked.height:
        return work.drop("at")
    # Kernels without a grid ask all of their name.
    anywhere = linked.filter(~gridless).with_columns(pl.lit(NONE, linked["at"].dtype).alias("at"))
    linked = pl.concat([linked, anywhere])
    timed = work.with_columns(_length(pl.col("duration")).alias("length"))
    asking = timed.filter(borrows).select(*place, "length").unique()
    chosen = (
        asking.join(_lenders(linked, place), on=place)
        .with_columns((pl.col("lent_length") - pl.col("length")).abs().alias("apart"))
        .filter(pl.col("apart") <= pl.when(gridless).then(1).otherwise(_ALIKE_STEPS))
        .filter(~gridless | (pl.col("length") > _SHORTEST_LENGTH) | (pl.col("ops") == 1))
        .sort(pl.col("apart") // 2, -pl.col("count"), "lent_op", maintain_order=True)
        .unique([*place, "length"], keep="first", maintain_order=True)
        .drop("count", "apart", "lent_length", "ops")
    )
    joined = timed.join(chosen, on=[*place, "length"], how="left", maintain_order="left")
    takes = borrows & pl.col("lent_op").is_not_null()
    taken = [pl.when(takes).then(pl.col(f"lent_{k}")).otherwise(pl.col(k)).alias(k) for k in KEYS]
    return joined.with_columns(
        *taken,
        *(
            pl.when(takes).then(pl.col(f"lent_{c}")).otherwise(pl.col(c)).alias(c)
            for c in ("op_calls", "part_calls")
        ),
        pl.when(takes).then(INFERRED).otherwise(pl.col("link")).cast(pl.Int8).alias("link"),
    ).select(c for c in work.columns if c != "at")


def _lenders(linked: pl.DataFrame, place: list[str]) -> pl.DataFrame:
    """Per name, grid and length of time the most frequent op."""
    lent = _length(pl.col("duration").median()).alias("lent_length")
    counts = pl.len().cast(pl.Int64).alias("count")
    return (
        linked.group_by(*place, *KEYS)
        .agg(counts, pl.col("op_calls", "part_calls").mean().name.prefix("lent_"), lent)
        .with_columns(pl.len().over(place).alias("ops"))
        .sort("count", *KEYS, descending=True, maintain_order=True)
        .unique([*place, "lent_length"], keep="first", maintain_order=True)
        .rename({k: f"lent_{k}" for k in KEYS})
    )


def _length(duration_us: pl.Expr) -> pl.Expr:
    """A time in steps of a quarter; what is too short to tell is all of one length."""
    return duration_us.clip(lower_bound=_TOO_SHORT_US).log(_STEP).floor().cast(pl.Int64)


def integral(values: pl.Expr) -> pl.Expr:
    """Counts as text: whole ones without a point.

    >>> pl.DataFrame({"a": [2.0, 2.5]}).select(integral(pl.col("a")))["a"].to_list()
    ['2', '2.5']
    """
    rounded = values.round(6)
    whole = rounded.cast(pl.Int64, strict=False).cast(pl.String)
    return pl.when(rounded == rounded.round(0)).then(whole).otherwise(rounded.cast(pl.String))


# The kernels of one call whose grids tell sizes that the call's record does not.
# Engines hide weights and lengths in their layers; some of their kernels say tile sizes in
# their names, and then the grid says how large the whole is.
_TELLING = re.compile(r"^(bmm_\w+_t\d+x\d+x\d+|fmhaSm\d+)")


# Names of kernels and their grids.
Telling = tuple[tuple[str, tuple[int, ...]], ...]


def with_launched(trace: Trace, work: pl.DataFrame, codes_of_telling: Codes) -> pl.DataFrame:
    """Add `launched`: per kernel a code of its call's telling kernels with their grids."""
    names, grids = trace.names.values_in_order(), trace.grids.values_in_order()
    telling = [code for code, name in enumerate(names) if _TELLING.match(name)]
    known = (pl.col("call") >= 0) & pl.col("grid").is_not_null()
    found = work.filter(pl.col("name").is_in(telling) & known)
    if not found.height:
        return work.with_columns(pl.lit(None, pl.Int64).alias("launched"))
    calls = found.sort("start").group_by("call", maintain_order=True).agg("name", "grid")
    codes = []
    for name, grid in calls.select("name", "grid").iter_rows():
        both = [(names[n], _grid(grids[g])) for n, g in zip(name, grid, strict=True)]
        codes.append(codes_of_telling[tuple(both)])
    table = calls.select("call").with_columns(pl.Series("launched", codes, dtype=pl.Int64))
    return work.join(table, on="call", how="left", maintain_order="left")


def _grid(text: bytes) -> tuple[int, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[int, ...])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
