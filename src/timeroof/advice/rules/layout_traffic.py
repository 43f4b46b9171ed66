"""TR201."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, is_layout, main_module, mostly_transfers, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_amount, format_seconds
from timeroof.model.bounds import where_settled

MIN_TIME_SHARE = 0.05
# Reorders that are a smaller part of their op leave its kernels as they are.
MIN_OP_SHARE = 0.1
# What the kernels between the copies lose, beside the copies' own time.
WORTH_SAYING = 0.05
# Kernels without FLOPs whose results are needed all the same.
NEEDED = r"(?i)(index|gather|scatter|embedding|sort|top_?k|pool|random|philox|dropout|fill|nccl)"


class LayoutTraffic(Rule):
    """Copies and layout changes: bytes moved without a single FLOP.

    **What.** Rows without FLOPs that only rearrange or copy data: reorders between memory
    formats, transposes, `contiguous`, `clone`, `cat`, casts and copies between host and device;
    and kernels that counters saw no FLOPs in, where no op tells what they are for. Together 5 %
    of the run or more.

    **Why.** They produce nothing new. Libraries insert them where a kernel wants another memory
    format than it is given: in the paper TensorFlow's FP32 convolutions move four to five times
    the bytes of PyTorch's that way, and 40 to 57 % of DeepCAM's launches have no FLOPs.

    **Example.** A convolution net in NCHW on a CPU: oneDNN reorders the input and output of
    every layer to its blocked format and back.

    **Seconds.** All of their time: the cure removes them. Beside it what kernels of the same op are
    above their bounds, where reorders are a tenth of the op or more: in the other format they are
    other kernels. Some copies may be needed and some kernels stay as they are, so it is a limit.

    **Silent** below 5 % of the run, and where FLOPs of the rows are not known to be zero.
    """

    code = "TR201"
    name = "layout-traffic"
    title = "Copies and layout changes"
    removes = True
    # Copies of one row are of many sizes: that their times differ is no noise.
    seen = True
    actions = {
        "torch transfer": "Overlap transfers between host and device with computation: pinned"
        " memory and .to(device, non_blocking=True). Keep on the device what is used again.",
        "transfer": "Overlap transfers between host and device with computation: pinned memory and"
        " asynchronous copies. Keep on the device what is used again.",
        "torch convolution": "Keep one memory format: model.to(memory_format=torch.channels_last),"
        " and the same for its inputs. Avoid permute().contiguous() between layers.",
        "torch": "Compile the module that copies most with torch.compile, which fuses casts, cat"
        " and copies into their neighbours. Or avoid them: permute().contiguous(), repeated"
        " .to(), cat. Write results into slices of one tensor.",
        "torch compiled": "Remove the copies that compilation leaves: avoid permute().contiguous()"
        " and .to() at the borders of the compiled region. Write results into slices of one"
        " tensor.",
        "tensorflow convolution": "Keep the data format that the kernels want: NHWC on tensor"
        " cores and CPUs, NCHW for FP32 on a GPU. Leave grappler's layout optimizer on.",
        "tensorflow": "Remove transposes and casts between layers, or fuse them with"
        " tf.function(jit_compile=True).",
        "any": "Remove the copies, or fuse them into the kernels around them.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows that only move data."""
        rows = context.rows.filter(
            is_layout() | _without_purpose(),
            (pl.col("known_flops") == 0) | (pl.col("kind") == "copy"),
            pl.col("phase").fill_null("other") != "data",
        ).with_columns(pl.col("time_s").alias("busy_gain_s"))
        time_s = float(rows["time_s"].sum())
        if time_s < MIN_TIME_SHARE * context.total_s:
            return []
        moved = float(rows["moved_bytes"].fill_null(0.0).sum())
        beside = _between(context, rows)
        beside_s = float(beside["busy_gain_s"].sum())
        if beside_s < WORTH_SAYING * time_s:
            beside, beside_s = beside.clear(), 0.0
        count = max(rows["launches"].sum(), rows["calls"].sum())
        why = (
            f"{count:,.0f} copies and layout changes move"
            f" {format_amount(moved, 'B')} in {format_seconds(time_s)} ({context.share(time_s)})"
            " and compute nothing."
        )
        what = "Copies between host and device" if mostly_transfers(rows) else self.title
        title = f"{what} take {context.of_run(time_s)}"
        evidence = {"time_s": time_s, "bytes": moved, "launches": float(rows["launches"].sum())}
        if beside_s:
            title = f"{what} cost {context.of_run(time_s + beside_s)}"
            why += (
                f" The {context.noun}s between them lose another {format_seconds(beside_s)}:"
                " with one layout the library can pick faster ones."
            )
            evidence["served_kernels_gap_s"] = beside_s
        why += places(rows)
        both = pl.concat([rows, beside], how="vertical")
        action = context.action(self.actions, both)
        if (module := main_module(rows)) is not None:
            action = action.replace("the module that copies most", module, 1)
        return self.claim(context, both, why, evidence, title=title, action=action)


def _between(context: Context, copies: pl.DataFrame) -> pl.DataFrame:
    """Kernels of ops that reorder their data, with what each is above its bound."""
    place = ["op", "module", "phase"]
    below = pl.col("kind").is_in(["primitive", "kernel"]) & pl.col("op").is_not_null()
    of_op = context.rows.filter(below)
    shares = of_op.group_by(place).agg(
        pl.col("time_s").filter(pl.col("id").is_in(copies["id"].to_list())).sum().alias("copied_s"),
        pl.col("time_s").sum().alias("op_s"),
    )
    reordering = shares.filter(pl.col("copied_s") >= MIN_OP_SHARE * pl.col("op_s"))
    served = of_op.join(reordering.select(place), on=place, how="semi", nulls_equal=True)
    gap = pl.col("time_s") - context.bound_after(pl.col("work_bound_s"))
    return served.filter(~pl.col("id").is_in(copies["id"].to_list())).with_columns(
        where_settled(gap).fill_null(0.0).clip(lower_bound=0.0).alias("busy_gain_s")
    )


def _without_purpose() -> pl.Expr:
    """Device kernels that no op explains and whose name is not one of those that are needed."""
    device = pl.col("kind").is_in(["kernel", "unit"]) & pl.col("op").is_null()
    unknown = pl.col("op_family").is_null()
    return device & unknown & ~pl.col("name").str.contains(NEEDED)
