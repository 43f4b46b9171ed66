"""How fast bytes are moved: at the roof, from a cache, into fresh pages, too slowly."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, is_layout
from timeroof.advice.rule import Claim, Rule
from timeroof.core.resources import DRAM, FAULT
from timeroof.core.units import format_percent, format_seconds

NEAR = 0.8
MIN_NEAR_SHARE = 0.1


class NearBandwidthRoof(Rule):
    """Kernels that already move their bytes as fast as the memory can.

    **What.** Rows bound by memory that reach 80 % of their roof or more, together a tenth of
    the run or more.

    **Why.** There is nothing to tune in them: no better kernel for the same bytes exists. Only
    less traffic helps, and whether that is possible depends on the model.

    **Example.** A large layer norm or an embedding lookup at 90 % of the memory bandwidth.

    **Seconds.** None are claimed.

    **Silent** below a tenth of the run.
    """

    code = "TR204"
    name = "near-bandwidth-roof"
    title = "At the memory's roof: only less traffic helps"
    actions = {
        "any": "Leave these kernels as they are. Fusing them with their neighbours, a narrower"
        " format or not doing the work are the only ways to take less time."
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows that are as fast as memory allows."""
        rows = context.rows.filter(
            pl.col("limit") == "memory",
            pl.col("kernel_efficiency") >= NEAR,
            pl.col("above_roof").is_null(),
        )
        time_s = float(rows["time_s"].sum())
        if time_s < MIN_NEAR_SHARE * context.total_s or not time_s:
            return []
        reached = float(rows["work_bound_s"].sum()) / time_s
        why = (
            f"{rows.height} rows, {format_seconds(time_s)}"
            f" ({format_percent(time_s / context.total_s)} of the run), run at"
            f" {format_percent(reached)} of the memory's roof."
        )
        return self.inform(context, rows, why, {"time_s": time_s, "efficiency": reached})


MIN_CACHED_SHARE = 0.05


class CacheResident(Rule):
    """Kernels faster than memory, because their data are still in a cache.

    **What.** Rows above the DRAM roof whose bytes per call fit the largest cache, together 5 %
    of the run or more.

    **Why.** It is good news, and a warning for comparisons: with larger tensors, cold caches or
    another order of ops these kernels fall back to the speed of memory.

    **Example.** ReLU on the 4 MB output of the layer just before it.

    **Seconds.** None are claimed.

    **Silent** below 5 % of the run and without the sizes of caches.
    """

    code = "TR205"
    name = "cache-resident"
    title = "Data come from the cache, not from memory"
    actions = {
        "any": "Keep it so: small working sets, ops that follow each other closely. Judge"
        " these rows by their cache's ceiling, and measure with cold caches before comparing."
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows flagged as cache-resident."""
        rows = context.rows.filter(pl.col("above_roof") == "cache-resident")
        time_s = float(rows["time_s"].sum())
        if time_s < MIN_CACHED_SHARE * context.total_s or not time_s:
            return []
        excess = float(rows["work_bound_s"].sum()) / time_s
        why = (
            f"{rows.height} rows ({format_seconds(time_s)},"
            f" {format_percent(time_s / context.total_s)} of the run) are {excess:.2f}"
            " times as fast as memory could feed them; their data fit a cache."
        )
        return self.inform(context, rows, why, {"time_s": time_s, "times_roof": excess})


# Page faults hold at least this part of a row's time.
MIN_FAULT_SHARE = 0.25
# glibc gives large blocks back at once and takes their pages anew; so set, it keeps them. Huge
# pages belong to it: without them large results still came in fresh pages each time.
KEEP_MEMORY = (
    "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 MALLOC_MMAP_THRESHOLD_=4294967296"
    " MALLOC_TRIM_THRESHOLD_=8589934592 MALLOC_TOP_PAD_=67108864"
)


class FreshMemory(Rule):
    """Kernels slowed by touching memory for the first time.

    **What.** Rows whose page faults take a quarter of their time or more.

    **Why.** The allocator gave large buffers back to the system after the last step; now every
    page of the new ones is mapped and zeroed when it is first written. The same element-wise op
    ran at 31 GB/s into an existing tensor and at 5.4 GB/s into a new one of 64 MB.

    **Example.** `y = x + 1` with 64 MB results in every step, glibc's malloc: 16385 page faults
    each time. With the settings below there are 32, of huge pages.

    **Measured.** The settings below made training steps of GPT-2 and a U-Net and a chain of
    element-wise ops 1.13 to 1.34 times as fast, with the same results bit for bit (one CPU, 95 %
    intervals above 1). tcmalloc changed nothing there (0.99). jemalloc with its usual settings took
    every page anew and made the chain 3.4 times slower. It keeps memory only with
    `MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1`.

    **Seconds.** Time less the bound without faults.

    **Silent** where faults are not counted, and below 1 % of the run.
    """

    code = "TR206"
    name = "fresh-memory"
    title = "Fresh memory is touched page by page"
    actions = {
        "torch": f"Keep freed memory in the process and use huge pages (glibc 2.35 or later):"
        f" `{KEEP_MEMORY} python ...`. Reuse outputs (out=, in-place ops).",
        "any": "Reuse buffers, keep freed memory in the process, use huge pages.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows that page faults slow down."""
        if FAULT not in context.rows.columns:
            return []
        after = context.bound_after(pl.col("work_bound_s").fill_null(0.0), fault_s=pl.lit(0.0))
        rows = context.rows.filter(
            pl.col("fault_s") > 0, pl.col("fault_s") >= MIN_FAULT_SHARE * pl.col("time_s")
        ).with_columns((pl.col("time_s") - after).alias("busy_gain_s"))
        if not rows.height:
            return []
        faults, fault_s = float(rows[FAULT].sum()), float(rows["fault_s"].sum())
        time_s = float(rows["time_s"].sum())
        why = (
            f"{faults:,.0f} pages are touched for the first time, which takes at least"
            f" {format_seconds(fault_s)}, {format_percent(fault_s / time_s)} of these"
            f" kernels' time."
        )
        evidence = {"faults": faults, "fault_bound_s": fault_s, "time_s": time_s}
        return self.claim(context, rows, why, evidence)


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

    **Silent** for rows that DRAM bytes are not known of, and below 1 % of the run.
    """

    code = "TR207"
    name = "low-bandwidth"
    last_resort = True
    title = "Memory is used at less than half of its speed"
    actions = {
        "torch cpu": "Check threads (OMP_NUM_THREADS, pinning, NUMA), make inputs contiguous in the"
        " dimension that is walked, and use wider tensors per call.",
        "torch": "Make the walked dimension contiguous, use torch.compile for gathers and"
        " reductions, larger tensors per kernel.",
        "any": "Walk memory in order, with more parallel accesses.",
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
            f"{rows.height} rows that memory limits take {format_seconds(time_s)} and reach"
            f" {format_percent(reached)} of its roof."
        )
        return self.claim(context, rows, why, {"time_s": time_s, "efficiency": reached})


def _slower_than_memory(context: Context) -> pl.Expr:
    """Whether a row takes twice as long as if every byte that it moves came from DRAM."""
    rate = context.rate(DRAM)
    if rate is None:
        return pl.lit(True)
    return pl.col("moved_bytes") / rate < LOW * pl.col("time_s")
