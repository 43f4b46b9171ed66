"""Rows of a profile from the table of device work: equal work put together, codes made text."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

from timeroof.core.profile import RECORDED_CALL
from timeroof.core.shapes import SHAPE, shape_series
from timeroof.model.bounds import distinct, own_times, tier_of
from timeroof.model.stats import spread_of
from timeroof.read.events import copy_bytes
from timeroof.read.idle import CAUSES, Ints
from timeroof.read.torch import links as linking
from timeroof.read.torch.contexts import PHASE_NAMES, Contexts, module_paths, walk
from timeroof.read.torch.events import Message, Signature, is_collective, message, signature
from timeroof.read.torch.tables import COLLECTIVE, COPY, KERNEL, KIND_NAMES, NONE, Codes, Trace
from timeroof.work.call import Call
from timeroof.work.parts import part_of
from timeroof.work.recorded import RecordedCall, call_from_kineto

# All work of a trace's devices as one table: a row per kernel, copy, memset and collective.


class Work(msgspec.Struct):
    """The table, and what it was made of."""

    table: pl.DataFrame
    links: linking.Links
    contexts: Contexts
    idling: linking.Idling
    signatures: list[Signature]
    # What the column `launched` stands for.
    telling: list[linking.Telling]


def device_work(trace: Trace) -> Work:
    """Link the device work of a trace and find the idle before it."""
    launch = linking.launch_rows(trace)
    used = distinct(launch[launch >= 0])
    contexts = walk(trace, used)
    links = linking.link(trace, launch, used, contexts)
    idling = linking.idle(trace, links, contexts)
    table = _table(trace, links, contexts, idling)
    telling, names = Codes(), trace.names.values_in_order()
    table = linking.with_launched(trace, linking.with_shares(table, names), telling)
    table = linking.with_inferred(table)
    recorded = signatures_of(trace.signatures)
    return Work(table, links, contexts, idling, recorded, telling.values_in_order())


def _table(
    trace: Trace, links: linking.Links, contexts: Contexts, idling: linking.Idling
) -> pl.DataFrame:
    device = trace.device
    collective = _collective(trace, links)
    no_grid = trace.grids.get(b"", NONE)
    kind = _kinds(trace, collective)
    tier = np.array([tier_of(name) for name in KIND_NAMES])[kind]
    own = own_times(device["start"], device["end"], tier, device["device"])
    columns = {
        **{c: device[c] for c in ("name", "device", "stream", "start", "duration")},
        **{c: getattr(links, c) for c in ("module", "phase", "launch")},
        "kind": kind,
        "grid": np.where(device["grid"] == no_grid, NONE, device["grid"]),
        "collective": collective,
        "call": links.op,
        "op": np.append(trace.frames["name"], NONE)[links.op],
        "signature": np.append(trace.frames["signature"], NONE)[links.op],
        "outer": np.append(trace.frames["name"], NONE)[links.outer],
        "link": links.link.astype(np.int8),
        "exclusive": own.exclusive,
        "alone": own.alone,
        "idle": idling.idle - idling.pause,
        "cause": idling.cause.astype(np.int8),
        "launch_delay": idling.launch_delay,
        "bytes": _bytes(trace, links),
        "launches": _launches(links.launch),
    }
    missing = ("grid", "op", "signature", "outer", "module", "collective")
    return pl.DataFrame(columns).with_columns(
        pl.when(pl.col(c) >= 0).then(pl.col(c)).alias(c) for c in missing
    )


def _collective(trace: Trace, links: linking.Links) -> Ints:
    """The message of each collective: its own record, else the one of its op."""
    of_op = np.append(trace.frames["collective"], NONE)[links.op]
    return np.where(trace.device["collective"] >= 0, trace.device["collective"], of_op)


def _kinds(trace: Trace, collective: Ints) -> Ints:
    names = trace.names.values_in_order()
    talks = np.array([*(is_collective(n) for n in names), False])
    kind = trace.device["kind"]
    talking = talks[trace.device["name"]] | (collective >= 0)
    # Level Zero's copies come among its kernels.
    copies = np.array([*(n.startswith("zeCommandListAppendMemory") for n in names), False])
    kind = np.where((kind == KERNEL) & copies[trace.device["name"]], COPY, kind)
    return np.where((kind == KERNEL) & talking, COLLECTIVE, kind)


def _bytes(trace: Trace, links: linking.Links) -> Ints:
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


# Amounts that a trace records by itself: bytes of copies and memsets, messages of collectives.
_HOST_LINK, _PEER_LINKS = "link/pcie", (("nvidia", "link/nvlink"), ("tesla", "link/nvlink"),
                                        ("amd", "link/infinity-fabric"))  # fmt: skip
# Within one node all ranks see one another over the fast link; beyond nobody knows.
_NODE_RANKS = 8


def copy_amounts(rows: pl.DataFrame) -> pl.DataFrame:
    """Bytes of copies and memsets as memory and link amounts; kernels' bytes stay unknown."""
    copies, sets, size = pl.col("kind") == "copy", pl.col("kind") == "memset", pl.col("bytes")
    if not rows["kind"].is_in(["copy", "memset"]).any():
        return rows.drop("bytes")
    link, dram = copy_bytes(size, pl.col("name"))
    moved = pl.when(copies).then(dram).when(sets).then(size)
    return rows.with_columns(
        moved.alias("byte/dram"),
        pl.when(copies).then(link).otherwise(0.0).alias(_HOST_LINK),
        pl.when(moved.is_not_null()).then(pl.lit("measured")).alias("origin.bytes/dram"),
    ).drop("bytes")


