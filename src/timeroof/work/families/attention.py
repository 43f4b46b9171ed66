"""Attention: two products forward, five backward where the scores are computed again.

Forward: scores = q·kᵀ and scores·v, so 2·pairs·(d_qk + d_v) FLOPs per head; softmax is 5
and scaling 1 per pair. Backward of fused kernels: the scores again, then the gradients of
scores, v, q and k. Causal attention counts the pairs that are kept (torch aligns the mask
at the top left), where torch's FlopCounterMode counts all of them.
"""

from __future__ import annotations

import msgspec

from timeroof.work.call import Arg, Tensor, UncountableError, flag, integer, optional, ranked
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula

SOFTMAX_FLOPS, SCALE_FLOPS, SOFTMAX_BACKWARD_FLOPS = 5, 1, 4
EQUAL_LENGTHS = "sequence lengths are not recorded: taken as equal, which gives the least work"


class Attention(msgspec.Struct, frozen=True):
    """Attention with all its sizes known; `pairs` are the (query, key) pairs of all heads."""

    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    statistics: Tensor
    pairs: float
    notes: tuple[str, ...] = ()

    @property
    def depths(self) -> tuple[int, int]:
        """Length of a query and of a value."""
        return self.q.shape[-1], self.v.shape[-1]


def kept_pairs(queries: int, keys: int, causal: bool, window: int | None = None) -> int:
    """Pairs of a head that are not masked away; the mask's corner is the top left.

    >>> kept_pairs(4, 4, False), kept_pairs(4, 4, True), kept_pairs(2, 4, True)
    (16, 10, 3)
    """
    if not causal:
        return queries * keys
    full = min(queries, keys)
    return full * (full + 1) // 2 + (queries - full) * keys


def attention(q: Arg, k: Arg, v: Arg, causal: Arg, *, heads_inside: bool = False) -> Attention:
    """Sizes from tensors (batch, heads, length, depth), or (batch, length, heads, depth)."""
    if not isinstance(causal, bool | int):
        raise UncountableError("whether it is causal is not recorded")
    query, key, value = (
        ranked(t, f"the {n}", 3, 4) for t, n in ((q, "query"), (k, "key"), (v, "value"))
    )
    place = -3 if heads_inside else -2
    heads_place = -2 if heads_inside else -3
    batch = query.shape[0] if len(query.shape) == 4 else 1
    heads = query.shape[heads_place]
    shared = key.shape[heads_place]
    if key.shape[-1] != query.shape[-1] or key.shape[place] != value.shape[place]:
        raise UncountableError("query, key and value do not fit together")
    if not shared or heads % shared:
        raise UncountableError(f"{heads} query heads do not share {shared} key heads evenly")
    lengths = query.shape[place], key.shape[place]
    pairs = batch * heads * kept_pairs(*lengths, bool(causal))
    out = Tensor((*query.shape[:-1], value.shape[-1]), query.dtype)
    return Attention(query, key, value, out, Tensor((batch, heads, lengths[0]), "fp32"), pairs)


def packed_attention(q: Arg, k: Arg, v: Arg, starts: Arg, causal: Arg) -> Attention:
    """Sequences of different lengths packed one after the other: (total, heads, depth)."""
    query, key, value = (
        ranked(t, f"the {n}", 3, 4) for t, n in ((q, "query"), (k, "key"), (v, "value"))
    )
    sequences = max(ranked(starts, "the sequence starts", 1).shape[0] - 1, 1)
    total_q, total_k, heads = query.count, key.count, query.shape[-2]
    total_q //= max(heads * query.shape[-1], 1)
    total_k //= max(key.shape[-2] * key.shape[-1], 1)
    pairs: float = heads * total_q * total_k / sequences
    if flag(causal, "whether it is causal"):
        pairs = pairs / 2 + heads * min(total_q, total_k) / 2
    out = Tensor((*query.shape[:-1], value.shape[-1]), query.dtype)
    return Attention(
        query, key, value, out, Tensor((heads, total_q), "fp32"), pairs, (EQUAL_LENGTHS,)
    )


def forward_cost(a: Attention, mask: Tensor | None = None, *, statistics: bool = True) -> Cost:
    """The forward pass in one kernel: scores never reach memory."""
    per_pair = SOFTMAX_FLOPS + SCALE_FLOPS + (mask is not None)
    return cost(
        [a.q, a.k, a.v, mask],
        [a.out, a.statistics if statistics else None],
        contraction=2 * a.pairs * sum(a.depths),
        other=a.pairs * per_pair,
        dtype=a.q.dtype,
        origin="modelled" if a.notes else "counted",
        notes=a.notes,
    )


def backward_cost(a: Attention, mask: Tensor | None = None, *, recomputed: bool = True) -> Cost:
    """The backward pass; fused kernels compute the scores again (five products, else four)."""
    depth, value_depth = a.depths
    products = (3 if recomputed else 2) * depth + 2 * value_depth
    return cost(
        [a.out, a.q, a.k, a.v, a.out, a.statistics, mask],
        [a.q, a.k, a.v],
        contraction=2 * a.pairs * products,
        other=a.pairs * (SCALE_FLOPS + 2 + SOFTMAX_BACKWARD_FLOPS),
        dtype=a.q.dtype,
        origin="modelled" if a.notes else "counted",
        notes=a.notes,
    )


