"""TR206."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.machine import FAULT
from timeroof.core.units import format_percent, format_seconds

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
    title = "Page faults slow kernels down"
    actions = {
        "torch": f"Keep freed memory in the process and use huge pages (glibc 2.35 or later):"
        f" `{KEEP_MEMORY} python ...`. Reuse outputs with out= or in-place ops.",
        "any": "Reuse buffers, keep freed memory in the process, and use huge pages.",
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
            f"{faults:,.0f} page faults take at least {format_seconds(fault_s)}:"
            f" {format_percent(fault_s / time_s)} of these {context.noun}s' time.{places(rows)}"
        )
        title = f"Page faults take at least {context.of_run(fault_s)}"
        evidence = {"faults": faults, "fault_bound_s": fault_s, "time_s": time_s}
        return self.claim(context, rows, why, evidence, title=title)
