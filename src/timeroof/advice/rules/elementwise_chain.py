"""TR203."""

from __future__ import annotations

from math import prod

import polars as pl

from timeroof.advice.context import Context, in_family, main_module, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_amount, format_seconds
from timeroof.core.vocabulary import OpFamily

# A chain is at least this many calls on tensors of one shape in one place.
MIN_CALLS = 2
MIN_TIME_SHARE = 0.05
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
    title = "Element-wise ops are not fused"
    actions = {
        "torch": "Compile the module that holds the chain with torch.compile, which fuses it.",
        "torch optimizer": "Use the fused optimizer, such as torch.optim.AdamW(..., fused=True), or"
        " compile its step: torch.compile(optimizer.step).",
        "torch compiled": "Find what splits the compiled region: TORCH_LOGS=graph_breaks. Ops"
        " between graph breaks and outside of the compiled module are not fused.",
        "tensorflow": "Compile the function with tf.function(jit_compile=True).",
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
            f" {format_seconds(time_s)} ({context.share(time_s)}) and move"
            f" {format_amount(moved, 'B')}. Fusion saves up to"
            f" {format_amount(moved - kept, 'B')} of it.{places(rows)}"
        )
        title = f"Unfused element-wise ops take {context.of_run(time_s)}"
        evidence = {
            "calls": float(rows["calls"].sum()),
            "chains": chains,
            "bytes": moved,
            "bytes_vanishing": moved - kept,
        }
        action = _named(context.action(self.actions, rows), rows)
        return self.claim(context, rows, why, evidence, title=title, action=action)


# Ops that do a whole module in one kernel, by what modules are called.
FUSED_OPS = {"rmsnorm": "F.rms_norm", "gelu": "F.gelu", "silu": "F.silu", "swish": "F.silu"}


def _named(action: str, rows: pl.DataFrame) -> str:
    """The advice with the module that it is about, and the fused ops for modules of these rows."""
    module = main_module(rows)
    if module is not None:
        action = action.replace("the module that holds the chain", module, 1)
    names = " ".join(rows["module"].drop_nulls().unique().to_list()).lower().replace("_", "")
    fused = [op for word, op in FUSED_OPS.items() if word in names]
    if not fused or "torch.compile" not in action:
        return action
    return f"{action} Or call a fused op: {', '.join(dict.fromkeys(fused))}."


def _chains(context: Context) -> pl.DataFrame:
    """Element-wise rows of chains, with the bytes that fusion keeps and the seconds it saves."""
    rows = context.rows.filter(
        in_family(OpFamily.ELEMENTWISE),
        ~pl.col("tiny") & (pl.col("limit") != "unknown"),
        # An optimizer whose whole step can be one pass has TR209.
        ~((pl.col("phase") == "optimizer") & ("optimizer" in context.fused_s)).fill_null(False),
        pl.col("shape").is_not_null() & (pl.col("moved_bytes") > 0),
    )
    rows = rows.with_columns(_largest(rows["shape"]).alias("shape_of_output"))
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


def _largest(shapes: pl.Series) -> pl.Series:
    """The largest tensor of each row: for element-wise ops the output has its shape."""
    return pl.Series([max(shape, key=prod) for shape in shapes.to_list()], dtype=pl.List(pl.Int64))