@formula("aten::scaled_dot_product_attention", "jax::dot_product_attention", composite=True)
def any_attention(
    q: Arg, k: Arg, v: Arg, attn_mask: Arg = None, dropout_p: Arg = 0.0, is_causal: Arg = False
) -> Cost:
    """The op above all implementations."""
    return forward_cost(attention(q, k, v, is_causal), optional(attn_mask), statistics=False)


formula("aten::_scaled_dot_product_attention_math", composite=True)(any_attention)


@formula("aten::_scaled_dot_product_flash_attention", composite=True)
def flash(q: Arg, k: Arg, v: Arg, dropout_p: Arg = 0.0, is_causal: Arg = False) -> Cost:
    """Flash attention; on a GPU it calls _flash_attention_forward."""
    return forward_cost(attention(q, k, v, is_causal))


@formula("aten::_scaled_dot_product_flash_attention_for_cpu")
def flash_for_cpu(
    q: Arg, k: Arg, v: Arg, dropout_p: Arg = 0.0, is_causal: Arg = False, attn_mask: Arg = None
) -> Cost:
    """Flash attention on a CPU."""
    return forward_cost(attention(q, k, v, is_causal), optional(attn_mask))


@formula("aten::_scaled_dot_product_efficient_attention", composite=True)
def efficient(
    q: Arg, k: Arg, v: Arg, attn_bias: Arg = None, compute_log_sumexp: Arg = True,
    dropout_p: Arg = 0.0, is_causal: Arg = False,
) -> Cost:  # fmt: skip
    """Memory-efficient attention; it calls _efficient_attention_forward."""
    kept = flag(compute_log_sumexp, "", True)
    return forward_cost(attention(q, k, v, is_causal), optional(attn_bias), statistics=kept)


@formula("aten::_scaled_dot_product_cudnn_attention", composite=True)
def cudnn(
    q: Arg, k: Arg, v: Arg, attn_bias: Arg = None, compute_log_sumexp: Arg = True,
    dropout_p: Arg = 0.0, is_causal: Arg = False,
) -> Cost:  # fmt: skip
    """cuDNN's attention."""
    return efficient(q, k, v, attn_bias, compute_log_sumexp, dropout_p, is_causal)


@formula("aten::_cudnn_attention_forward")
def cudnn_forward(
    q: Arg, k: Arg, v: Arg, attn_bias: Arg = None, cum_seq_q: Arg = None, cum_seq_k: Arg = None,
    max_q: Arg = None, max_k: Arg = None, compute_log_sumexp: Arg = True, dropout_p: Arg = 0.0,
    is_causal: Arg = False,
) -> Cost:  # fmt: skip
    """cuDNN's attention, the op that launches it."""
    if isinstance(cum_seq_q, Tensor):
        return forward_cost(packed_attention(q, k, v, cum_seq_q, is_causal), optional(attn_bias))
    return forward_cost(attention(q, k, v, is_causal), optional(attn_bias))


@formula("aten::_scaled_dot_product_fused_attention_overrideable")
def overrideable(
    q: Arg, k: Arg, v: Arg, attn_bias: Arg = None, dropout_p: Arg = 0.0, is_causal: Arg = False
) -> Cost:
    """The fused attention of another device's back end."""
    return forward_cost(attention(q, k, v, is_causal), optional(attn_bias))


@formula("aten::_flash_attention_forward")
def flash_forward(
    q: Arg, k: Arg, v: Arg, cum_seq_q: Arg = None, cum_seq_k: Arg = None, max_q: Arg = None,
    max_k: Arg = None, dropout_p: Arg = 0.0, is_causal: Arg = None,
) -> Cost:  # fmt: skip
    """The op that launches flash attention: (batch, length, heads, depth), or packed."""
    if isinstance(cum_seq_q, Tensor):
        return forward_cost(packed_attention(q, k, v, cum_seq_q, is_causal))
    return forward_cost(attention(q, k, v, is_causal, heads_inside=True))


@formula("aten::_efficient_attention_forward")
def efficient_forward(
    q: Arg, k: Arg, v: Arg, bias: Arg = None, cu_seqlens_q: Arg = None, cu_seqlens_k: Arg = None,
    max_seqlen_q: Arg = None, max_seqlen_k: Arg = None, dropout_p: Arg = 0.0,
    custom_mask_type: Arg = None, compute_log_sumexp: Arg = True,
) -> Cost:  # fmt: skip
    """The op that launches memory-efficient attention; mask type 0 is none, 1 and 2 causal."""
    causal = integer(custom_mask_type, "the mask type") != 0
    kept = flag(compute_log_sumexp, "", True)
    if isinstance(cu_seqlens_q, Tensor):
        found = packed_attention(q, k, v, cu_seqlens_q, causal)
    else:
        found = attention(q, k, v, causal, heads_inside=True)
    return forward_cost(found, optional(bias), statistics=kept)


