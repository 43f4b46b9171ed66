"""Ops of inference engines and of the flash-attn package that record all they work on.

Names and orders of arguments are those that vLLM, SGLang and flash-attn register.
"""

from __future__ import annotations

import re
from math import prod

import msgspec

from timeroof.work.call import (
    Arg,
    Call,
    Tensor,
    UncountableError,
    flag,
    integer,
    optional,
    ranked,
    tensor,
)
from timeroof.work.cost import Cost, cost
from timeroof.work.counting import Kernel, kernel_formula
from timeroof.work.families.attention import (
    Attention,
    attention,
    backward_cost,
    forward_cost,
    packed_attention,
    sized,
)
from timeroof.work.families.experts import USED_EXPERTS
from timeroof.work.registry import formula

_NARROW = ("fp8", "int8")


@formula("vllm::inplace_fused_experts", "vllm::outplace_fused_experts",
         "sglang::inplace_fused_experts", "sglang::outplace_fused_experts",
         "vllm::rocm_aiter_fused_moe", "aiter::fused_moe_")  # fmt: skip
def fused_experts(
    x: Arg, w1: Arg, w2: Arg, topk_weights: Arg, topk_ids: Arg, mask: Arg = None
) -> Cost:
    """The two products of a mixture of experts; activation and sum are ops below it.

    Weights are (experts, 2·inner or inner, width) and (experts, width, inner).
    """
    if isinstance(mask, Tensor):
        raise UncountableError("how many rows go to the experts of other ranks is not recorded")
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
        notes=USED_EXPERTS,
    )


@formula("_moe_C::moe_align_block_size", "_moe_C::sgl_moe_align_block_size",
         "sgl_kernel::moe_align_block_size")  # fmt: skip
def align_blocks(
    ids: Arg, experts: Arg, block: Arg, sorted_ids: Arg, expert_ids: Arg, total: Tensor
) -> Cost:
    """Rows sorted by expert: integers; what was allocated for the worst case is not all written."""
    read = tensor(ids, "the experts' numbers")
    least = Tensor((min(read.count, tensor(sorted_ids, "the order").count),), "int32")
    return cost([read], [least, total], origin="modelled")


@formula("_moe_C::moe_sum", "sgl_kernel::moe_sum", "sgl_kernel::moe_sum_reduce", "aiter::moe_sum")
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


@formula("flash_attn::_flash_attn_forward", "aiter::_flash_attn_forward", "aiter::mha_fwd",
         "aiter::fmha_v3_fwd", "aiter::wrapper_fmha_v3_fwd")  # fmt: skip
def flash_attn(
    q: Arg, k: Arg, v: Arg, dropout: Arg = 0.0, scale: Arg = None, causal: Arg = None,
    left: Arg = -1,
) -> Cost:  # fmt: skip
    """(batch, length, heads, depth)."""
    return forward_cost(_flash(q, k, v, causal, left))


@formula("aiter::mha_bwd", "aiter::fmha_v3_bwd", "aiter::wrapper_fmha_v3_bwd",
         order="_ q k v _ _ dropout scale causal left")  # fmt: skip
@formula("flash_attn::_flash_attn_backward",
         order="_ q k v _ _ _ _ _ dropout scale causal left")  # fmt: skip
def flash_attn_backward(q: Arg, k: Arg, v: Arg, causal: Arg = None, left: Arg = -1) -> Cost:
    """Its gradients."""
    return backward_cost(_flash(q, k, v, causal, left))


@formula("flash_attn::_flash_attn_varlen_forward")
def flash_attn_varlen(
    q: Arg, k: Arg, v: Arg, starts_q: Arg, starts_k: Arg, max_q: Arg = None, max_k: Arg = None,
    dropout: Arg = 0.0, scale: Arg = None, causal: Arg = None, left: Arg = -1,
) -> Cost:  # fmt: skip
    """Sequences packed one after the other."""
    return forward_cost(_varied(q, k, v, starts_q, causal, left))


@formula("flash_attn::_flash_attn_varlen_backward",
         order="_ q k v _ _ _ _ _ starts_q _ _ _ dropout scale causal left")  # fmt: skip
def flash_attn_varlen_backward(
    q: Arg, k: Arg, v: Arg, starts_q: Arg = None, causal: Arg = None, left: Arg = -1
) -> Cost:
    """Their gradients."""
    return backward_cost(_varied(q, k, v, starts_q, causal, left))


