"""Embedding, gather, scatter and index: what the indices pick is read, what they hit is written.

Which places the indices name is not recorded. Different places are assumed, at most as
many as there are; repeated ones would need fewer bytes. Origin: modelled.
"""

from __future__ import annotations

from math import prod

from timeroof.work import call as args
from timeroof.work.call import Arg, Call, Tensor, UncountableError, Unrecorded
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula, is_in_place
from timeroof.work.shapes import axes, broadcast

DISTINCT = ("indices are taken as all different",)


def picked(source: Tensor, count: int) -> Tensor:
    """As many elements as are picked, at most all of the source's."""
    return Tensor((min(count, source.count),), source.dtype)


def lookup(source: Tensor, index: Tensor, out: Tensor, flops: float = 0) -> Cost:
    """A result made of picked elements."""
    reads = [picked(source, out.count), index]
    return cost(reads, [out], other=flops, dtype=source.dtype, origin="modelled", notes=DISTINCT)


@formula("aten::embedding", composite=True)
def embedding(weight: Tensor, indices: Tensor) -> Cost:
    """One row per index; it calls index_select or gather."""
    return lookup(weight, indices, Tensor((*indices.shape, *weight.shape[1:]), weight.dtype))


@formula("aten::embedding_dense_backward", "aten::embedding_backward_dense")
@formula("aten::embedding_backward", composite=True)
def embedding_dense_backward(grad: Tensor, indices: Tensor, num_weights: Arg) -> Cost:
    """A whole table of gradients: zeros, with every row's gradient added at its index."""
    table = Tensor((args.integer(num_weights, "the number of rows"), grad.shape[-1]), grad.dtype)
    return cost([grad, indices], [table], other=grad.count, dtype=grad.dtype)


@formula("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
@formula("aten::embedding_bag", composite=True)
def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor) -> Cost:
    """Rows picked and added up per bag: an addition per element of every row."""
    bags, width = offsets.shape[0], weight.shape[-1]
    flops = indices.count * width
    return cost([picked(weight, flops), indices, offsets], [Tensor((bags, width), weight.dtype)],
                other=flops, dtype=weight.dtype, origin="modelled", notes=DISTINCT)  # fmt: skip


@formula("aten::_embedding_bag_dense_backward", composite=True,
         order="grad indices _ _ _ num_weights")  # fmt: skip
@formula("aten::_embedding_bag_backward", composite=True, order="grad indices _ _ _ _ num_weights")
def embedding_bag_backward(grad: Tensor, indices: Tensor, num_weights: Arg = None) -> Cost:
    """A whole table of gradients; each row of a bag gets the bag's gradient."""
    table = Tensor((args.integer(num_weights, "the number of rows"), grad.shape[-1]), grad.dtype)
    return cost([grad, indices], [table], other=indices.count * grad.shape[-1], dtype=grad.dtype)


@formula("aten::index_select")
def index_select(x: Tensor, dim: Arg, index: Tensor) -> Cost:
    """Slices along a dimension."""
    at = axes([args.integer(dim, "dim")], len(x.shape))[0] if x.shape else 0
    shape = tuple(index.count if i == at else n for i, n in enumerate(x.shape))
    return lookup(x, index, Tensor(shape, x.dtype))


@formula("aten::gather", "aten::take_along_dim", "jax::gather", order="x dim index")
@formula("aten::take")
def gather(x: Tensor, index: Tensor) -> Cost:
    """One element per index; a broadcast index is read once."""
    return lookup(x, index, Tensor(index.shape, x.dtype))


def _index_shape(source: Tensor, indices: Arg) -> tuple[tuple[int, ...], list[Tensor]]:
    """The shape of advanced indexing: broadcast indices in place of the dimensions they index."""
    if isinstance(indices, Unrecorded) or not isinstance(indices, tuple):
        raise UncountableError("the indices are not recorded")
    entries = list(indices) + [None] * (len(source.shape) - len(indices))
    given = [(i, args.tensor(e, "an index")) for i, e in enumerate(entries) if e is not None]
    if any(t.dtype == "bool" for _, t in given):
        raise UncountableError("how many elements a mask picks is not recorded")
    if not given:
        return source.shape, []
    shape = broadcast(*(t.shape for _, t in given))
    free = [n for n, e in zip(source.shape, entries, strict=False) if e is None]
    places = [i for i, _ in given]
    together = places == list(range(places[0], places[-1] + 1))
    front = places[0] if together else 0
    return (*free[:front], *shape, *free[front:]), [t for _, t in given]


