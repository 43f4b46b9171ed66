"""A mixture of experts as kernels of TensorRT-LLM and AITER run it.

TensorRT-LLM's sizes follow from names and grids. The op records the tokens (T, hidden) and the
router's scores (T, experts); the experts' weights lie in a layer that no record mentions. Two
batched products remain as kernels
``bmm_<out>_<weights><input>_Fp32_t128x16x256...``:

- the grid's first number times the first tile size is the number of rows of the weights;
- its second number is the most tiles that T·k rows can need, one token for every expert
  and the rest in full tiles: experts + (T·k - experts) / tile. That gives k;
- ``swiGlu`` in the first product's name halves its rows into the second one's depth.

All of this is inferred, and unknown unless the numbers come out whole. Which experts were
used is data: all that T·k rows can reach are taken as used.
"""

from __future__ import annotations

import re

import msgspec

from timeroof.work.call import Arg, Call, Tensor, UncountableError, integer, ranked
from timeroof.work.cost import Cost, cost
from timeroof.work.counting import Grid, Kernel, kernel_formula
from timeroof.work.families.matmul import QUANTISE_FLOPS
from timeroof.work.registry import formula

_PRODUCT = re.compile(
    r"^bmm_(?P<out>[A-Za-z0-9]+)_(?P<weight>Mx\w\d+m\d|E\dm\d|Bfloat16|Fp16)"
    r"(?P<input>Mx\w\d+m\d|E\dm\d|Bfloat16|Fp16)?_Fp32_t(?P<rows>\d+)x(?P<tokens>\d+)x\d+"
)
_FORMATS = {"E2m1": "fp4", "E4m3": "fp8", "E5m2": "fp8", "Bfloat16": "bf16", "Fp16": "fp16"}
_SCALED = 32  # elements that share a scale of one byte in the Mx formats
_GATED = ("swiGlu", "geGlu")
EVERY_EXPERT = (
    "sizes taken from the kernels' names and grids; every expert is taken as used",
)  # fmt: skip
USED_EXPERTS = ("every expert that rows can reach is taken as used",)
SELECT_FLOPS, ROUTE_BYTES = 5, 4  # softmax over what was selected; an index or score


class Product(msgspec.Struct, frozen=True):
    """One batched product over experts: `rows` of weights, `depth` summed over."""

    rows: int
    depth: int
    weight: str
    given: str
    out: str
    gated: bool


class Experts(msgspec.Struct, frozen=True):
    """The layer: tokens, width, experts, how many of them a token goes to, and its products."""

    tokens: int
    hidden: int
    experts: int
    chosen: int
    dtype: str
    first: Product
    second: Product

    @property
    def routed(self) -> int:
        """Rows of all experts together."""
        return self.tokens * self.chosen


