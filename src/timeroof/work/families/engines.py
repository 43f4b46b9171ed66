"""Ops of inference engines and of the flash-attn package that record all they work on.

Names and orders of arguments are those that vLLM, SGLang and flash-attn register.
"""

from __future__ import annotations

import re

import msgspec

from timeroof.work.call import Arg, Call, Tensor, UncountableError, flag, optional, ranked, tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.counting import Kernel, kernel_formula
from timeroof.work.families.attention import (
    Attention,
    attention,
    backward_cost,
    forward_cost,
    packed_attention,
)
from timeroof.work.registry import formula

EVERY_EXPERT = ("every expert that rows can reach is taken as used",)
_NARROW = ("fp8", "int8")


@formula("vllm::inplace_fused_experts", "vllm::outplace_fused_experts",
         "sglang::inplace_fused_experts", "sglang::outplace_fused_experts")  # fmt: skip
def fused_experts(x: Arg, w1: Arg, w2: Arg, topk_weights: Arg, topk_ids: Arg) -> Cost:
    """The two products of a mixture of experts; activation and sum are ops below it.

    Weights are (experts, 2·inner or inner, width) and (experts, width, inner).
    """
    tokens, ids = ranked(x, "the tokens", 2), ranked(topk_ids, "the experts' numbers", 2)
    up, down = ranked(w1, "the first weights", 3), ranked(w2, "the second weights", 3)
    scores = tensor(topk_weights, "the experts' shares")
    inner, width = down.shape[2], tokens.shape[1]
    if up.shape[2] != width or down.shape[1] != width or up.shape[1] not in (inner, 2 * inner):
        raise UncountableError("the experts' weights are packed: their sizes are not recorded")
    used = min(up.shape[0], ids.count)
    weights = [Tensor((used, *w.shape[1:]), w.dtype) for w in (up, down)]
    return cost(
        [tokens, *weights, scores, ids],
        [Tensor(tokens.shape, tokens.dtype)],
        contraction=2 * ids.count * width * (up.shape[1] + inner),
        dtype=up.dtype if up.dtype in _NARROW else tokens.dtype,
        origin="modelled",
        notes=EVERY_EXPERT,
    )


@formula("_moe_C::moe_align_block_size", "sgl_kernel::moe_align_block_size")
def align_blocks(
    ids: Arg, experts: Arg, block: Arg, sorted_ids: Arg, expert_ids: Arg, total: Tensor
) -> Cost:
    """Rows sorted by expert: integers; what was allocated for the worst case is not all written."""
    read = tensor(ids, "the experts' numbers")
    least = Tensor((min(read.count, tensor(sorted_ids, "the order").count),), "int32")
    return cost([read], [least, total], origin="modelled")


@formula("_moe_C::moe_sum", "sgl_kernel::moe_sum")
def sum_experts(x: Arg, out: Tensor) -> Cost:
    """(tokens, chosen, width) added up over the chosen experts."""
    found = ranked(x, "the input", 3)
    return cost([found], [out], other=found.count - out.count)


def _masked(found: Attention, lengths: tuple[float, float], causal: bool, left: Arg) -> Attention:
    """The pairs under flash-attn's mask, whose corner is at the bottom right.

    A window to the left keeps at most that many keys and the query's own.
    """
    queries, keys = lengths
    if not causal:
        if isinstance(left, int) and left >= 0:
            raise UncountableError("attention with a window that is not causal")
        return found
    share = found.pairs / (queries * keys) if queries * keys else 0.0
    kept = (
        queries * keys - queries * (queries - 1) / 2 if keys >= queries else keys * (keys + 1) / 2
    )
    if isinstance(left, int) and 0 <= left < keys:
        before = keys - queries  # keys that every query sees, were there no window
        if before < 0:
            raise UncountableError("a window over fewer keys than queries")
        short = min(max(left - before, 0), queries)  # queries with less than a window before them
        kept = queries * (left + 1) - short * (left - before) + short * (short - 1) / 2
    return msgspec.structs.replace(found, pairs=share * kept)


