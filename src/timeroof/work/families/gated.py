"""Gated activations: half of the input gates the other half."""

from __future__ import annotations

from timeroof.work.call import Arg, Tensor, integer, tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula
from timeroof.work.shapes import axes


def _half(x: Tensor, dim: int) -> Tensor:
    place = axes([dim], len(x.shape))[0]
    shape = tuple(n // 2 if i == place else n for i, n in enumerate(x.shape))
    return Tensor(shape, x.dtype)


@formula("aten::glu")
def glu(x: Arg, dim: Arg = -1) -> Cost:
    """a·sigmoid(b): 5 FLOPs per result."""
    found = tensor(x, "the input")
    out = _half(found, integer(dim, "dim"))
    return cost([found], [out], other=5 * out.count)


@formula("aten::glu_backward")
def glu_backward(grad: Arg, x: Arg) -> Cost:
    """Both halves' gradients: the sigmoid (4), 1 and 4 products."""
    g, found = tensor(grad, "the gradient"), tensor(x, "the input")
    return cost([g, found], [found], other=9 * g.count)


@formula("_C::silu_and_mul", "vllm::silu_and_mul")
def silu_and_mul(out: Arg, x: Arg) -> Cost:
    """silu(a)·b, vLLM's fused form: the result comes first."""
    written, found = tensor(out, "the result"), tensor(x, "the input")
    return cost([found], [written], other=6 * written.count)
