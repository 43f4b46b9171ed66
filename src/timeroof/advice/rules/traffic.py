"""Bytes that need not be moved."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, in_family, is_layout
from timeroof.advice.rule import Claim, Rule
from timeroof.core.profile import LABEL
from timeroof.core.report import BOUND
from timeroof.core.resources import DRAM
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.core.vocabulary import OpFamily
from timeroof.model.bounds import where_settled

MIN_TIME_SHARE = 0.05
# Reorders that are a smaller part of their op leave its kernels as they are.
MIN_OP_SHARE = 0.1
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
    title = "Data are copied and reordered"
    removes = True
    actions = {
        "torch": "Keep one memory format: model.to(memory_format=torch.channels_last) and the same"
        " for inputs; avoid permute().contiguous(), repeated .to() and cat in inner loops; write"
        " into slices of one tensor.",
        "tensorflow": "Keep the data format that the kernels want (NHWC on tensor cores and CPUs,"
        " NCHW for FP32 on a GPU), and let grappler's layout optimizer on.",
        "any": "Choose one memory format for the whole model, the one that the kernels use.",
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
        why = (
            f"{rows.height} kinds of copies and reorders, {rows['launches'].sum():,.0f} launches,"
            f" move {format_amount(moved, 'B')} in {format_seconds(time_s)}"
            f" ({format_percent(time_s / context.total_s)} of the run) and compute nothing."
        )
        evidence = {"time_s": time_s, "bytes": moved, "launches": float(rows["launches"].sum())}
        if beside_s > 0:
            why += (
                f" The kernels that they serve are {format_seconds(beside_s)} above their bounds;"
                " in another format they are other kernels."
            )
            evidence["served_kernels_gap_s"] = beside_s
        return self.claim(context, pl.concat([rows, beside], how="vertical"), why, evidence)


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
    return device & ~pl.col("name").str.contains(NEEDED)


# Sources that know both what was moved and what must be put the latter into this label.
COMPULSORY = f"{LABEL}compulsory_bytes"
MIN_RATIO = 2.0
# DRAM holds at least this part of the time: elsewhere less traffic would not help.
MIN_MEMORY_SHARE = 0.3


class TrafficAboveCompulsory(Rule):
    """Measured memory traffic far above what inputs and outputs need.

    **What.** Rows whose counted DRAM bytes are twice the compulsory ones or more, while DRAM is
    a good part of their time. Compulsory bytes come from the label `compulsory_bytes`, else
    from the forward pass of another framework for the very same case, where it moves less.

    **Why.** Every input read once and every output written once is the least. Far more means
    extra layout kernels, a workspace (im2col, explicit padding), or tiles that do not fit the
    cache. In the paper TensorFlow moves 0.38 to 0.43 GB for an FP32 convolution that PyTorch
    does with 0.087.

    **Example.** An NHWC convolution in FP32 on a GPU whose kernels want NCHW.

    **Seconds.** Time less the bound with compulsory traffic.

    **Silent** where nothing tells the compulsory traffic.
    """

    code = "TR202"
    name = "traffic-above-compulsory"
    title = "Far more memory traffic than the work needs"
    actions = {
        "torch": "Use channels_last (or the format the kernels want), torch.backends.cudnn"
        ".benchmark=True so that another algorithm can be chosen, and fewer extra copies.",
        "tensorflow": "Give FP32 convolutions on a GPU data_format='channels_first' (or FP16 with"
        " channels_last), so that no layout kernels are added around them.",
        "any": "Change memory format or algorithm; block for the cache.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows with measured traffic far above the least."""
        rate = context.rate(DRAM)
        if rate is None or DRAM not in context.rows.columns:
            return []
        beside = (f"{BOUND}flop/", f"{BOUND}link/")
        others = [c for c in context.rows.columns if c.startswith(beside)]
        after = pl.max_horizontal(*others, pl.col("compulsory") / rate)
        rows = (
            with_compulsory(context.rows)
            .filter(
                pl.col(DRAM) >= MIN_RATIO * pl.col("compulsory"),
                pl.col(f"{BOUND}{DRAM}") >= MIN_MEMORY_SHARE * pl.col("time_s"),
            )
            .with_columns((pl.col("time_s") - context.bound_after(after)).alias("busy_gain_s"))
        )
        if not rows.height:
            return []
        moved, least = float(rows[DRAM].sum()), float(rows["compulsory"].sum())
        why = (
            f"{format_amount(moved, 'B')} were moved where {format_amount(least, 'B')} would do:"
            f" {moved / least:.1f} times as many, in {format_seconds(float(rows['time_s'].sum()))}."
        )
        evidence = {"bytes": moved, "compulsory_bytes": least, "ratio": moved / least}
        return self.claim(context, rows, why, evidence)


