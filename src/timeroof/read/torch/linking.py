"""Link device work to the launch, the op, the module and the phase that it came from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from timeroof.read.torch.codes import NONE, Bools, Floats, Ints
from timeroof.read.torch.contexts import Contexts
from timeroof.read.torch.phases import BACKWARD, FORWARD, OPTIMIZER, OTHER, UNMARKED
from timeroof.read.torch.trace import KERNEL, OP, Trace

# How a kernel got its op, or why it has none.
NO_LINK, BY_LAUNCH, BY_ID, BY_GRAPH, INFERRED, OUTSIDE = range(6)
LINK_NAMES = ["none", "launch", "external id", "graph", "inferred", "launch outside ops"]


@dataclass
class Links:
    """Per piece of device work: its launch and op (rows, -1: none), and what they say of it."""

    launch: Ints
    op: Ints
    outer: Ints
    module: Ints
    phase: Ints
    link: Ints


def launch_rows(trace: Trace) -> Ints:
    """The row of the launch of every piece of device work, by correlation number; -1: none."""
    return _lookup(trace.launches["correlation"], trace.device["correlation"])


def _lookup(keys: Floats, wanted: Floats) -> Ints:
    """The first row that has each wanted key; NaN is found nowhere."""
    rows = np.flatnonzero(np.isfinite(keys))
    if not len(rows):
        return np.full(len(wanted), NONE, np.int64)
    rows = rows[np.argsort(keys[rows], kind="stable")]
    place = np.searchsorted(keys[rows], wanted)
    place[place == len(rows)] = 0
    return np.where(keys[rows[place]] == wanted, rows[place], NONE)


def link(trace: Trace, launch: Ints, used: Ints, contexts: Contexts) -> Links:
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
    return Links(
        launch,
        op,
        np.where(op >= 0, contexts.outer[parent], NONE),
        np.where(own_module >= 0, own_module, _forward(trace, contexts)[parent]),
        op_phases(contexts, parent),
        how,
    )


def _is_graph(trace: Trace, launch: Ints) -> Bools:
    names = trace.names.values_in_order()
    replays = np.array([*("GraphLaunch" in n for n in names), False])
    name = np.append(trace.launches["name"], NONE)[launch]
    return np.asarray(replays[name], dtype=np.bool_)


def _by_external_id(trace: Trace) -> Ints:
    """The op with the same External id, unless the ids only repeat the correlation numbers."""
    ids, correlation = trace.device["external_id"], trace.device["correlation"]
    given = np.isfinite(ids)
    if not given.any() or np.mean(ids[given] == correlation[given]) > 0.5:
        return np.full(trace.device.height, NONE, np.int64)
    keys = np.where(trace.frames["kind"] == OP, trace.frames["external_id"], np.nan)
    return _lookup(keys, ids)


def op_phases(contexts: Contexts, parent: Ints) -> Ints:
    """Phases; unmarked work is forward, in training only where autograd or a module saw it."""
    phase = contexts.phase[parent]
    trains = bool(np.isin(contexts.phase, (BACKWARD, OPTIMIZER)).any())
    seen = (contexts.sequenced[parent] > 0) | (contexts.module[parent] >= 0)
    forward = seen | (not trains) | (not contexts.sequenced.any())
    unmarked = np.where(forward, FORWARD, OTHER)
    return np.where(parent < 0, UNMARKED, np.where(phase == UNMARKED, unmarked, phase))


def _forward(trace: Trace, contexts: Contexts) -> Ints:
    """Per frame under the autograd engine the module of its forward op, by sequence number."""
    none = np.full(len(contexts.op), NONE, np.int64)
    engines = np.unique(contexts.engine[contexts.engine >= 0])
    sequence, start = trace.frames["sequence"], trace.frames["start"]
    known = (contexts.module[:-1] >= 0) & (contexts.engine[:-1] < 0) & (sequence >= 0)
    if not len(engines) or not known.any():
        return none
    made = pl.DataFrame(
        {"sequence": sequence[known], "start": start[known], "module": contexts.module[:-1][known]}
    ).sort("start")
    asked = pl.DataFrame(
        {"sequence": sequence[engines], "start": start[engines], "row": engines}
    ).sort("start")
    found = asked.join_asof(made, on="start", by="sequence", check_sortedness=False).drop_nulls()
    none[found["row"].to_numpy()] = found["module"].to_numpy()
    return np.where(contexts.engine >= 0, none[contexts.engine], NONE)


def kernels_only(trace: Trace) -> Bools:
    """Which device work is a kernel and no copy or memset."""
    return np.asarray(trace.device["kind"] == KERNEL, dtype=np.bool_)
