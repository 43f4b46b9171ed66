"""Sorting and top-k: keys are compared and moved, which is no arithmetic (0 FLOPs by nature)."""

from __future__ import annotations

from timeroof.work.call import Arg, Call, Tensor, integer, tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula
from timeroof.work.shapes import axes


@formula("aten::sort", "aten::msort", "jax::sort")
def sort(x: Arg) -> Cost:
    """The sorted elements and their former places."""
    found = tensor(x, "the input")
    return cost([found], [Tensor(found.shape, found.dtype), Tensor(found.shape, "int64")])


@formula("aten::argsort", composite=True)
def argsort(x: Arg) -> Cost:
    """The places alone; it calls sort."""
    return sort(x)


@formula("aten::topk", "jax::top_k", "tf::TopKV2")
def topk(x: Arg, k: Arg, dim: Arg = -1) -> Cost:
    """The k largest along a dimension, with places."""
    found = tensor(x, "the input")
    at = axes([integer(dim, "dim")], len(found.shape))[0]
    size = integer(k, "k")
    shape = tuple(size if i == at else n for i, n in enumerate(found.shape))
    return cost([found], [Tensor(shape, found.dtype), Tensor(shape, "int64")])


@formula("vllm::topk_softmax", "_moe_C::topk_softmax")
def topk_softmax(call: Call, weights: Arg, indices: Arg, token_indices: Arg, scores: Arg) -> Cost:
    """Softmax over experts and the best of them: results first, scores last."""
    found = tensor(scores, "the scores")
    outs = [tensor(t, "a result") for t in (weights, indices, token_indices)]
    return cost([found], outs, other=5 * found.count)