def link_column(rows: pl.DataFrame, device: str | None) -> pl.DataFrame:
    """What collectives within a node send, as an amount of the vendor's link between devices."""
    wire = peer_link(device)
    talks = pl.col("kind") == "collective"
    if wire is None or not (rows["kind"] == "collective").any():
        return rows.drop("link_bytes")
    if "label.group_size" not in rows.columns:
        sent = pl.lit(None, pl.Float64)
    else:
        near = pl.col("label.group_size").cast(pl.Int64, strict=False) <= _NODE_RANKS
        sent = pl.when(near).then(pl.col("link_bytes"))
    rows = rows.with_columns(pl.when(talks).then(sent).otherwise(0.0).alias(wire))
    return rows.drop("link_bytes")


def peer_link(device: str | None) -> str | None:
    """The link between devices of a vendor.

    >>> peer_link("NVIDIA H100 80GB HBM3"), peer_link("AMD Instinct MI300X"), peer_link(None)
    ('link/nvlink', 'link/infinity-fabric', None)
    """
    name = (device or "").lower()
    return next((wire for word, wire in _PEER_LINKS if word in name), None)


KEY = [
    "kind", "name", "op", "signature", "outer", "module", "phase",
    "device", "stream", "link", "collective", "launched", "layouts", "gradient",
]  # fmt: skip
_US = 1e-6
# Single times are kept where they are few enough to be looked at.
MAX_SAMPLES = 1000


def device_rows(
    trace: Trace, work: Work, device_names: dict[str, str], device: str | None
) -> pl.DataFrame:
    """One row per (kind, name, op, shape, module, phase, stream …), the longest first.

    Columns of `KEY` stay as codes under their names with a dot before them, so that
    single pieces of work can still be joined.
    """
    grouped = _grouped(work.table).sort("time_s", descending=True, maintain_order=True)
    shared = pl.when((pl.col("layouts") > 0) | (pl.col("gradient") > 0)).then(pl.col("part_calls"))
    stands_for = shared.when("has_calls").then(pl.col("op_calls").round(6)).alias(".times")
    keys = grouped.select(*(pl.col(k).alias(f".{k}") for k in KEY), stands_for)
    text = grouped.select(*_texts(trace, work, device_names), *_numbers(), *_labels())
    rows = pl.concat([keys, text, _messages(trace, grouped)], how="horizontal")
    rows = rows.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("id"))
    return link_column(copy_amounts(rows), device)


def _grouped(table: pl.DataFrame) -> pl.DataFrame:
    duration = pl.col("duration")
    worst = pl.col("cause").sort_by("idle", descending=True).first()
    return table.group_by(KEY, maintain_order=True).agg(
        pl.len().alias("calls"),
        pl.col("launches").sum(),
        (duration.sum() * _US).alias("time_s"),
        (pl.col("exclusive", "alone").sum() * _US).name.suffix("_s"),
        *spread_and_samples("duration"),
        (pl.col("idle").sum() * _US).alias("idle_before_s"),
        worst.alias("cause"),
        pl.col("bytes").sum(),
        pl.col("bytes").is_nan().any().alias("bytes_unknown"),
        pl.col("op_calls", "part_calls").sum(),
        pl.col("op_calls").is_not_null().any().alias("has_calls"),
        (pl.col("launch_delay").fill_nan(None).mean() * _US).alias("launch_delay_s"),
    )


def spread_and_samples(column: str) -> list[pl.Expr]:
    """(p75 - p25) / median of times in microseconds, and the times in seconds if not too many."""
    time = pl.col(column)
    few = (pl.len() > 1) & (pl.len() <= MAX_SAMPLES)
    return [
        spread_of(time).alias("time_spread"),
        pl.when(few).then((time * _US).implode()).alias("samples"),
    ]


def text_of(column: str, texts: Sequence[object]) -> pl.Expr:
    """Codes of a column as the texts that they stand for; codes out of range are null."""
    values = [None if t is None else str(t) for t in texts]
    found = pl.Series(values, dtype=pl.String)
    return pl.lit(found).gather(pl.col(column)) if values else pl.lit(None, pl.String)


def shape_of(recorded: Sequence[Signature]) -> pl.Expr:
    """The shapes that the codes of a column `signature` stand for."""
    shapes = shape_series([s.shape for s in recorded])
    found = pl.lit(shapes).gather(pl.col("signature")) if recorded else pl.lit(None, SHAPE)
    return found.alias("shape")


