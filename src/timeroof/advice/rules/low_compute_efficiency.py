"""TR304."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from timeroof.advice.context import Context, kernel_count, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_percent, format_seconds

LOW = 0.5
TILE = 16


class LowComputeEfficiency(Rule):
    """Kernels bound by arithmetic that reach less than half of its roof.

    **What.** Rows limited by a FLOP ceiling that run at less than 50 % of it, where no other
    finding explains them.

    **Why.** The algorithm does not fit the shape (another one might), the last tiles are mostly
    padding (a side just above a multiple of the tile), there are fewer tiles than cores,
    threads are missing or share cores, or the clock is low.

    **Example.** A product with a side of 129 in tiles of 128: half of the second tile is
    wasted.

    **Seconds.** Time less the bound.

    **Silent** below 1 % of the run; rows without FLOPs or a ceiling have no such limit.
    """

    code = "TR304"
    name = "low-compute-efficiency"
    last_resort = True
    title = "Compute-bound kernels reach less than half of peak"
    actions = {
        "torch convolution cpu": "Check the threads: OMP_NUM_THREADS = physical cores, pinned. Use"
        " channels_last, and channels that are multiples of 16.",
        "torch convolution": "Let cuDNN choose: torch.backends.cudnn.benchmark = True. Use"
        " channels_last, and channels that are multiples of 64.",
        "torch cpu": "Check the threads: OMP_NUM_THREADS = physical cores, pinned. Pad sides of"
        " matrices to multiples of 16.",
        "torch": "Pad sides of matrices to multiples of 64 or 128. Try"
        " torch.compile(mode='max-autotune'), which picks faster kernels. Larger batches fill"
        " more of the device.",
        "tensorflow convolution": "Keep cuDNN auto-tuning on (TF_CUDNN_USE_AUTOTUNE=1), and pad"
        " channels to multiples of 64.",
        "any": "Try another algorithm, sides that fill the tiles, and more parallel work.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Slow rows among those that arithmetic limits."""
        rows = context.rows.filter(
            pl.col("limit") == "compute",
            pl.col("kernel_efficiency") < LOW,
            ~pl.col("tiny") & (pl.col("work_bound_s") > 0),
        ).with_columns(
            (pl.col("time_s") - context.bound_after(pl.col("work_bound_s"))).alias("busy_gain_s")
        )
        time_s = float(rows["time_s"].sum())
        if not time_s:
            return []
        reached = float(rows["work_bound_s"].sum()) / time_s
        odd = [s for s in rows["shape"].drop_nulls().to_list() if has_odd_side(s)]
        why = (
            f"{kernel_count(rows)} compute-bound {context.noun}s take {format_seconds(time_s)}"
            f" ({context.share(time_s)}) and reach {format_percent(reached)} of peak."
            + _achievable(context, rows)
            + (f" {len(odd)} shapes have sides that do not fill a tile of {TILE}." if odd else "")
            + places(rows)
        )
        title = (
            f"Compute-bound {context.noun}s reach {format_percent(reached)} of peak:"
            f" {context.of_run(time_s)}"
        )
        evidence = {
            "time_s": time_s,
            "efficiency": reached,
            "rows_with_odd_sides": len(odd),
            "threads": context.threads,
        }
        return self.claim(context, rows, why, evidence, title=title)


def _achievable(context: Context, rows: pl.DataFrame) -> str:
    """How much of the best published rate these rows reach, where somebody published one."""
    limiters = rows["limiter"].unique().to_list()
    machine = context.machine
    best = machine.achievable_rate(limiters[0]) if machine and len(limiters) == 1 else None
    flops, time_s = float(rows["total_flops"].sum()), float(rows["time_s"].sum())
    if best is None or not flops:
        return ""
    share = format_percent(flops / time_s / best.rate)
    return f" That is {share} of the best rate published for real kernels."


def has_odd_side(shape: Sequence[Sequence[int]]) -> bool:
    """Whether a matrix has a side that is no multiple of a small tile.

    >>> has_odd_side([[129, 64], [64, 64]]), has_odd_side([[128, 64]]), has_odd_side([[129]])
    (True, False, False)
    """
    sides = [side for sizes in shape if len(sizes) >= 2 for side in sizes[-2:]]
    return any(side > TILE and side % TILE for side in sides)
