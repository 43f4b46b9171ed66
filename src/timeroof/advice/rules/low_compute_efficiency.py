"""TR304."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from timeroof.advice.context import Context, kernel_count, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_percent, format_seconds
from timeroof.core.vocabulary import OpFamily

LOW = 0.5
# Sides that are multiples of it are loaded in whole vectors and fill a matrix unit's rows.
TILE = 8
NAMED_SIDES = 3


class LowComputeEfficiency(Rule):
    """Kernels bound by arithmetic that reach less than half of its roof.

    **What.** Rows limited by a FLOP ceiling that run at less than 50 % of it, where no other
    finding explains them.

    **Why.** The algorithm does not fit the shape, or the last tiles are mostly padding. There may
    be fewer tiles than cores, missing threads, threads that share cores, or a low clock.

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
        " channels_last.",
        "torch convolution": "Let cuDNN choose: torch.backends.cudnn.benchmark = True. Use"
        " channels_last.",
        "torch cpu": "Check the threads: OMP_NUM_THREADS = physical cores, pinned.",
        "torch compiled": "Compile with mode='max-autotune', which picks faster kernels. More work"
        " per call fills more of the device.",
        "torch attention": "Try another attention backend: torch.nn.attention.sdpa_kernel.",
        "torch": "Try torch.compile(mode='max-autotune'), which picks faster kernels. More work per"
        " call fills more of the device.",
        "tensorflow convolution": "Keep cuDNN auto-tuning on (TF_CUDNN_USE_AUTOTUNE=1).",
        "any": "Try another algorithm, and more parallel work.",
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
        sides = _odd_sides(rows)
        many = context.counted(kernel_count(rows), "compute-bound ")
        why = (
            f"{many} {format_seconds(time_s)}"
            f" ({context.share(time_s)}), at {format_percent(reached)} of peak."
            + _achievable(context, rows)
            + (f" Sides that are not multiples of {TILE}: {_listed(sides)}." if sides else "")
            + places(rows)
        )
        action = context.action(self.actions, rows)
        if sides:
            action += f" Pad the sides that are not multiples of {TILE} ({_listed(sides)})."
        title = (
            f"Compute-bound {context.noun}s reach {format_percent(reached)} of peak:"
            f" {context.of_run(time_s)}"
        )
        evidence = {
            "time_s": time_s,
            "efficiency": reached,
            "odd_sides": sides,
            "threads": context.threads,
        }
        return self.claim(context, rows, why, evidence, title=title, action=action)


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


def _odd_sides(rows: pl.DataFrame) -> list[int]:
    """The sides of the rows' matrices that padding would help, those of the longest rows first."""
    shapes = rows.sort("time_s", descending=True).select("shape", "op_family").drop_nulls("shape")
    sides = [
        side
        for shape, family in shapes.iter_rows()
        for side in odd_sides(shape, channels=family == OpFamily.CONVOLUTION)
    ]
    return list(dict.fromkeys(sides))


def _listed(sides: Sequence[int]) -> str:
    return ", ".join([str(s) for s in sides[:NAMED_SIDES]] + ["…"] * (len(sides) > NAMED_SIDES))


def odd_sides(shape: Sequence[Sequence[int]], *, channels: bool = False) -> list[int]:
    """The sides of a product that are no multiple of a small tile; of a convolution its channels.

    How many samples or tokens there are is no matter of padding: only the side over which the
    first matrix is summed counts, and both of the second.

    >>> odd_sides([[788, 768], [768, 1001]]), odd_sides([[129]]), odd_sides([[4096, 1024]])
    ([1001], [], [])
    >>> odd_sides([[8, 3, 224, 224], [100, 3, 7, 7]], channels=True)
    [100]
    """
    matrices = [sizes for sizes in shape if len(sizes) >= 2]
    if channels:
        sides = [side for sizes in matrices if len(sizes) >= 3 for side in sizes[:2][-1:]]
        sides += [sizes[0] for sizes in matrices[1:2] if len(sizes) >= 3]
    else:
        sides = [m[-1] for m in matrices[:1]] + [side for m in matrices[1:] for side in m[-2:]]
    return [side for side in dict.fromkeys(sides) if side > TILE and side % TILE]