def _texts(trace: Trace, work: Work, device_names: dict[str, str]) -> list[pl.Expr]:
    devices = [device_names.get(str(d)) for d in trace.devices.values_in_order()]
    names = trace.names.values_in_order()
    recorded = work.signatures
    return [
        text_of("kind", KIND_NAMES).alias("kind"),
        text_of("name", names).alias("name"),
        text_of("op", names).alias("op"),
        text_of("phase", PHASE_NAMES).alias("phase"),
        text_of("module", module_paths(work.contexts.modules)).alias("module"),
        text_of("device", devices).alias("device"),
        stream_name(trace).alias("stream"),
        shape_of(recorded),
        text_of("signature", [s.dtype for s in recorded]).alias("dtype"),
        text_of("outer", names).alias("label.outer_op"),
        text_of("link", linking.LINK_NAMES).alias("label.link"),
        *signature_labels(recorded),
    ]


def stream_name(trace: Trace) -> pl.Expr:
    """A stream's number, with its device before it where there are several devices."""
    stream = text_of("stream", trace.streams.values_in_order())
    if len(trace.devices) < 2:
        return stream
    return pl.format("{}:{}", text_of("device", trace.devices.values_in_order()), stream)


def signatures_of(codes: Codes) -> list[Signature]:
    """The signatures of a trace by their codes."""
    return [signature(s) for s in codes.values_in_order()]


def signature_labels(recorded: list[Signature]) -> list[pl.Expr]:
    """What ops were called with, as the trace has it; results only where gradients tell them."""
    shown = 6 if any(s.texts[4] for s in recorded) else 4
    return [
        text_of("signature", [s.texts[place] for s in recorded]).alias(f"label.{name}")
        for place, name in enumerate(RECORDED_CALL[:shown])
    ]


def recorded_calls(
    trace: Trace,
    recorded: list[Signature],
    rows: pl.DataFrame,
    telling: Sequence[linking.Telling] = (),
) -> dict[int, RecordedCall]:
    """The calls of rows by their ids.

    `rows` has id, op and signature as codes, how many calls a row stands for, a code of `telling`
    kernels, whether ops below the op are rows, the kernel's name as a code, how many kernels of the
    call change layouts, and which gradient of a convolution it is.
    """
    names, made = trace.names.values_in_order(), dict[tuple[int, int], Call]()
    found = {}
    shaped = rows.filter(pl.col("signature") >= 0)
    for row, op, code, times, told, children, name, layouts, gradient in shaped.iter_rows():
        if (op, code) not in made:
            made[op, code] = call_from_kineto(names[op], recorded[code].arguments)
        launched = () if told is None else telling[told]
        part = None if name is None else part_of(made[op, code], names[name], layouts, gradient)
        if part is not None:
            found[row] = RecordedCall(part, times if layouts or gradient else None)
        else:
            stands_for = 0.0 if layouts or gradient else times
            found[row] = RecordedCall(made[op, code], stands_for, launched, children)
    return found


def _numbers() -> list[pl.Expr]:
    return [
        pl.col("calls", "launches", "time_s", "exclusive_s", "alone_s", "idle_before_s"),
        pl.col("time_spread", "samples"),
        pl.when(~pl.col("bytes_unknown")).then(pl.col("bytes")).alias("bytes"),
        pl.lit("measured").alias("origin.time"),
    ]


def _labels() -> list[pl.Expr]:
    cause = pl.when(pl.col("cause") >= 0).then(text_of("cause", CAUSES))
    calls = pl.when("has_calls").then(linking.integral(pl.col("op_calls")))
    return [
        calls.alias("label.op_calls"),
        pl.when(pl.col("link") == linking.INFERRED).then(pl.lit("op")).alias("label.inferred"),
        cause.alias("label.idle_cause"),
        pl.col("launch_delay_s").round_sig_figs(4).cast(pl.String).alias("label.launch_delay_s"),
    ]


def _messages(trace: Trace, grouped: pl.DataFrame) -> pl.DataFrame:
    """What is known of collectives: kind, bytes and group."""
    found: list[Message] = [message(c) for c in trace.collectives.values_in_order()]
    per_call = pl.Series([m.message_bytes for m in found], dtype=pl.Float64)
    sent = pl.Series([m.link_bytes for m in found], dtype=pl.Float64)
    if not found:
        unknown = pl.Series("link_bytes", [None], dtype=pl.Float64)
        return unknown.new_from_index(0, grouped.height).to_frame()
    code = pl.col("collective")
    return grouped.select(
        (pl.lit(sent).gather(code) * pl.col("calls")).alias("link_bytes"),
        text_of("collective", [m.kind for m in found]).alias("label.collective"),
        text_of("collective", [m.group_size for m in found]).alias("label.group_size"),
        text_of("collective", [m.group for m in found]).alias("label.group"),
        linking.integral(pl.lit(per_call).gather(code)).alias("label.message_bytes"),
    )
