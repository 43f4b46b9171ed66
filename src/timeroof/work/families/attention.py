"""Attention: two products forward, five backward where the scores are computed again.

Forward: scores = q·kᵀ and scores·v, so 2·pairs·(d_qk + d_v) FLOPs per head; softmax is 5
and scaling 1 per pair. Backward of fused kernels: the scores again, then the gradients of
scores, v, q and k. Causal attention counts the pairs that are kept (torch aligns the mask
at the top left), where torch's FlopCounterMode counts all of them.
"""

from __future__ import annotations

import msgspec

from timeroof.work.call import Arg, Tensor, UncountableError, flag, integer, ranked
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


def sized(q: Arg, k: Arg, v: Arg, starts: Arg, causal: Arg, *, inside: bool = True) -> Attention:
    """Attention of packed sequences where their starts are given, else of equal ones."""
    if isinstance(starts, Tensor):
        return packed_attention(q, k, v, starts, causal)
    return attention(q, k, v, causal, heads_inside=inside)


_SDPA = "aten::_scaled_dot_product_"
# B samples, H heads (Hk of keys and values), L queries, S keys, depth D.
SDPA_SIZES = "q=B,H,L,D k=B,Hk,S,D v=B,Hk,S,Dv"


@formula("aten::scaled_dot_product_attention", "jax::dot_product_attention",
         f"{_SDPA}attention_math", composite=True, sizes=SDPA_SIZES)  # fmt: skip
def any_attention(
    q: Arg, k: Arg, v: Arg, attn_mask: Tensor | None = None, dropout_p: Arg = 0.0,
    is_causal: Arg = False,
) -> Cost:  # fmt: skip
    """The op above all implementations."""
    return forward_cost(attention(q, k, v, is_causal), attn_mask, statistics=False)


@formula(f"{_SDPA}flash_attention", composite=True, order="q k v dropout_p is_causal",
         sizes=SDPA_SIZES)  # fmt: skip
@formula(f"{_SDPA}flash_attention_for_cpu", order="q k v dropout_p is_causal attn_mask",
         sizes=SDPA_SIZES)  # fmt: skip
@formula(f"{_SDPA}efficient_attention", f"{_SDPA}cudnn_attention", composite=True,
         order="q k v attn_bias compute_log_sumexp dropout_p is_causal",
         sizes=SDPA_SIZES)  # fmt: skip
@formula(f"{_SDPA}fused_attention_overrideable", order="q k v attn_bias dropout_p is_causal")
def fused(
    q: Arg, k: Arg, v: Arg, attn_mask: Tensor | None = None, attn_bias: Tensor | None = None,
    compute_log_sumexp: Arg = True, is_causal: Arg = False,
) -> Cost:  # fmt: skip
    """One implementation; some of these ops only call those that launch it."""
    kept = flag(compute_log_sumexp, "", True)
    return forward_cost(attention(q, k, v, is_causal), attn_mask or attn_bias, statistics=kept)


@formula("aten::_cudnn_attention_forward",
         order="q k v attn_bias cum_seq_q _ _ _ log_sumexp dropout_p is_causal")  # fmt: skip
def cudnn_forward(
    q: Arg, k: Arg, v: Arg, attn_bias: Tensor | None = None, cum_seq_q: Arg = None,
    is_causal: Arg = False,
) -> Cost:  # fmt: skip
    """cuDNN's attention, the op that launches it."""
    return forward_cost(sized(q, k, v, cum_seq_q, is_causal, inside=False), attn_bias)


@formula("aten::_flash_attention_forward", order="q k v cum_seq_q _ _ _ dropout_p is_causal")
def flash_forward(q: Arg, k: Arg, v: Arg, cum_seq_q: Arg = None, is_causal: Arg = None) -> Cost:
    """The op that launches flash attention: (batch, length, heads, depth), or packed."""
    return forward_cost(sized(q, k, v, cum_seq_q, is_causal))


@formula("aten::_efficient_attention_forward",
         order="q k v bias cu_seqlens_q _ _ _ dropout_p custom_mask_type compute_log_sumexp"
)  # fmt: skip
def efficient_forward(
    q: Arg, k: Arg, v: Arg, bias: Tensor | None = None, cu_seqlens_q: Arg = None,
    custom_mask_type: Arg = None, compute_log_sumexp: Arg = True,
) -> Cost:  # fmt: skip
    """The op that launches memory-efficient attention; mask type 0 is none, 1 and 2 causal."""
    causal = integer(custom_mask_type, "the mask type") != 0
    kept = flag(compute_log_sumexp, "", True)
    return forward_cost(sized(q, k, v, cu_seqlens_q, causal), bias, statistics=kept)


@formula(f"{_SDPA}flash_attention_backward", composite=True,
         order="_ q k v _ _ _ _ _ _ dropout_p is_causal")  # fmt: skip
@formula(f"{_SDPA}flash_attention_for_cpu_backward",
         order="_ q k v _ _ dropout_p is_causal attn_mask")  # fmt: skip
@formula(f"{_SDPA}efficient_attention_backward", composite=True,
         order="_ q k v attn_bias _ _ _ _ dropout_p grad_input_mask is_causal")  # fmt: skip
@formula(f"{_SDPA}cudnn_attention_backward",
         order="_ q k v _ _ _ _ attn_bias _ _ _ _ dropout_p is_causal")  # fmt: skip
@formula(f"{_SDPA}fused_attention_overrideable_backward",
         order="_ q k v attn_bias grad_input_mask _ _ _ _ _ _ dropout_p is_causal")  # fmt: skip
def fused_backward(
    q: Arg, k: Arg, v: Arg, attn_mask: Tensor | None = None, attn_bias: Tensor | None = None,
    is_causal: Arg = False,
) -> Cost:  # fmt: skip
    """Gradients of one implementation."""
    return backward_cost(attention(q, k, v, is_causal), attn_mask or attn_bias)


@formula("aten::_flash_attention_backward",
         order="_ q k v _ _ cum_seq_q _ _ _ dropout_p is_causal")  # fmt: skip
def flash_backward(q: Arg, k: Arg, v: Arg, cum_seq_q: Arg = None, is_causal: Arg = None) -> Cost:
    """The op that launches flash attention's backward kernels."""
    return backward_cost(sized(q, k, v, cum_seq_q, is_causal))


@formula("aten::_efficient_attention_backward",
         order="_ q k v bias _ cu_seqlens_q _ _ _ _ dropout_p _ _ custom_mask_type")  # fmt: skip
def efficient_backward(
    q: Arg, k: Arg, v: Arg, bias: Tensor | None = None, cu_seqlens_q: Arg = None,
    custom_mask_type: Arg = None,
) -> Cost:  # fmt: skip
    """The op that launches memory-efficient attention's backward kernels."""
    causal = integer(custom_mask_type, "the mask type") != 0
    return backward_cost(sized(q, k, v, cu_seqlens_q, causal), bias)


@formula("flex_attention", "higher_order::flex_attention")
def flex(q: Arg, k: Arg, v: Arg) -> Cost:
    """Flex attention, all pairs: what its mask leaves out is known to the program only."""
    return forward_cost(attention(q, k, v, False))


@formula("flex_attention_backward", "higher_order::flex_attention_backward")
def flex_backward(q: Arg, k: Arg, v: Arg) -> Cost:
    """Gradients of flex attention, all pairs."""
    return backward_cost(attention(q, k, v, False))
