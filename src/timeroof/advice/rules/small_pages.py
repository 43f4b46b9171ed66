"""TR210."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, kernel_count, places
from timeroof.advice.rule import Claim, Rule, flop_bound
from timeroof.advice.rules.fresh_memory import KEEP_MEMORY
from timeroof.core.machine import HUGE_PAGES
from timeroof.core.units import format_seconds

# More than a core's address translations cover in pages of 4 kB (some 2,000 of them).
MIN_BYTES = 8 << 20
MIN_TIME_SHARE = 0.1
# The most that huge pages were measured to give.
MOST_SPEEDUP = 1.34


class SmallPages(Rule):
    """Large arrays in pages of 4 kB, where huge pages are to be had for the asking.

    **What.** Memory-bound ops of a CPU that move 8 MiB or more per call, a tenth of a step or
    more, on a system that gives huge pages only to programs that ask (`madvise`).

    **Why.** A core keeps some 2,000 address translations. Larger arrays in small pages miss it all
    the time, and in a virtual machine each miss walks two tables.

    **Measured.** Huge pages and memory that is kept made a chain of element-wise ops 1.34 times
    [1.13, 1.60] as fast, a U-Net 1.32 [1.16, 1.49] and GPT-2 1.13 to 1.27 times, bit for bit the
    same (one CPU).

    **Example.** Activations of 64 MB on a server whose
    `/sys/kernel/mm/transparent_hugepage/enabled` reads `[madvise]`.

    **Seconds.** A quarter of their time: the most that was measured.

    **Silent** on GPUs, for recorded files, and where the system gives huge pages to everybody or
    nobody.
    """

    code = "TR210"
    name = "small-pages"
    explains = False
    title = "Large arrays lie in small pages"
    actions = {
        "any": f"Use huge pages (glibc 2.35 or later): `{KEEP_MEMORY} python ...`. Results stay the"
        " same bit for bit.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Memory-bound ops on large arrays."""
        machine = context.machine
        if machine is None or machine.software.get(HUGE_PAGES) != "madvise":
            return []
        # Misses may make an op so slow that its bytes explain hardly any of its time.
        far_from_bound = (pl.col("limit") == "latency") & (
            pl.col("memory_s") >= flop_bound(context.rows)
        )
        rows = context.rows.filter(
            pl.col("limit").is_in(["memory", "fault"]) | far_from_bound,
            pl.col("moved_bytes") / pl.col("calls") >= MIN_BYTES,
        )
        time_s = float(rows["time_s"].sum())
        if time_s < MIN_TIME_SHARE * context.total_s or not context.ran_on_a_cpu:
            return []
        saved = 1 - 1 / MOST_SPEEDUP
        rows = rows.with_columns((pl.col("time_s") * saved).alias("busy_gain_s"))
        why = (
            f"{kernel_count(rows)} memory-bound ops on large arrays take {format_seconds(time_s)}"
            f" ({context.share(time_s)}). This system gives huge pages only on request;"
            f" they made such programs up to {MOST_SPEEDUP}× faster.{places(rows)}"
        )
        title = f"Large arrays in 4 kB pages slow {context.of_run(time_s)}"
        evidence = {"time_s": time_s, "most_speedup": MOST_SPEEDUP}
        return self.claim(context, rows, why, evidence, title=title)
