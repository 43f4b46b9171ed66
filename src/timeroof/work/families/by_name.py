"""Names of a form instead of ops: bookkeeping of frameworks, and kernels that a compiler fused.

Autograd nodes, optimizer steps and markers only call ops, which are recorded below them. Their
own time on a CPU is bookkeeping; a device kernel that is linked to nothing better is unknown.

Inductor calls its Triton kernels ``triton_poi_fused_add_mul_2``. Every buffer is read or
written at least once, which gives the bytes; each op of the name runs over the largest
buffer, which gives the FLOPs. Both are inferred, and lower bounds of the definition. A buffer that
nothing else could be computed from is read and written in place; where a part of a buffer is taken,
no more of it is read than the result has elements.
"""

from __future__ import annotations

import re

from timeroof.core.vocabulary import remembered
from timeroof.work.call import Call, Tensor, UncountableError, every_tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.families.elementwise import ARITHMETIC, BACKWARD, COMPARISONS, TRANSCENDENTAL
from timeroof.work.registry import Rule, pattern

BOOKKEEPING = Cost(free=True, composite=True, notes=("only calls other ops",))

_NAMES = re.compile(
    r"""^(
        autograd::engine::evaluate_function:.*
      | torch::autograd::(AccumulateGrad|CopySlices|CopyBackwards|GraphRoot|Error)
      | [A-Z]\w*Backward\d+
      | Optimizer\.\w+\#.*
      | ProfilerStep.*
      | enumerate\(DataLoader\).*
      | DistributedDataParallel\..*
      | FullyShardedDataParallel\..*
      | (FSDP|fsdp)::.*
      | Torch-Compiled\ Region.*
      | \#\#\ Call\ CompiledFxGraph.*
      | (CompiledFunction|CompiledFunctionBackward)
      | TorchDynamo\ Cache\ Lookup
      | AOTDispatcher\ .*
      | nn\.Module:.*
      | Pregraph\ bytecode
      | Memcpy\ \w+\ marker
      | torch::jit::.*
      | Iteration\ Start:.*
      | \[pl\].*
      | _NoopSaveInputs
      | profiler::_record_function.*
    )$""",
    re.VERBOSE,
)


def bookkeeping(call: Call) -> Cost:
    """No work of its own."""
    return BOOKKEEPING


_BOOKKEEPING = Rule(bookkeeping, (), True, True)


@pattern
def bookkeeping_rule(name: str) -> Rule | None:
    """Bookkeeping, where the name is that of an autograd node or a marker."""
    return _BOOKKEEPING if _NAMES.match(name) else None


# Kernels that a compiler fused: the ops are in the name, the buffers in the arguments.

_NAME = re.compile(r"^triton_(?:poi|red|per|tem|for)_fused_(.*?)_?\d*$")
_FURTHER = {
    "sum": 1, "mean": 1, "var_mean": 4, "amax": 1, "amin": 1, "_softmax": 5, "_log_softmax": 5,
    "native_layer_norm": 8, "native_batch_norm": 8, "_native_batch_norm_legit": 8,
    "_native_batch_norm_legit_functional": 8, "native_dropout": 2, "prod": 1, "cumsum": 1,
    "_softmax_backward_data": 4, "_log_softmax_backward_data": 4, "native_layer_norm_backward": 13,
    "native_batch_norm_backward": 13, "nll_loss_forward": 0, "nll_loss_backward": 0, "mse_loss": 2,
    "max_pool2d_with_indices": 8, "embedding": 0, "rms_norm": 4, "_fused_rms_norm": 4,
}  # fmt: skip
_MOVES = (
    "_to_copy", "_unsafe_view", "view", "clone", "cat", "stack", "permute", "transpose", "t",
    "slice", "select", "squeeze", "unsqueeze", "expand", "zeros", "ones", "full", "zeros_like",
    "full_like", "ones_like", "empty", "arange", "copy", "split", "index", "index_put", "gather",
    "scatter", "constant_pad_nd", "alias", "detach", "as_strided", "lift_fresh_copy", "repeat",
    "scalar_tensor", "convolution", "addmm", "mm", "bmm", "new_zeros", "iota", "reshape",
    "slice_backward", "select_backward", "slice_scatter", "select_scatter", "moe", "forward",
    "embedding_dense_backward", "split_with_sizes", "unbind", "flip", "sort", "bernoulli",
    "inductor",
    "seeds", "random", "lookup", "seed", "prims", "convert", "element", "type", "scaled", "dot",
    "product", "attention", "flash", "efficient",
)  # fmt: skip


@remembered(4096)
def fused_flops(words: str) -> int:
    """FLOPs per element of all ops in a fused kernel's name; unknown words count nothing.

    >>> fused_flops("add_mean_mul_pow_rsqrt"), fused_flops("_unsafe_view_mul_silu")
    (5, 6)
    """
    table = {**ARITHMETIC, **TRANSCENDENTAL, **COMPARISONS, **BACKWARD, **_FURTHER}
    table |= dict.fromkeys(_MOVES, 0)
    parts, total, place = words.split("_"), 0, 0
    while place < len(parts):
        for end in range(len(parts), place, -1):
            name = "_".join(parts[place:end])
            if name in table:
                total += table[name]
                break
        else:
            end = place + 1
        place = end
    return total


def fused(call: Call) -> Cost:
    """Every buffer once, and the name's ops over the largest of them."""
    match = _NAME.match(call.op)
    buffers = list(every_tensor(*call.inputs))
    if match is None or not buffers:
        raise UncountableError("the kernel's buffers are not recorded")
    flops = fused_flops(match[1])
    pointwise = call.op.startswith("triton_poi")
    if pointwise and _TAKES_A_PART.search(match[1]):
        # Results are the last of a kernel's buffers.
        buffers = [_part(t, buffers[-1].count) for t in buffers]
    largest = max(t.count for t in buffers)
    wide = [t for t in buffers if t.count == largest]
    in_place = wide if pointwise and flops and len(wide) == 1 else []
    note = ("ops taken from the kernel's name",)
    return cost(buffers, in_place, other=flops * largest, origin="inferred", notes=note)


_TAKES_A_PART = re.compile(r"(?:^|_)(?:slice|select|split|unbind|index|gather|embedding)(?:_|$)")


def _part(buffer: Tensor, elements: int) -> Tensor:
    """So many elements of a buffer at most."""
    return buffer if buffer.count <= elements else Tensor((elements,), buffer.dtype)


_FUSED = Rule(fused, (), True, False)


@pattern
def fused_rule(name: str) -> Rule | None:
    """The rule of Inductor's Triton kernels."""
    return _FUSED if _NAME.match(name) else None
