"""TR102."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from timeroof.advice.context import Context, in_family, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.report import BOUND
from timeroof.core.units import format_seconds
from timeroof.core.vocabulary import OpFamily

SMALL = 8
# Products this thin must hold this share of the run: a thin last layer alone is no small batch.
MIN_TIME_SHARE = 0.1
# Arithmetic takes at most this part of the time: a larger batch has room to fill.
MOST_COMPUTE = 0.5


class SmallBatch(Rule):
    """Matrix products so thin that weights are fetched, and kernels launched, for a few samples.

    **What.** Matrix products with a dimension of at most 8 whose FLOPs take less than half of
    their time at the roof, where they hold a tenth of the run or more.

    **Why.** A product of a few rows reads the whole weight matrix for each of them: its
    intensity is about the batch size. Until compute becomes the limit, more samples cost no
    more time.

    **Example.** Requests served one by one through `nn.Linear(2048, 2048)`: 16 MB are read per
    sample. 64 requests together read them once.

    **Seconds.** Time less the compute bound: what the same samples take in a batch large enough
    to amortise weights and launches.

    **Silent** where shapes are not known, and below 1 % of the run.
    """

    code = "TR102"
    name = "small-batch"
    title = "Matrix products are too thin to fill the machine"
    actions = {
        "torch training": "Process more samples per call: a larger batch, where memory allows.",
        "torch": "Process more samples per call: a larger batch, or requests collected before the"
        " model is called. Where latency forbids it (decoding token by token), quantise the"
        " weights: fewer bytes per sample.",
        "tensorflow": "Process more samples per call: dataset.batch(n) with a larger n, or"
        " batching in the server.",
        "any": "Process more samples per call. Where latency forbids it, quantise the weights:"
        " fewer bytes per sample.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Thin products that wait for weights or launches."""
        products = context.rows.filter(
            in_family(OpFamily.PRODUCT, OpFamily.BATCHED_PRODUCT), pl.col("shape").is_not_null()
        )
        flops = [c for c in products.columns if c.startswith(f"{BOUND}flop/")]
        if not products.height or not flops:
            return []
        thin = products.filter(
            _is_thin(products["shape"]),
            pl.max_horizontal(flops) <= MOST_COMPUTE * pl.col("time_s"),
        ).with_columns((pl.col("time_s") - pl.max_horizontal(flops)).alias("busy_gain_s"))
        time_s = float(thin["time_s"].sum())
        if time_s < MIN_TIME_SHARE * context.total_s:
            return []
        least = min(smallest_side(s) or SMALL for s in thin["shape"].to_list())
        compute_s = float(thin.select(pl.max_horizontal(flops).sum()).item())
        why = (
            f"Matrix products with a side of {least} take {format_seconds(time_s)}"
            f" ({context.share(time_s)}). Their arithmetic needs {format_seconds(compute_s)}; the"
            f" rest fetches weights and launches {context.noun}s.{places(thin)}"
        )
        title = f"Thin matrix products (a side of {least}) take {context.of_run(time_s)}"
        evidence = {"smallest_side": least, "time_s": time_s, "compute_bound_s": compute_s}
        return self.claim(context, thin, why, evidence, title=title)


def _is_thin(shapes: pl.Series) -> pl.Series:
    sides = [smallest_side(shape) for shape in shapes.to_list()]
    return pl.Series([side is not None and side <= SMALL for side in sides], dtype=pl.Boolean)


def smallest_side(shape: Sequence[Sequence[int]]) -> int | None:
    """The smallest side of the matrices of a product, vectors being one row.

    A library's product is one triple of sides, m × n × k; tensors come at least in pairs.

    >>> smallest_side([[1, 2048], [2048, 2048]]), smallest_side([[10], [64, 32], [32, 10]])
    (1, 10)
    >>> smallest_side([[2048, 1, 2048]]), smallest_side([[8, 1, 64], [8, 64, 64]])
    (1, 8)
    """
    matrices = [s for s in shape if len(s) >= 2]
    if not matrices:
        return None
    if len(matrices) == 1 and len(matrices[0]) == 3:
        return min(matrices[0])
    sides = [min(_flat_sides(s)) for s in matrices]
    return min(sides)


def _flat_sides(sizes: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a matrix, leading dimensions being more rows."""
    rows = 1
    for size in sizes[:-1]:
        rows *= size
    return rows, sizes[-1]