@formula("aten::_scaled_dot_product_flash_attention_backward", composite=True)
def flash_backward_op(
    grad: Arg, q: Arg, k: Arg, v: Arg, out: Arg = None, logsumexp: Arg = None,
    cum_seq_q: Arg = None, cum_seq_k: Arg = None, max_q: Arg = None, max_k: Arg = None,
    dropout_p: Arg = 0.0, is_causal: Arg = False,
) -> Cost:  # fmt: skip
    """Gradients of flash attention."""
    return backward_cost(attention(q, k, v, is_causal))


@formula("aten::_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_for_cpu_backward(
    grad: Arg, q: Arg, k: Arg, v: Arg, out: Arg = None, logsumexp: Arg = None,
    dropout_p: Arg = 0.0, is_causal: Arg = False, attn_mask: Arg = None,
) -> Cost:  # fmt: skip
    """Gradients of flash attention on a CPU."""
    return backward_cost(attention(q, k, v, is_causal), optional(attn_mask))


@formula("aten::_scaled_dot_product_efficient_attention_backward", composite=True)
def efficient_backward_op(
    grad: Arg, q: Arg, k: Arg, v: Arg, attn_bias: Arg = None, out: Arg = None,
    logsumexp: Arg = None, philox_seed: Arg = None, philox_offset: Arg = None,
    dropout_p: Arg = 0.0, grad_input_mask: Arg = None, is_causal: Arg = False,
) -> Cost:  # fmt: skip
    """Gradients of memory-efficient attention."""
    return backward_cost(attention(q, k, v, is_causal), optional(attn_bias))


@formula("aten::_scaled_dot_product_cudnn_attention_backward")
def cudnn_backward(
    grad: Arg, q: Arg, k: Arg, v: Arg, out: Arg = None, logsumexp: Arg = None,
    philox_seed: Arg = None, philox_offset: Arg = None, attn_bias: Arg = None,
    cum_seq_q: Arg = None, cum_seq_k: Arg = None, max_q: Arg = None, max_k: Arg = None,
    dropout_p: Arg = 0.0, is_causal: Arg = False,
) -> Cost:  # fmt: skip
    """Gradients of cuDNN's attention."""
    return backward_cost(attention(q, k, v, is_causal), optional(attn_bias))


@formula("aten::_scaled_dot_product_fused_attention_overrideable_backward")
def overrideable_backward(
    grad: Arg, q: Arg, k: Arg, v: Arg, attn_bias: Arg = None, grad_input_mask: Arg = None,
    out: Arg = None, logsumexp: Arg = None, cum_seq_q: Arg = None, cum_seq_k: Arg = None,
    max_q: Arg = None, max_k: Arg = None, dropout_p: Arg = 0.0, is_causal: Arg = False,
) -> Cost:  # fmt: skip
    """Gradients of another device's fused attention."""
    return backward_cost(attention(q, k, v, is_causal), optional(attn_bias))


@formula("aten::_flash_attention_backward")
def flash_backward(
    grad: Arg, q: Arg, k: Arg, v: Arg, out: Arg = None, logsumexp: Arg = None,
    cum_seq_q: Arg = None, cum_seq_k: Arg = None, max_q: Arg = None, max_k: Arg = None,
    dropout_p: Arg = 0.0, is_causal: Arg = None,
) -> Cost:  # fmt: skip
    """The op that launches flash attention's backward kernels."""
    if isinstance(cum_seq_q, Tensor):
        return backward_cost(packed_attention(q, k, v, cum_seq_q, is_causal))
    return backward_cost(attention(q, k, v, is_causal, heads_inside=True))


@formula("aten::_efficient_attention_backward")
def efficient_backward(
    grad: Arg, q: Arg, k: Arg, v: Arg, bias: Arg = None, out: Arg = None, cu_seqlens_q: Arg = None,
    cu_seqlens_k: Arg = None, max_seqlen_q: Arg = None, max_seqlen_k: Arg = None,
    logsumexp: Arg = None, dropout_p: Arg = 0.0, philox_seed: Arg = None,
    philox_offset: Arg = None, custom_mask_type: Arg = None,
) -> Cost:  # fmt: skip
    """The op that launches memory-efficient attention's backward kernels."""
    causal = integer(custom_mask_type, "the mask type") != 0
    if isinstance(cu_seqlens_q, Tensor):
        found = packed_attention(q, k, v, cu_seqlens_q, causal)
    else:
        found = attention(q, k, v, causal, heads_inside=True)
    return backward_cost(found, optional(bias))


@formula("flex_attention", "higher_order::flex_attention")
def flex(q: Arg, k: Arg, v: Arg) -> Cost:
    """Flex attention, all pairs: what its mask leaves out is known to the program only."""
    return forward_cost(attention(q, k, v, False))


@formula("flex_attention_backward", "higher_order::flex_attention_backward")
def flex_backward(q: Arg, k: Arg, v: Arg) -> Cost:
    """Gradients of flex attention, all pairs."""
    return backward_cost(attention(q, k, v, False))