@formula("aten::index", "aten::_unsafe_index", "aten::_unsafe_masked_index")
def index(call: Call, x: Tensor, indices: Arg = None) -> Cost:
    """Advanced indexing; where the indices were not recorded, the result says how much."""
    if call.outputs:
        out = args.tensor(call.outputs[0], "the result")
        given = indices if isinstance(indices, tuple) else ()
        reads = [t for t in given if isinstance(t, Tensor)]
        return cost([picked(x, out.count), *reads], [out], origin="modelled", notes=DISTINCT)
    shape, used = _index_shape(x, indices)
    out = Tensor(shape, x.dtype)
    return cost([picked(x, out.count), *used], [out], origin="modelled", notes=DISTINCT)


@formula("aten::index_put", "aten::_index_put_impl", "aten::_unsafe_index_put")
def index_put(
    call: Call, target: Tensor, indices: Arg, values: Tensor, accumulate: Arg = False
) -> Cost:
    """Values put (or added) at places: out of place, the rest is copied too."""
    used = [t for t in (indices if isinstance(indices, tuple) else ()) if isinstance(t, Tensor)]
    count = values.count
    if used and values.count == 1:
        count = prod(_index_shape(target, indices)[0])
    return scattered(call, target, count, [values, *used], adding=accumulate is True)


def scattered(call: Call, target: Tensor, count: int, reads: list[Tensor], *, adding: bool) -> Cost:
    """Write what so many places hit (read it first when adding); out of place, copy the target.
    Every one is an addition, whether places repeat or not."""
    hit = picked(target, count)
    if is_in_place(call.op):
        reads, writes = [*reads, *([hit] if adding else [])], [hit]
    else:
        reads, writes = [*reads, target], [Tensor(target.shape, target.dtype)]
    flops = count if adding else 0
    return cost(reads, writes, other=flops, dtype=target.dtype, origin="modelled", notes=DISTINCT)


@formula("aten::scatter", "aten::scatter_add", "aten::scatter_reduce", "aten::index_add",
         "aten::index_copy", "aten::index_fill", "aten::index_reduce", "jax::scatter_add",
         "jax::scatter")  # fmt: skip
def scatter(
    call: Call, target: Tensor, dim: Arg, index: Tensor, source: Tensor | None = None
) -> Cost:
    """Elements or slices of the source put or added at the index's places."""
    adding = "add" in call.op or "reduce" in call.op
    if "index_" in call.op and target.shape:
        at = axes([args.integer(dim, "dim")], len(target.shape))[0]
        count = target.count // max(target.shape[at], 1) * index.count
    else:
        count = index.count
    reads = [index, *([picked(source, count)] if source else [])]
    return scattered(call, target, count, reads, adding=adding)


@formula("aten::masked_scatter", "aten::masked_scatter_backward")
def masked_scatter(call: Call, target: Tensor, mask: Tensor, source: Tensor | None = None) -> Cost:
    """How many elements a mask picks is not recorded: all that the source has, at most."""
    count = source.count if source else target.count
    return scattered(call, target, count, [mask, *([source] if source else [])], adding=False)


@formula("aten::masked_select", "aten::nonzero", "aten::argwhere", "aten::nonzero_numpy",
         "aten::unique_consecutive", "aten::_unique2", "aten::_unique",
         "aten::unique_dim")  # fmt: skip
def picked_by_data(call: Call, x: Tensor, mask: Tensor | None = None) -> Cost:
    """The result's size depends on the data: taken from the record, or left out with a note."""
    found = [x, mask]
    if call.outputs is not None:
        return cost(found, call.outputs)
    note = ("the result's size depends on the data and is not recorded: left out",)
    return cost(found, [], origin="modelled", notes=note)


