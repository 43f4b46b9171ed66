"""Ops of inference engines (vLLM): results come first, weights often hide in a layer's name."""

from __future__ import annotations

import re

import msgspec

from timeroof.work.call import Arg, Call, Tensor, UncountableError, ranked, tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.counting import Kernel, kernel_formula
from timeroof.work.families.attention import Attention, forward_cost
from timeroof.work.registry import formula

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
