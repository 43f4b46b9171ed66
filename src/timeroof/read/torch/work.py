"""All work of a trace's devices as one table: a row per kernel, copy, memset and collective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from timeroof.read.torch.codes import NONE, Codes, Ints
from timeroof.read.torch.collectives import is_collective
from timeroof.read.torch.contexts import Contexts, walk
from timeroof.read.torch.idling import Idling, idle
from timeroof.read.torch.launched import with_launched
from timeroof.read.torch.lending import with_inferred, with_shares
from timeroof.read.torch.linking import Links, launch_rows, link
from timeroof.read.torch.trace import COLLECTIVE, COPY, KERNEL, Trace


@dataclass
class Work:
    """The table, and what it was made of."""

    table: pl.DataFrame
    links: Links
    contexts: Contexts
    idling: Idling
    # Texts of the column `launched`, by their codes.
    launched: Codes


def device_work(trace: Trace) -> Work:
    """Link the device work of a trace and find the idle before it."""
    launch = launch_rows(trace)
    used = np.unique(launch[launch >= 0])
    contexts = walk(trace, used)
    links = link(trace, launch, used, contexts)
    idling = idle(trace, links, contexts)
    table = _table(trace, links, contexts, idling)
    launched, names = Codes(), trace.names.values_in_order()
    table = with_launched(trace, with_shares(table, names), launched)
    return Work(with_inferred(table), links, contexts, idling, launched)


def _table(trace: Trace, links: Links, contexts: Contexts, idling: Idling) -> pl.DataFrame:
    device = trace.device
    collective = _collective(trace, links)
    no_grid = trace.grids.get(b"", NONE)
    columns = {
        "kind": _kinds(trace, collective),
        "name": device["name"],
        "device": device["device"],
        "stream": device["stream"],
        "grid": np.where(device["grid"] == no_grid, NONE, device["grid"]),
        "collective": collective,
        "call": links.op,
        "op": np.append(trace.frames["name"], NONE)[links.op],
        "signature": np.append(trace.frames["signature"], NONE)[links.op],
        "outer": np.append(trace.frames["name"], NONE)[links.outer],
        "module": links.module,
        "phase": links.phase,
        "link": links.link.astype(np.int8),
        "launch": links.launch,
        "start": device["start"],
        "duration": device["duration"],
        "idle": idling.idle,
        "cause": idling.cause.astype(np.int8),
        "stream_wait": idling.stream_wait,
        "launch_delay": idling.launch_delay,
        "queue_depth": idling.queue_depth,
        "bytes": _bytes(trace, links),
        "launches": _launches(links.launch),
    }
    missing = ("grid", "op", "signature", "outer", "module", "collective")
    return pl.DataFrame(columns).with_columns(
        pl.when(pl.col(c) >= 0).then(pl.col(c)).alias(c) for c in missing
    )


def _collective(trace: Trace, links: Links) -> Ints:
    """The message of each collective: its own record, else the one of its op."""
    of_op = np.append(trace.frames["collective"], NONE)[links.op]
    return np.where(trace.device["collective"] >= 0, trace.device["collective"], of_op)


def _kinds(trace: Trace, collective: Ints) -> Ints:
    names = trace.names.values_in_order()
    talks = np.array([*(is_collective(n) for n in names), False])
    kind = trace.device["kind"]
    return np.where(
        (kind == KERNEL) & (talks[trace.device["name"]] | (collective >= 0)), COLLECTIVE, kind
    )


def _bytes(trace: Trace, links: Links) -> Ints:
    """Bytes of copies and memsets; HIP says them at the call, not at the copy."""
    asked = np.append(trace.launches["size"], np.nan)[links.launch]
    own = trace.device["bytes"]
    size = np.where(np.isfinite(own), own, np.where(trace.device["kind"] == COPY, asked, np.nan))
    return np.where(size >= 0, size, np.nan)


def _launches(launch: Ints) -> Ints:
    """How many launches each piece of work needed: a replayed graph is one for all its kernels."""
    known = launch >= 0
    shared = np.bincount(launch[known], minlength=1) if known.any() else np.ones(1)
    return np.where(known, 1 / np.maximum(shared[np.where(known, launch, 0)], 1), 1.0)
