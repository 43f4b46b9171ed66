"""TR208."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import polars as pl

from timeroof.advice.context import Context, in_family, places
from timeroof.advice.rule import Claim, Rule, flop_bound
from timeroof.core.machine import DRAM
from timeroof.core.units import format_seconds
from timeroof.core.vocabulary import OpFamily

MIN_TIME_SHARE = 0.05
# Fused kernels want head sizes and lengths that are multiples of this.
TILE = 8
PRODUCTS = (OpFamily.BATCHED_PRODUCT, OpFamily.PRODUCT)
BETWEEN = (OpFamily.SOFTMAX, OpFamily.ELEMENTWISE, OpFamily.COPY, OpFamily.LAYOUT)


# Elements of a batch of matrices and its two sides in order: transposed, it is the same one.
Size = tuple[int, int, int]


class Product(NamedTuple):
    """A batched product: its operands, its result, and all its sides."""

    operands: tuple[Size, Size]
    result: Size
    sides: tuple[int, ...]


class EagerAttention(Rule):
    """Attention as separate products and a softmax, with the score matrix in memory.

    **What.** A softmax whose input is the result of one batched product and the first operand of
    another, with the scaling, masking, dropout and casts on tensors of that size between them;
    forward and backward, together 5 % of the run or more.

    **Why.** The scores (batch × heads × length × length) are written and read by every op on the
    way. A fused kernel keeps them on the chip: only queries, keys, values and results move.

    **Example.** `torch.softmax(q @ k.transpose(-1, -2) / d**0.5 + mask, -1) @ v`.

    **Seconds.** Their time less that of one kernel with the products' FLOPs that moves all but the
    scores.

    **Silent** where shapes are not recorded, and where attention is fused already.
    """

    code = "TR208"
    name = "eager-attention"
    title = "Attention is not fused"
    actions = {
        "torch": "Use fused attention: nn.functional.scaled_dot_product_attention(q, k, v);"
        " nn.MultiheadAttention takes need_weights=False, Hugging Face models"
        " attn_implementation='sdpa'.",
        "jax": "Call jax.nn.dot_product_attention instead of einsum, softmax and einsum.",
        "tensorflow": "Use keras.layers.MultiHeadAttention with flash attention enabled.",
        "any": "Use a fused attention kernel.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """The rows of unfused attention."""
        rate = context.rate(DRAM)
        known = context.rows.filter(pl.col("shape").is_not_null())
        products = {
            row: product
            for row, shape in known.filter(in_family(*PRODUCTS)).select("id", "shape").iter_rows()
            if (product := product_of(shape)) is not None
        }
        scores = _score_sizes(known, list(products.values()))
        if rate is None or not scores:
            return []
        rows = known.filter(pl.Series(_belongs(known, products, scores), dtype=pl.Boolean))
        time_s = float(rows["time_s"].sum())
        if time_s < MIN_TIME_SHARE * context.total_s or not time_s:
            return []
        after_s = _fused_s(rows, products, scores, rate)
        saved = max(0.0, 1 - after_s / time_s)
        rows = rows.with_columns((pl.col("time_s") * saved).alias("busy_gain_s"))
        odd = sorted({s for i in rows["id"].to_list() if i in products for s in _odd(products[i])})
        why = (
            f"Separate products, softmax and element-wise {context.noun}s take"
            f" {format_seconds(time_s)} ({context.share(time_s)}). One fused kernel needs"
            f" {format_seconds(after_s)}: the scores never reach memory.{places(rows)}"
        )
        pad = f" Pad odd sides ({', '.join(map(str, odd[:3]))}) to multiples of {TILE}."
        action = context.action(self.actions) + (pad if odd else "")
        title = f"Unfused attention takes {context.of_run(time_s)}"
        evidence = {"time_s": time_s, "fused_bound_s": after_s, "odd_sides": odd}
        return self.claim(context, rows, why, evidence, title=title, action=action)


def matrix_size(sizes: Sequence[int]) -> Size:
    """The size of a batch of matrices.

    >>> matrix_size([2, 16, 559, 64]), matrix_size([32, 64, 559])
    ((1144832, 64, 559), (1144832, 64, 559))
    """
    low, high = sorted(sizes[-2:]) if len(sizes) > 1 else (1, prod(sizes))
    return prod(sizes), low, high


def product_of(shape: Sequence[Sequence[int]]) -> Product | None:
    """The batched product of a shape; its operands are the last two tensors.

    >>> product_of([[16, 559, 64], [16, 64, 559]]).result
    (4999696, 559, 559)
    >>> product_of([[8, 16], [16, 4]]) is None
    True
    """
    batched = [sizes for sizes in shape if len(sizes) >= 3]
    if len(batched) < 2:
        return None
    a, b = batched[-2:]
    if prod(a[:-2]) != prod(b[:-2]) or a[-1] != b[-2]:
        return None
    result = matrix_size([*a[:-1], b[-1]])
    return Product((matrix_size(a), matrix_size(b)), result, (a[-2], a[-1], b[-1]))


def _largest(shape: Sequence[Sequence[int]]) -> Size:
    return max((matrix_size(sizes) for sizes in shape), default=(0, 0, 0))


def _score_sizes(rows: pl.DataFrame, products: Sequence[Product]) -> set[Size]:
    """Sizes of score matrices: a softmax's, which one product makes and another one takes."""
    softmax = rows.filter(in_family(OpFamily.SOFTMAX))["shape"].to_list()
    made = {p.result for p in products}
    taken = {operand for p in products for operand in p.operands}
    return {_largest(shape) for shape in softmax} & made & taken


def _belongs(rows: pl.DataFrame, products: dict[int, Product], scores: set[Size]) -> list[bool]:
    """Whether a row makes, changes or takes a score matrix."""
    between = set(rows.filter(in_family(*BETWEEN))["id"].to_list())
    return [
        (row in products and bool(scores & {products[row].result, *products[row].operands}))
        or (row in between and _largest(shape) in scores)
        for row, shape in rows.select("id", "shape").iter_rows()
    ]


def _fused_s(
    rows: pl.DataFrame, products: dict[int, Product], scores: set[Size], rate: float
) -> float:
    """Seconds of one kernel that does the products and moves all but the scores."""
    own = rows.filter(pl.col("id").is_in(list(products)))
    compute_s = float(own.select(flop_bound(own).sum()).item())
    moved = 0.0
    for row, bytes_moved in own.select("id", pl.col("moved_bytes").fill_null(0.0)).iter_rows():
        sizes = [*products[row].operands, products[row].result]
        kept = sum(size[0] for size in sizes if size not in scores)
        moved += bytes_moved * kept / (sum(size[0] for size in sizes) or 1)
    return max(compute_s, moved / rate)


def _odd(product: Product) -> list[int]:
    return [side for side in product.sides if side > TILE and side % TILE]