def with_compulsory(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `compulsory`: the label's bytes, else the least of the same case elsewhere."""
    told = pl.col(COMPULSORY) if COMPULSORY in rows.columns else pl.lit(None)
    told = told.cast(pl.Float64, strict=False)
    framework = f"{LABEL}framework"
    labels = [c for c in rows.columns if c.startswith(LABEL)]
    case = [c for c in labels if c not in (framework, COMPULSORY)]
    if framework not in labels or not case:
        return rows.with_columns(told.alias("compulsory"))
    least = pl.col(DRAM).min().over(["op", "phase", "dtype", *case])
    # Whole forward passes only: single kernels of two frameworks are not the same work, and
    # neither are their backward passes (input gradients or not, an optimizer's step or not).
    same = (pl.col("kind") == "unit") & (pl.col("phase").fill_null("forward") == "forward")
    same_case = pl.when(same & (least > 0)).then(least)
    return rows.with_columns(pl.coalesce(told, same_case).alias("compulsory"))


# A chain is at least this many calls on tensors of one shape in one place.
MIN_CALLS = 2
CHAIN = ["phase", "module", "shape_of_output", "stream", "rank"]


class ElementwiseChain(Rule):
    """Element-wise ops in a row, each reading and writing what the next one needs.

    **What.** Two or more element-wise calls on tensors of the same shape, in the same phase,
    module and stream, bound by memory or by fresh memory, together 5 % of the run or more.

    **Why.** Every op reads its inputs from memory and writes its result back. Fused into one
    kernel, the intermediate results stay in registers: the bytes between the ops vanish, and so
    do the allocations.

    **Example.** `y = torch.tanh(x * a + b) * x`: four ops move nine tensors; fused, it is two.

    **Seconds.** The chain's time less that of one kernel which moves as much as its smallest
    member. Which tensors are inputs from outside is not known, so it is a limit.

    **Silent** without shapes or bytes, for chains that fit one launch (TR101), below 5 % of the
    run.
    """

    code = "TR203"
    name = "elementwise-chain"
    title = "Element-wise ops could be one kernel"
    actions = {
        "torch": "torch.compile the function; or use fused ops (F.gelu, addcmul, SwiGLU and norm"
        " kernels of the libraries), and in-place ops where autograd allows.",
        "tensorflow": "tf.function(jit_compile=True).",
        "jax": "Put the chain under one jax.jit.",
        "any": "Fuse the ops into one kernel.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Groups of element-wise calls that one kernel could do."""
        rows = _chains(context)
        time_s = float(rows["time_s"].sum())
        if time_s < MIN_TIME_SHARE * context.total_s:
            return []
        moved, kept = float(rows["moved_bytes"].sum()), float(rows["kept_bytes"].sum())
        chains = rows.select(CHAIN).n_unique()
        why = (
            f"{rows['calls'].sum():,.0f} element-wise calls in {chains} places take"
            f" {format_seconds(time_s)} ({format_percent(time_s / context.total_s)}) and move"
            f" {format_amount(moved, 'B')}; fused, up to {format_amount(moved - kept, 'B')} of that"
            " vanish."
        )
        evidence = {"calls": float(rows["calls"].sum()), "chains": chains}
        evidence |= {"bytes": moved, "bytes_vanishing": moved - kept}
        return self.claim(context, rows, why, evidence)


def _chains(context: Context) -> pl.DataFrame:
    """Element-wise rows of chains, with the bytes that fusion keeps and the seconds it saves."""
    rows = context.rows.filter(
        in_family(OpFamily.ELEMENTWISE),
        ~pl.col("tiny") & (pl.col("limit") != "unknown"),
        pl.col("shape").is_not_null() & (pl.col("moved_bytes") > 0),
    ).with_columns(_first_shape().alias("shape_of_output"))
    rows = rows.with_columns(
        pl.col("calls").sum().over(CHAIN).alias("chain_calls"),
        _one_kernel("moved_bytes").over(CHAIN).alias("chain_bytes"),
        _one_kernel("memory_s").over(CHAIN).fill_null(0.0).alias("chain_bound_s"),
        pl.col("time_s").sum().over(CHAIN).alias("chain_s"),
        pl.col("moved_bytes").sum().over(CHAIN).alias("chain_moved"),
    ).filter(pl.col("chain_calls") >= MIN_CALLS)
    share = pl.col("time_s") / pl.col("chain_s")
    return rows.with_columns(
        (pl.col("chain_bytes") * share).alias("kept_bytes"),
        (pl.col("time_s") - pl.col("chain_bound_s") * share).alias("busy_gain_s"),
    ).filter(pl.col("chain_bytes") < 0.75 * pl.col("chain_moved"))


def _one_kernel(amount: str) -> pl.Expr:
    """One kernel per repetition of the chain, which takes what the smallest member takes."""
    return (pl.col(amount) / pl.col("calls")).min() * pl.col("calls").min()


def _first_shape() -> pl.Expr:
    """The first shape that a row's shapes name: for element-wise ops as good as the output's."""
    first = pl.col("shape").str.extract(r"([\d]+(?:\s*[,x×]\s*\d+)*)", 1)
    return first.str.replace_all(r"\s", "")