@formula("xformers_flash::flash_fwd", order="q k v starts")
def xformers_flash(call: Call, q: Arg, k: Arg, v: Arg, starts: Arg = None) -> Cost:
    """Flash attention under xFormers' name; newer versions have a window behind the flag."""
    if any(isinstance(value, Tensor) for value in call.inputs[5:]):
        raise UncountableError(NO_LENGTHS)
    causal, left = _flags_from(call, 0)
    left = -1 if isinstance(left, bool) else left
    packed = isinstance(starts, Tensor)
    return forward_cost(
        _varied(q, k, v, starts, causal, left) if packed else _flash(q, k, v, causal, left)
    )


@formula("xformers::efficient_attention_forward_cutlass",
         order="q k v bias starts _ _ _ statistics mask_type")  # fmt: skip
def xformers_efficient(
    q: Arg, k: Arg, v: Arg, bias: Tensor | None = None, starts: Arg = None,
    statistics: Arg = True, mask_type: Arg = None,
) -> Cost:  # fmt: skip
    """Memory-efficient attention before PyTorch had it; mask type 0 is none, 1 and 2 causal."""
    causal = integer(mask_type, "the mask type") != 0
    return forward_cost(sized(q, k, v, starts, causal), bias, statistics=flag(statistics, "", True))


@formula("xformers::efficient_attention_backward_cutlass",
         order="_ q k v bias starts _ _ _ _ _ _ _ _ _ mask_type")  # fmt: skip
def xformers_efficient_backward(
    q: Arg, k: Arg, v: Arg, bias: Tensor | None = None, starts: Arg = None, mask_type: Arg = None
) -> Cost:
    """Its gradients."""
    causal = integer(mask_type, "the mask type") != 0
    return backward_cost(sized(q, k, v, starts, causal), bias)


NO_LENGTHS = "the lengths of the cached contexts are not recorded"


def _flags_from(call: Call, place: int) -> tuple[Arg, Arg]:
    """Whether it is causal and its window to the left: the flag at a place among all flags.

    Versions differ in the numbers before the flags; the window follows its flag.
    """
    flags = [i for i, value in enumerate(call.inputs) if isinstance(value, bool)]
    if len(flags) <= place:
        raise UncountableError("whether it is causal is not recorded")
    at = flags[place]
    return call.inputs[at], call.inputs[at + 1] if at + 1 < len(call.inputs) else -1


def _in_pages(k: Arg, pages: Arg = None) -> None:
    """Refuse keys that lie in pages of a cache: how many of them are used is data."""
    if isinstance(pages, Tensor) or (isinstance(k, Tensor) and len(k.shape) > 3):
        raise UncountableError(NO_LENGTHS)


# The first flag of packed sequences asks for zeroed tensors, the second for the causal mask.


@formula("aiter::mha_varlen_fwd", "aiter::fmha_v3_varlen_fwd", order="q k v starts")
@formula("_vllm_fa2_C::varlen_fwd", order="q k v out starts _ _ _ pages")
def packed_sequences(call: Call, q: Arg, k: Arg, v: Arg, starts: Arg, pages: Arg = None) -> Cost:
    """AITER's and vLLM's kernels over sequences packed one after the other."""
    _in_pages(k, pages)
    return forward_cost(_varied(q, k, v, starts, *_flags_from(call, 1)))


@formula("aiter::mha_varlen_bwd", "aiter::fmha_v3_varlen_bwd", order="_ q k v _ _ starts")
def packed_sequences_backward(call: Call, q: Arg, k: Arg, v: Arg, starts: Arg) -> Cost:
    """Their gradients."""
    return backward_cost(_varied(q, k, v, starts, *_flags_from(call, 1)))


@formula("flash_attn_3::fwd", "sgl_kernel::fwd", "_vllm_fa3_C::fwd",
         order="q k v k_new _ _ _ starts _ _ _ used _ _ pages")  # fmt: skip