def experts_of(call: Call, kernel: Kernel) -> Experts:
    """The layer's sizes, where the two products' names and grids tell them."""
    x, scores = ranked(call.inputs[0], "the tokens", 2), ranked(call.inputs[1], "the scores", 2)
    found = [(m, g, n) for n, g in kernel.launched if (m := _PRODUCT.match(n))]
    if len(found) != 2 or x.shape[0] != scores.shape[0]:
        raise UncountableError(
            "the experts' weights are not among the recorded arguments, nor do kernels tell them"
        )
    found.sort(key=lambda one: not any(w in one[2] for w in _GATED))
    tokens, experts = scores.shape
    chosen = {_chosen(tokens, experts, int(m["tokens"]), g) for m, g, _ in found}
    if len(chosen) != 1:
        raise UncountableError("the two products do not agree on the rows of the experts")
    first = _product(*found[0], depth=x.shape[1])
    if not first.gated or any(w in found[1][2] for w in _GATED):
        raise UncountableError("which product comes first does not follow from the names")
    second = _product(*found[1], depth=first.rows // 2)
    if second.rows != x.shape[1]:
        raise UncountableError("the second product does not lead back to the tokens' width")
    return Experts(tokens, x.shape[1], experts, chosen.pop(), x.dtype, first, second)


def _chosen(tokens: int, experts: int, tile: int, grid: Grid) -> int:
    """Experts per token, from the most tiles that the grid provides for.

    >>> _chosen(888, 128, 16, (8, 342, 1))
    4
    """
    fits = [k for k in range(1, experts + 1) if _most_tiles(tokens * k, experts, tile) == grid[1]]
    if len(fits) != 1:
        raise UncountableError("how many experts a token goes to does not follow from the grid")
    return fits[0]


def _most_tiles(rows: int, experts: int, tile: int) -> int:
    """Tiles that rows need at most: every expert begins one, the rest fills them."""
    begun = min(rows, experts)
    return begun + (rows - begun) // tile


def _product(match: re.Match[str], grid: Grid, name: str, depth: int) -> Product:
    if "cga1x1x1" not in name or len(grid) < 3 or grid[2] != 1:
        raise UncountableError("blocks of the product work together: the grid tells no sizes")
    return Product(
        grid[0] * int(match["rows"]), depth, match["weight"], match["input"] or match["weight"],
        match["out"], any(w in name for w in _GATED),
    )  # fmt: skip


def _tensors(word: str, *shape: int) -> list[Tensor]:
    """A tensor of a format as kernels name it, with its scales where it has some."""
    bare = word.removeprefix("Mx")
    if bare not in _FORMATS:
        raise UncountableError(f"the format {word} is not known")
    whole = Tensor(shape, _FORMATS[bare])
    return [whole, *([Tensor((whole.count // _SCALED,), "uint8")] if bare != word else [])]


def _multiplied(layer: Experts, product: Product) -> Cost:
    """Every routed row with its expert's weights; the first product reads each token once."""
    is_first = product is layer.first
    used = min(layer.experts, layer.routed)
    rows = layer.tokens if is_first else layer.routed
    columns = product.rows // 2 if product.gated else product.rows
    given = _tensors(product.given, rows, product.depth)
    gate = 6 * columns if product.gated else 0  # sigmoid 4, and two products
    return cost(
        [*given, *_tensors(product.weight, used, product.rows, product.depth)],
        _tensors(product.out, layer.routed, columns),
        contraction=2 * layer.routed * product.rows * product.depth,
        other=layer.routed * (product.rows + gate),  # the bias, then the gate
        dtype=given[0].dtype,
        origin="inferred",
        notes=EVERY_EXPERT,
    )


@kernel_formula("vllm::moe_forward", "vllm::moe_forward_shared")
def experts_kernel(call: Call, kernel: Kernel) -> Cost:
    """One kernel of the layer: a product, or what routes, narrows and gathers around them."""
    layer = experts_of(call, kernel)
    if _PRODUCT.match(kernel.name):
        is_first = any(w in kernel.name for w in _GATED)
        return _multiplied(layer, layer.first if is_first else layer.second)
    tokens = Tensor((layer.tokens, layer.hidden), layer.dtype)
    routes = Tensor((layer.routed * ROUTE_BYTES,), "uint8")
    if "finalize" in kernel.name:
        gathered = _tensors(layer.second.out, layer.routed, layer.hidden)
        flops = 2 * layer.routed * layer.hidden
        return _inferred([*gathered, routes], [tokens], flops, layer.dtype)
    if "quantize_with_block_size" in kernel.name:
        narrow = _tensors(layer.first.given, *tokens.shape)
        return _inferred([tokens], narrow, QUANTISE_FLOPS * tokens.count, layer.dtype)
    if "HistogramScores" in kernel.name:
        scores = Tensor((layer.tokens, layer.experts), layer.dtype)
        return _inferred([scores], [routes], SELECT_FLOPS * layer.routed, layer.dtype)
    if "routingIndices" in kernel.name:
        return _inferred([routes], [routes] if "Offsets" in kernel.name else [], 0, layer.dtype)
    raise UncountableError(f"no formula for its kernel {kernel.name[:60]}")


def _inferred(reads: list[Tensor], writes: list[Tensor], flops: float, dtype: str) -> Cost:
    return cost(reads, writes, other=flops, dtype=dtype, origin="inferred", notes=EVERY_EXPERT)


# AITER's experts in two stages, or in one kernel: weights and what was routed are arguments.


def _sides(up: Arg, down: Arg) -> tuple[int, int]:
    """Width and inner width of the experts; packed weights are half as long as these."""
    first, second = ranked(up, "the first weights", 3), ranked(down, "the second weights", 3)
    packs = 2 if first.shape[2] * 2 == second.shape[1] else 1
    width, inner = second.shape[1], second.shape[2] * packs
    if first.shape[2] * packs != width or first.shape[1] not in (inner, 2 * inner):
        raise UncountableError("the sides of the experts' weights do not fit together")
    return width, inner


def _depth(x: Tensor, whole: int) -> int:
    """The length that is summed over; packed rows are half as long."""
    if whole not in (x.shape[-1], 2 * x.shape[-1]):
        raise UncountableError("rows and weights of the experts do not fit together")
    return whole


def _stage(x: Tensor, weight: Tensor, out: Tensor, routed: int, depth: int) -> Cost:
    """Every routed row with its expert's weights."""
    used = Tensor((min(weight.shape[0], routed), *weight.shape[1:]), weight.dtype)
    packed = depth != x.shape[-1]
    return cost(
        [x, used], [out], contraction=2 * routed * weight.shape[1] * depth,
        dtype="fp4" if packed else x.dtype, origin="modelled", notes=USED_EXPERTS,
    )  # fmt: skip


@formula("aiter::ck_moe_stage1", "aiter::moe_stage1_g1u1", order="x up down _ _ _ out")
@formula("aiter::moe_cktile2stages_gemm1_ck", order="x up out")
def first_stage(x: Arg, up: Arg, out: Arg, down: Arg = None) -> Cost:
    """(tokens, width) times (experts, inner or twice that, width) into (tokens, chosen, inner)."""
    tokens, weight = ranked(x, "the tokens", 2), ranked(up, "the first weights", 3)
    written = ranked(out, "the result", 3)
    width = tokens.shape[1] if down is None else _sides(up, down)[0]
    routed = written.shape[0] * written.shape[1]
    return _stage(tokens, weight, written, routed, _depth(tokens, width))


@formula("aiter::ck_moe_stage2", order="x up down _ _ _ out")
@formula("aiter::moe_cktile2stages_gemm2_ck", order="x down out")
def second_stage(x: Arg, down: Arg, out: Arg, up: Arg = None) -> Cost:
    """(tokens, chosen, inner) times (experts, width, inner), added up over the chosen experts."""
    rows, weight = ranked(x, "the routed rows", 3), ranked(down, "the second weights", 3)
    written = ranked(out, "the result", 2)
    inner = rows.shape[2] if up is None else _sides(up, down)[1]
    return _stage(rows, weight, written, rows.shape[0] * rows.shape[1], _depth(rows, inner))


@formula("aiter::fmoe", "aiter::fmoe_g1u1", "aiter::fmoe_g1u1_a16", "aiter::fmoe_g1u1_tkw1",
         "aiter::fmoe_int8_g1u0", "aiter::fmoe_int8_g1u0_a16", "aiter::fmoe_fp8_blockscale_g1u1",
         order="out x up down _ _ _ _ chosen")  # fmt: skip
def both_stages(out: Tensor, x: Arg, up: Arg, down: Arg, chosen: Arg) -> Cost:
    """Both products in one kernel: what lies between them never reaches memory."""
    tokens, first = ranked(x, "the tokens", 2), ranked(up, "the first weights", 3)
    second = ranked(down, "the second weights", 3)
    routed, (experts, width, inner) = tokens.shape[0] * integer(chosen, "the choice"), second.shape
    if first.shape[2] != width or first.shape[1] not in (inner, 2 * inner):
        raise UncountableError("the experts' weights are packed: their sizes are not recorded")
    used = min(experts, routed)
    weights = [Tensor((used, *w.shape[1:]), w.dtype) for w in (first, second)]
    return cost(
        [tokens, *weights], [out], contraction=2 * routed * width * (first.shape[1] + inner),
        dtype=tokens.dtype, origin="modelled", notes=USED_EXPERTS,
    )  # fmt: skip


@formula("aiter::moe_sorting_fwd", "aiter::moe_sorting_opus_fwd",
         order="ids shares _ _ _ _ cleared")  # fmt: skip
def sort_rows(ids: Tensor, shares: Tensor, cleared: Tensor) -> Cost:
    """Rows in the order of their experts; the result of the layer is set to zero on the way."""
    least = [Tensor((ids.count,), "int32"), Tensor((ids.count,), shares.dtype)]
    return cost([ids, shares], [*least, cleared], origin="modelled")