def _flash(q: Arg, k: Arg, v: Arg, causal: Arg, left: Arg) -> Attention:
    found = attention(q, k, v, False, heads_inside=True)
    lengths = found.q.shape[-3], found.k.shape[-3]
    return _masked(found, lengths, flag(causal, "whether it is causal"), left)


def _varied(q: Arg, k: Arg, v: Arg, starts: Arg, causal: Arg, left: Arg) -> Attention:
    found = packed_attention(q, k, v, starts, False)
    sequences = max(tensor(starts, "the sequence starts").count - 1, 1)
    lengths = found.q.shape[0] / sequences, found.k.shape[0] / sequences
    return _masked(found, lengths, flag(causal, "whether it is causal"), left)


@formula("flash_attn::_flash_attn_forward")
def flash_attn(
    q: Arg, k: Arg, v: Arg, dropout: Arg = 0.0, scale: Arg = None, causal: Arg = None,
    left: Arg = -1,
) -> Cost:  # fmt: skip
    """(batch, length, heads, depth)."""
    return forward_cost(_flash(q, k, v, causal, left))


@formula("flash_attn::_flash_attn_backward")
def flash_attn_backward(
    grad: Arg, q: Arg, k: Arg, v: Arg, out: Arg = None, lse: Arg = None, dq: Arg = None,
    dk: Arg = None, dv: Arg = None, dropout: Arg = 0.0, scale: Arg = None, causal: Arg = None,
    left: Arg = -1,
) -> Cost:  # fmt: skip
    """Its gradients."""
    return backward_cost(_flash(q, k, v, causal, left))


@formula("flash_attn::_flash_attn_varlen_forward")
def flash_attn_varlen(
    q: Arg, k: Arg, v: Arg, starts_q: Arg, starts_k: Arg, max_q: Arg = None, max_k: Arg = None,
    dropout: Arg = 0.0, scale: Arg = None, causal: Arg = None, left: Arg = -1,
) -> Cost:  # fmt: skip
    """Sequences packed one after the other."""
    return forward_cost(_varied(q, k, v, starts_q, causal, left))


@formula("flash_attn::_flash_attn_varlen_backward")
def flash_attn_varlen_backward(
    grad: Arg, q: Arg, k: Arg, v: Arg, out: Arg = None, lse: Arg = None, dq: Arg = None,
    dk: Arg = None, dv: Arg = None, starts_q: Arg = None, starts_k: Arg = None, max_q: Arg = None,
    max_k: Arg = None, dropout: Arg = 0.0, scale: Arg = None, causal: Arg = None, left: Arg = -1,
) -> Cost:  # fmt: skip
    """Their gradients."""
    return backward_cost(_varied(q, k, v, starts_q, causal, left))


@formula("_C::paged_attention_v1", "_C::paged_attention_v2")
def paged(x: Arg) -> Cost:
    """vLLM's attention over pages: the lengths are data in a tensor."""
    raise UncountableError("the lengths of the cached contexts are not recorded")


@formula("fbgemm::jagged_dense_elementwise_add", "fbgemm::jagged_dense_elementwise_mul",
         "fbgemm::jagged_dense_elementwise_add_jagged_output")  # fmt: skip
def jagged_dense(values: Arg, offsets: Arg, dense: Arg) -> Cost:
    """An element of the dense operand per packed element: the rest is never needed."""
    packed = tensor(values, "the packed values")
    met = min(packed.count, tensor(dense, "the dense operand").count)
    other = Tensor((met,), tensor(dense, "the dense operand").dtype)
    return cost([packed, other], [Tensor(packed.shape, packed.dtype)], other=met, origin="modelled")


@formula("fbgemm::block_bucketize_sparse_features")
def bucketize(lengths: Tensor, indices: Arg) -> Cost:
    """Indices sorted into the ranks that hold them: integers read and written once."""
    found = [lengths, tensor(indices, "the indices")]
    return cost(found, [optional(indices)], origin="modelled")


@formula("fbgemm::keyed_jagged_index_select_dim1", "fbgemm::jagged_index_select")
def jagged_select(values: Arg) -> Cost:
    """How many elements the picked rows have is data."""
    raise UncountableError("the lengths of the picked rows are not recorded")


# Ops of inference engines (vLLM): results come first, weights often hide in a layer's name.

