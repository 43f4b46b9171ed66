"""Rows of a profile from the table of device work: equal work put together, codes made text."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from timeroof.read.torch.amounts import copy_amounts, link_column
from timeroof.read.torch.codes import Codes
from timeroof.read.torch.collectives import Message, message
from timeroof.read.torch.contexts import module_paths
from timeroof.read.torch.idling import CAUSES
from timeroof.read.torch.lending import integral
from timeroof.read.torch.linking import INFERRED, LINK_NAMES
from timeroof.read.torch.phases import PHASE_NAMES
from timeroof.read.torch.signatures import Signature, signature
from timeroof.read.torch.trace import KIND_NAMES, Trace
from timeroof.read.torch.work import Work

KEY = [
    "kind", "name", "op", "signature", "outer", "module", "phase",
    "device", "stream", "link", "collective", "launched",
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
    keys = grouped.select(pl.col(k).alias(f".{k}") for k in KEY)
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
        *spread_and_samples("duration"),
        (pl.col("idle").sum() * _US).alias("idle_before_s"),
        worst.alias("cause"),
        pl.col("bytes").sum(),
        pl.col("bytes").is_nan().any().alias("bytes_unknown"),
        pl.col("op_calls").sum(),
        pl.col("op_calls").is_not_null().any().alias("has_calls"),
        (pl.col("stream_wait").sum() * _US).alias("stream_wait_s"),
        (pl.col("launch_delay").fill_nan(None).mean() * _US).alias("launch_delay_s"),
        pl.col("queue_depth").fill_nan(None).mean().alias("queue_depth"),
    )


def spread_and_samples(column: str) -> list[pl.Expr]:
    """(p75 - p25) / median of times in microseconds, and the times in seconds if not too many."""
    time = pl.col(column)
    between = time.quantile(0.75, "linear") - time.quantile(0.25, "linear")
    several = pl.len() > 1
    few = several & (pl.len() <= MAX_SAMPLES)
    return [
        pl.when(several & (time.median() > 0)).then(between / time.median()).alias("time_spread"),
        pl.when(few).then((time * _US).implode()).alias("samples"),
    ]


def text_of(column: str, texts: Sequence[object]) -> pl.Expr:
    """Codes of a column as the texts that they stand for; codes out of range are null."""
    values = [None if t is None else str(t) for t in texts]
    found = pl.Series(values, dtype=pl.String)
    return pl.lit(found).gather(pl.col(column)) if values else pl.lit(None, pl.String)


def _texts(trace: Trace, work: Work, device_names: dict[str, str]) -> list[pl.Expr]:
    devices = [device_names.get(str(d)) for d in trace.devices.values_in_order()]
    names = trace.names.values_in_order()
    recorded = signatures_of(trace.signatures)
    return [
        text_of("kind", KIND_NAMES).alias("kind"),
        text_of("name", names).alias("name"),
        text_of("op", names).alias("op"),
        text_of("phase", PHASE_NAMES).alias("phase"),
        text_of("module", module_paths(work.contexts.modules)).alias("module"),
        text_of("device", devices).alias("device"),
        stream_name(trace).alias("stream"),
        text_of("signature", [s.shape for s in recorded]).alias("shape"),
        text_of("signature", [s.dtype for s in recorded]).alias("dtype"),
        text_of("outer", names).alias("label.outer_op"),
        text_of("link", LINK_NAMES).alias("label.link"),
        *_launched_label(work),
        *signature_labels(recorded),
    ]


def _launched_label(work: Work) -> list[pl.Expr]:
    texts = work.launched.values_in_order()
    return [text_of("launched", texts).alias("label.launched")] if texts else []


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
    """What ops were called with, as the trace has it, so that others can count."""
    return [
        text_of("signature", [s.dims for s in recorded]).alias("label.input_dims"),
        text_of("signature", [s.types for s in recorded]).alias("label.input_types"),
        text_of("signature", [s.strides for s in recorded]).alias("label.input_strides"),
        text_of("signature", [s.values for s in recorded]).alias("label.concrete_inputs"),
        *_result_labels(recorded),
    ]


def _result_labels(recorded: list[Signature]) -> list[pl.Expr]:
    """The results that gradients tell, where there are any."""
    if not any(s.result_dims for s in recorded):
        return []
    return [
        text_of("signature", [s.result_dims for s in recorded]).alias("label.output_dims"),
        text_of("signature", [s.result_types for s in recorded]).alias("label.output_types"),
    ]


def _numbers() -> list[pl.Expr]:
    return [
        pl.col("calls", "launches", "time_s", "time_spread", "samples", "idle_before_s"),
        pl.when(~pl.col("bytes_unknown")).then(pl.col("bytes")).alias("bytes"),
        pl.lit("measured").alias("origin.time"),
    ]


def _labels() -> list[pl.Expr]:
    def digits(column: str) -> pl.Expr:
        return pl.col(column).round_sig_figs(4).cast(pl.String)

    waits = pl.when(pl.col("stream_wait_s") > 0).then(digits("stream_wait_s"))
    cause = pl.when(pl.col("cause") >= 0).then(text_of("cause", CAUSES))
    calls = pl.when("has_calls").then(integral(pl.col("op_calls")))
    return [
        calls.alias("label.op_calls"),
        pl.when(pl.col("link") == INFERRED).then(pl.lit("op")).alias("label.inferred"),
        cause.alias("label.idle_cause"),
        digits("launch_delay_s").alias("label.launch_delay_s"),
        digits("queue_depth").alias("label.queue_depth"),
        waits.alias("label.stream_wait_s"),
    ]


def _messages(trace: Trace, grouped: pl.DataFrame) -> pl.DataFrame:
    """What is known of collectives: kind, bytes, group, and the rate of the algorithm."""
    found: list[Message] = [message(c) for c in trace.collectives.values_in_order()]
    per_call = pl.Series([m.message_bytes for m in found], dtype=pl.Float64)
    sent = pl.Series([m.link_bytes for m in found], dtype=pl.Float64)
    if not found:
        unknown = pl.Series("link_bytes", [None], dtype=pl.Float64)
        return unknown.new_from_index(0, grouped.height).to_frame()
    code = pl.col("collective")
    rate = pl.lit(per_call).gather(code) * pl.col("calls") / pl.col("time_s")
    return grouped.select(
        (pl.lit(sent).gather(code) * pl.col("calls")).alias("link_bytes"),
        text_of("collective", [m.kind for m in found]).alias("label.collective"),
        text_of("collective", [m.group_size for m in found]).alias("label.group_size"),
        text_of("collective", [m.group for m in found]).alias("label.group"),
        text_of("collective", [m.dtype for m in found]).alias("label.message_dtype"),
        integral(pl.lit(per_call).gather(code)).alias("label.message_bytes"),
        pl.when(pl.col("time_s") > 0)
        .then(rate.round_sig_figs(6))
        .cast(pl.String)
        .alias("label.algorithm_bandwidth_per_s"),
    )