@formula("aten::repeat_interleave")
def repeat_interleave(call: Call, x: Tensor, repeats: Arg = None, dim: Arg = None) -> Cost:
    """Elements repeated; a list of repeats makes the size depend on the data."""
    if call.outputs is not None:
        return cost([x, args.optional(repeats)], call.outputs)
    if isinstance(repeats, int):
        return cost([x], [Tensor((x.count * repeats,), x.dtype)])
    raise UncountableError("the repeats are not recorded")


@formula("aten::one_hot", composite=True)
def one_hot(call: Call, x: Tensor, classes: Arg = -1) -> Cost:
    """Zeros with ones put in place."""
    count = args.integer(classes, "the classes")
    if count < 0:
        raise UncountableError("the number of classes depends on the data")
    return cost([x], [Tensor((*x.shape, count), "int64")])


@formula("aten::index_select_backward", composite=True)
def index_select_backward(grad: Tensor, sizes: Arg, dim: Arg, index: Tensor) -> Cost:
    """Zeros with the gradient's slices added at the index's places."""
    whole = Tensor(args.integers(sizes, "the sizes"), grad.dtype)
    return cost([grad, index], [whole], other=grad.count, dtype=grad.dtype)


@formula("aten::gather_backward", composite=True)
def gather_backward(grad: Tensor, x: Tensor, dim: Arg, index: Tensor) -> Cost:
    """Zeros with the gradient added at the index's places."""
    return cost([grad, index], [x], other=grad.count, dtype=grad.dtype)


@formula("aten::searchsorted", "aten::bucketize", "aten::isin")
def searchsorted(call: Call, first: Tensor, second: Tensor) -> Cost:
    """A binary search per value: comparisons only."""
    values = first if "bucketize" in call.op or "isin" in call.op else second
    dtype = "bool" if "isin" in call.op else "int64"
    return cost([first, second], [Tensor(values.shape, dtype)])


# Sorting and top-k: keys are compared and moved, which is no arithmetic (0 FLOPs by nature).


@formula("aten::sort", "aten::msort", "jax::sort", itself=True)
@formula("aten::argsort", composite=True)
def sort(x: Tensor) -> Cost:
    """The sorted elements and their former places."""
    return cost([x], [Tensor(x.shape, x.dtype), Tensor(x.shape, "int64")])


@formula("aten::topk", "jax::top_k", "tf::TopKV2")
def topk(x: Tensor, k: Arg, dim: Arg = -1) -> Cost:
    """The k largest along a dimension, with places."""
    at = axes([args.integer(dim, "dim")], len(x.shape))[0]
    size = args.integer(k, "k")
    shape = tuple(size if i == at else n for i, n in enumerate(x.shape))
    return cost([x], [Tensor(shape, x.dtype), Tensor(shape, "int64")])


@formula("sgl_kernel::topk_softmax", "sgl_kernel::topk_sigmoid", order="weights indices scores")
@formula("aiter::grouped_topk", order="scores weights indices")
@formula("aiter::biased_grouped_topk", "aiter::biased_grouped_topk_hip", "aiter::moe_fused_gate",
         order="scores bias weights indices")  # fmt: skip
@formula("vllm::topk_softmax", "_moe_C::topk_softmax", "aiter::topk_softmax",
         "aiter::topk_softmax_asm", "aiter::topk_sigmoid",
         order="weights indices token_indices scores")  # fmt: skip
def topk_softmax(
    weights: Tensor, indices: Tensor, scores: Tensor, token_indices: Tensor | None = None,
    bias: Tensor | None = None,
) -> Cost:  # fmt: skip
    """Softmax over experts and the best of them; inference engines name results first."""
    flops = (5 + (bias is not None)) * scores.count
    return cost([scores, bias], [weights, indices, token_indices], other=flops, dtype=scores.dtype)


@formula("sgl_kernel::moe_fused_gate", order="scores bias _ _ chosen")
def fused_gate(scores: Tensor, bias: Tensor, chosen: Arg) -> Cost:
    """The same into new tensors; how many experts a token goes to is an argument."""
    if not scores.shape:
        raise UncountableError("the scores have no dimensions")
    picked = (scores.count // max(scores.shape[-1], 1), args.integer(chosen, "the choice"))
    writes = [Tensor(picked, "fp32"), Tensor(picked, "int32")]
    return cost([scores, bias], writes, other=6 * scores.count, dtype=scores.dtype)
