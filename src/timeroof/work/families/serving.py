"""Ops of inference engines (vLLM): results come first, weights often hide in a layer's name."""

from __future__ import annotations

from timeroof.work.args import UncountableError, tensor
from timeroof.work.call import Arg, Call, Tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula

ROTATION_FLOPS = 3  # per element: two products and a sum


@formula("_C::rotary_embedding", "vllm::rotary_embedding", "_C::batched_rotary_embedding")
def rotary(
    positions: Arg, query: Arg, key: Arg = None, head_size: Arg = None, cache: Arg = None
) -> Cost:
    """vLLM's rotary embedding in place; one row of the cache per position."""
    q, table = tensor(query, "the query"), tensor(cache, "the cosine and sine cache")
    k = tensor(key, "the key") if isinstance(key, Tensor) else None
    places = tensor(positions, "the positions")
    rows = Tensor((min(places.count, table.shape[0]), table.shape[-1]), table.dtype)
    turned = q.count + (k.count if k else 0)
    return cost([places, q, k, rows], [q, k], other=ROTATION_FLOPS * turned, dtype=q.dtype)


@formula("_C_cache_ops::reshape_and_cache_flash", "_C_cache_ops::reshape_and_cache")
def write_cache(key: Arg, value: Arg, key_cache: Arg, value_cache: Arg, slots: Arg) -> Cost:
    """Keys and values written to their slots of the cache, perhaps in a narrower format."""
    k, v = tensor(key, "the key"), tensor(value, "the value")
    dtypes = [tensor(t, "the cache").dtype for t in (key_cache, value_cache)]
    writes = [Tensor(t.shape, d) for t, d in zip((k, v), dtypes, strict=True)]
    return cost([k, v, tensor(slots, "the slots")], writes)


@formula("vllm::moe_forward", "vllm::moe_forward_shared", "vllm::inplace_fused_experts")
def moe_forward(call: Call) -> Cost:
    """A mixture of experts: the experts' weights are not among the arguments."""
    raise UncountableError("the experts' weights are not among the recorded arguments")


@formula("vllm::unified_attention_with_output", "vllm::unified_attention")
def paged_attention(call: Call) -> Cost:
    """Attention over a paged cache: how long the contexts are is not recorded."""
    raise UncountableError("the lengths of the cached contexts are not recorded")