NO_LENGTHS = "the lengths of the cached contexts are not recorded"
PROMPTS = "sequences taken from the kernel's grid, with nothing cached before them"
_PROMPTS = re.compile(
    r"^fmhaSm\d+\w*Kernel_Qkv(?P<cache>E4m3|Bfloat16|Fp16)O(?:Bfloat16|Fp16|E4m3)H\d+PagedKv"
    r"(?P<window>SlidingOrChunked)?CausalP\d+VarSeqQ(?P<tile>\d+)Kv\d+\w*Context"
)
_CACHE_FORMATS = {"E4m3": "fp8", "Bfloat16": "bf16", "Fp16": "fp16"}
ROTATION_FLOPS = 3  # per element: two products and a sum


@formula("_C::rotary_embedding", "vllm::rotary_embedding", "_C::batched_rotary_embedding")
def rotary(
    positions: Tensor, query: Tensor, key: Arg = None, head_size: Arg = None, cache: Arg = None
) -> Cost:
    """vLLM's rotary embedding in place; one row of the cache per position."""
    table = tensor(cache, "the cosine and sine cache")
    k = tensor(key, "the key") if isinstance(key, Tensor) else None
    rows = Tensor((min(positions.count, table.shape[0]), table.shape[-1]), table.dtype)
    turned = query.count + (k.count if k else 0)
    return cost(
        [positions, query, k, rows], [query, k], other=ROTATION_FLOPS * turned, dtype=query.dtype
    )


@formula("_C_cache_ops::reshape_and_cache_flash", "_C_cache_ops::reshape_and_cache")
def write_cache(
    key: Tensor, value: Tensor, key_cache: Arg, value_cache: Arg, slots: Tensor
) -> Cost:
    """Keys and values written to their slots of the cache, perhaps in a narrower format."""
    dtypes = [tensor(t, "the cache").dtype for t in (key_cache, value_cache)]
    writes = [Tensor(t.shape, d) for t, d in zip((key, value), dtypes, strict=True)]
    return cost([key, value, slots], writes)


# Kernels of these may tell more: see `experts`.
@formula("vllm::moe_forward", "vllm::moe_forward_shared")
def moe_forward(call: Call) -> Cost:
    """A mixture of experts: the experts' weights are not among the arguments."""
    raise UncountableError("the experts' weights are not among the recorded arguments")


@formula("vllm::unified_attention_with_output", "vllm::unified_attention")
def paged_attention(call: Call) -> Cost:
    """Attention over a paged cache: how long the contexts are is not recorded."""
    raise UncountableError(NO_LENGTHS)


@kernel_formula("vllm::unified_attention_with_output")
def context_attention(call: Call, kernel: Kernel) -> Cost:
    """TensorRT-LLM's kernel for prompts: its grid is (tiles of queries, heads, sequences).

    Prompts see at least themselves; what was cached before them would only add work. Of
    several prompts equal lengths are the least work.
    """
    match, grid = _PROMPTS.match(kernel.name), kernel.grid
    if match is None or grid is None or len(grid) != 3:
        raise UncountableError(NO_LENGTHS)
    if match["window"]:
        raise UncountableError("the window of its sliding attention is not recorded")
    q, k, v = (ranked(t, "query, key or value", 3) for t in call.inputs[:3])
    total, heads, sequences = q.shape[0], q.shape[1], grid[2]
    tiles = {-(-total // (sequences * n * int(match["tile"]))) for n in (1, 2)}
    # The longest of several prompts may need more tiles than their mean length.
    enough = grid[0] in tiles or (sequences > 1 and grid[0] > min(tiles))
    if grid[1] != heads or not enough:
        raise UncountableError(NO_LENGTHS)
    pairs = heads * total * (total / sequences + 1) / 2
    cached = _CACHE_FORMATS.get(match["cache"], k.dtype)
    found = Attention(
        q, Tensor(k.shape, cached), Tensor(v.shape, cached),
        Tensor((*q.shape[:-1], v.shape[-1]), k.dtype), Tensor((0,), "fp32"), pairs, (PROMPTS,),
    )  # fmt: skip
    return msgspec.structs.replace(forward_cost(found, statistics=False), origin="inferred")
