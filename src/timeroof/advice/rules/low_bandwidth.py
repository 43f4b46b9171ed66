"""TR207."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, is_layout, kernel_count, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.machine import DRAM
from timeroof.core.units import format_percent, format_seconds

LOW = 0.5


class LowBandwidth(Rule):
    """Kernels bound by memory that reach less than half of its bandwidth.

    **What.** Rows limited by a memory level that run at less than 50 % of its roof, although
    each launch lasts long enough to reach it. Copies and reorders have TR201, page faults
    TR206.

    Data that a model says could stay in a cache may come from memory all the same; such rows
    count only if they are slower than that, too.

    **Why.** Accesses that are strided, gathered or too narrow use a part of every line; too few
    threads or outstanding loads leave the memory waiting; or it moves more bytes than are
    counted.

    **Example.** A reduction over the first dimension of a row-major matrix.

    **Seconds.** Time less the bound.

    **Silent** where DRAM bytes are unknown, and below 1 % of the run.
    """

    code = "TR207"
    name = "low-bandwidth"
    last_resort = True
    title = "Memory-bound kernels reach less than half of peak bandwidth"
    actions = {
        "torch cpu": "Access memory in order: call .contiguous() before the op. Check the threads"
        " (OMP_NUM_THREADS, pinning, NUMA).",
        "torch attention": "Try another attention backend: torch.nn.attention.sdpa_kernel. Short"
        " sequences and small heads do not fill the device.",
        "torch product": "Weights are read for few rows: more tokens or samples per call, weights"
        " of 8 or 4 bits, or a kernel tuned for these sizes.",
        "torch embedding": "Read fewer bytes per row: 16-bit embedding tables. Sort or deduplicate"
        " the indices, and look up all tables in one call (FBGEMM, TorchRec).",
        "torch compiled": "Look at the layout of its inputs: call .contiguous() before the compiled"
        " region. Try mode='max-autotune'.",
        "torch indexing": "Gather fewer, wider rows: sort the indices, keep hot rows in a cache, or"
        " batch all tables into one lookup (FBGEMM).",
        "torch elementwise": "Fuse element-wise ops with their neighbours: torch.compile. Check"
        " that their inputs are contiguous.",
        "torch": "Access memory in order: call .contiguous() before the op, or let torch.compile"
        " fuse the gather or reduction.",
        "any": "Access memory in order, with more accesses in flight.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Slow rows among those that memory limits."""
        rows = context.rows.filter(
            pl.col("limit") == "memory",
            pl.col("kernel_efficiency") < LOW,
            ~pl.col("tiny") & (pl.col("work_bound_s") > 0),
            pl.col("fault_s") < pl.col("work_bound_s"),
            _slower_than_memory(context),
            ~is_layout(),
        ).with_columns(
            (pl.col("time_s") - context.bound_after(pl.col("work_bound_s"))).alias("busy_gain_s")
        )
        time_s = float(rows["time_s"].sum())
        if not time_s:
            return []
        reached = float(rows["work_bound_s"].sum()) / time_s
        why = (
            f"{context.counted(kernel_count(rows), 'memory-bound ')} {format_seconds(time_s)}"
            f" ({context.share(time_s)}), at {format_percent(reached)} of peak"
            f" bandwidth.{places(rows)}"
        )
        title = (
            f"Memory-bound {context.noun}s reach {format_percent(reached)} of peak bandwidth:"
            f" {context.of_run(time_s)}"
        )
        evidence = {"time_s": time_s, "efficiency": reached}
        return self.claim(context, rows, why, evidence, title=title)


def _slower_than_memory(context: Context) -> pl.Expr:
    """Whether a row takes twice as long as if every byte that it moves came from DRAM."""
    rate = context.rate(DRAM)
    if rate is None:
        return pl.lit(True)
    return pl.col("moved_bytes") / rate < LOW * pl.col("time_s")