def flash_attn_3(
    call: Call, q: Arg, k: Arg, v: Arg, k_new: Arg = None, starts: Arg = None, used: Arg = None,
    pages: Arg = None,
) -> Cost:  # fmt: skip
    """FlashAttention 3, whole or packed sequences; with a cache the lengths are data."""
    if isinstance(pages, Tensor) or isinstance(k_new, Tensor) or isinstance(used, Tensor):
        raise UncountableError(NO_LENGTHS)
    causal, left = _flags_from(call, 0)
    packed = isinstance(starts, Tensor)
    return forward_cost(
        _varied(q, k, v, starts, causal, left) if packed else _flash(q, k, v, causal, left)
    )


@formula("_C::paged_attention_v1", "_C::paged_attention_v2", "_rocm_C::paged_attention",
         "_C::sm100_cutlass_mla_decode", "vllm::unified_mla_attention",
         "vllm::unified_mla_attention_with_output", "vllm::rocm_aiter_mla_decode_fwd",
         "trtllm::attention", "trtllm::attention_inplace", "trtllm::mla_custom_op_inplace",
         "sglang::unified_attention_with_output", "sgl_kernel::cutlass_mla_decode",
         "aiter::paged_attention_rocm", "aiter::paged_attention_v1",
         "aiter::paged_attention_ragged",
         "aiter::pa_fwd", "aiter::pa_fwd_asm", "aiter::pa_fwd_naive", "aiter::pa_decode_gluon",
         "aiter::mha_batch_prefill", "aiter::mla_decode_stage1_asm_fwd",
         "aiter::mla_prefill_asm_fwd")  # fmt: skip
def paged(x: Arg) -> Cost:
    """Attention over pages of a cache: the lengths are data in a tensor."""
    raise UncountableError(NO_LENGTHS)


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

PROMPTS = "sequences taken from the kernel's grid, with nothing cached before them"
_PROMPTS = re.compile(
    r"^fmhaSm\d+\w*Kernel_Qkv(?P<cache>E4m3|Bfloat16|Fp16)O(?:Bfloat16|Fp16|E4m3)H\d+PagedKv"
    r"(?P<window>SlidingOrChunked)?CausalP\d+VarSeqQ(?P<tile>\d+)Kv\d+\w*Context"
)
_CACHE_FORMATS = {"E4m3": "fp8", "Bfloat16": "bf16", "Fp16": "fp16"}
ROTATION_FLOPS = 3  # per element: two products and a sum


@formula("_C::rotary_embedding", "vllm::rotary_embedding", "_C::batched_rotary_embedding",
         "sgl_kernel::rotary_embedding")  # fmt: skip
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


@formula("aiter::rope_cached_positions_2c_fwd_impl", "aiter::rope_cached_2c_fwd_impl",
         order="_ _ query key cos sin positions")  # fmt: skip
@formula("sgl_kernel::apply_rope_pos_ids_cos_sin_cache", order="query key _ _ cos positions")
def rotary_to_new(
    query: Tensor, key: Tensor, cos: Arg, sin: Arg = None, positions: Tensor | None = None
) -> Cost:
    """The same into new tensors; one row of the tables per position."""
    used = prod(query.shape[:-2]) if positions is None else positions.count
    tables = [tensor(t, "the table of angles") for t in (cos, sin) if isinstance(t, Tensor)]
    rows = [Tensor((min(used, t.shape[0]), t.shape[-1]), t.dtype) for t in tables if t.shape]
    turned = query.count + key.count
    return cost([query, key, positions, *rows], [query, key], other=ROTATION_FLOPS * turned,
                dtype=query.dtype)  # fmt: skip


@formula("_C_cache_ops::concat_mla_q")
def joined_query(first: Tensor, second: Tensor, out: Tensor) -> Cost:
    """Two parts of the query side by side."""
    return cost([first, second], [out])


@formula("_C_cache_ops::concat_and_cache_mla", "aiter::concat_and_cache_mla")
def write_latent_cache(latent: Tensor, rotated: Tensor, cache: Arg, slots: Tensor) -> Cost:
    """The latent keys and values and the rotated part, side by side in their slots."""
    dtype = tensor(cache, "the cache").dtype
    return cost([latent, rotated, slots], [Tensor((latent.count + rotated.count,), dtype)])


@formula("_C_cache_ops::reshape_and_cache_flash", "_C_cache_ops::reshape_and_cache",
         "aiter::reshape_and_cache", "aiter::reshape_and_cache_flash",
         "sglang::store_cache")  # fmt: skip
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
