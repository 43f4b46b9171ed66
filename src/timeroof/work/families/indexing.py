"""Embedding, gather, scatter and index: what the indices pick is read, what they hit is written.

Which places the indices name is not recorded. Different places are assumed, at most as
many as there are; repeated ones would need fewer bytes. Origin: modelled.
"""

from __future__ import annotations

from math import prod

from timeroof.work.call import (
    Arg,
    Call,
    Tensor,
    UncountableError,
    Unrecorded,
    integer,
    optional,
    tensor,
)
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
def embedding(weight: Arg, indices: Arg) -> Cost:
    """One row per index; it calls index_select or gather."""
    table, index = tensor(weight, "the weight"), tensor(indices, "the indices")
    return lookup(table, index, Tensor((*index.shape, *table.shape[1:]), table.dtype))


@formula("aten::embedding_dense_backward", "aten::embedding_backward_dense")
def embedding_dense_backward(grad: Arg, indices: Arg, num_weights: Arg) -> Cost:
    """A whole table of gradients: zeros, with every row's gradient added at its index."""
    g, index = tensor(grad, "the gradient"), tensor(indices, "the indices")
    table = Tensor((integer(num_weights, "the number of rows"), g.shape[-1]), g.dtype)
    return cost([g, index], [table], other=g.count, dtype=g.dtype)


@formula("aten::embedding_backward", composite=True)
def embedding_backward(grad: Arg, indices: Arg, num_weights: Arg) -> Cost:
    """The op above the dense and sparse ones."""
    return embedding_dense_backward(grad, indices, num_weights)


@formula("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(weight: Arg, indices: Arg, offsets: Arg) -> Cost:
    """Rows picked and added up per bag: an addition per element of every row."""
    table, index = tensor(weight, "the weight"), tensor(indices, "the indices")
    bags, width = tensor(offsets, "the offsets").shape[0], table.shape[-1]
    rows = picked(table, index.count * width)
    reads = [rows, index, tensor(offsets, "the offsets")]
    out = Tensor((bags, width), table.dtype)
    return cost(
        reads,
        [out],
        other=index.count * width,
        dtype=table.dtype,
        origin="modelled",
        notes=DISTINCT,
    )


@formula("aten::embedding_bag", composite=True)
def embedding_bag_op(weight: Arg, indices: Arg, offsets: Arg) -> Cost:
    """The op above _embedding_bag."""
    return embedding_bag(weight, indices, offsets)


@formula("aten::_embedding_bag_dense_backward", "aten::_embedding_bag_backward", composite=True)
def embedding_bag_backward(
    call: Call, grad: Arg, indices: Arg, a: Arg = None, b: Arg = None, c: Arg = None, d: Arg = None,
    num_weights: Arg = None,
) -> Cost:  # fmt: skip
    """A whole table of gradients; each row of a bag gets the bag's gradient."""
    g, index = tensor(grad, "the gradient"), tensor(indices, "the indices")
    rows = d if call.op.endswith("dense_backward") else num_weights
    table = Tensor((integer(rows, "the number of rows"), g.shape[-1]), g.dtype)
    return cost([g, index], [table], other=index.count * g.shape[-1], dtype=g.dtype)


@formula("aten::index_select", "aten::index_select_backward_view")
def index_select(x: Arg, dim: Arg, index: Arg) -> Cost:
    """Slices along a dimension."""
    source, places = tensor(x, "the input"), tensor(index, "the index")
    at = axes([integer(dim, "dim")], len(source.shape))[0] if source.shape else 0
    shape = tuple(places.count if i == at else n for i, n in enumerate(source.shape))
    return lookup(source, places, Tensor(shape, source.dtype))


@formula("aten::gather", "aten::take_along_dim", "jax::gather", "tf::GatherV2")
def gather(x: Arg, dim: Arg, index: Arg) -> Cost:
    """One element per index; a broadcast index is read once."""
    source, places = tensor(x, "the input"), tensor(index, "the index")
    return lookup(source, places, Tensor(places.shape, source.dtype))


@formula("aten::take")
def take(x: Arg, index: Arg) -> Cost:
    """Elements by their place in the flat tensor."""
    source, places = tensor(x, "the input"), tensor(index, "the index")
    return lookup(source, places, Tensor(places.shape, source.dtype))


def _index_shape(source: Tensor, indices: Arg) -> tuple[tuple[int, ...], list[Tensor]]:
    """The shape of advanced indexing: broadcast indices in place of the dimensions they index."""
    if isinstance(indices, Unrecorded) or not isinstance(indices, tuple):
        raise UncountableError("the indices are not recorded")
    entries = list(indices) + [None] * (len(source.shape) - len(indices))
    given = [(i, tensor(e, "an index")) for i, e in enumerate(entries) if e is not None]
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
def index(call: Call, x: Arg, indices: Arg = None) -> Cost:
    """Advanced indexing; where the indices were not recorded, the result says how much."""
    source = tensor(x, "the input")
    if call.outputs:
        out = tensor(call.outputs[0], "the result")
        reads = [
            t for t in (indices if isinstance(indices, tuple) else ()) if isinstance(t, Tensor)
        ]
        return cost([picked(source, out.count), *reads], [out], origin="modelled", notes=DISTINCT)
    shape, used = _index_shape(source, indices)
    out = Tensor(shape, source.dtype)
    return cost([picked(source, out.count), *used], [out], origin="modelled", notes=DISTINCT)


@formula("aten::index_put", "aten::_index_put_impl", "aten::_unsafe_index_put")
def index_put(call: Call, x: Arg, indices: Arg, values: Arg, accumulate: Arg = False) -> Cost:
    """Values put (or added) at places: out of place, the rest is copied too."""
    target, given = tensor(x, "the target"), tensor(values, "the values")
    used = [t for t in (indices if isinstance(indices, tuple) else ()) if isinstance(t, Tensor)]
    hit = picked(target, given.count)
    if used and given.count == 1:
        hit = picked(target, prod(_index_shape(target, indices)[0]))
    adding = accumulate is True
    return scattered(call, target, hit, [given, *used], adding)


def scattered(call: Call, target: Tensor, hit: Tensor, reads: list[Tensor], adding: bool) -> Cost:
    """Write what is hit (read it first when adding); out of place, copy the target."""
    if is_in_place(call.op):
        reads, writes = [*reads, *([hit] if adding else [])], [hit]
    else:
        reads, writes = [*reads, target], [Tensor(target.shape, target.dtype)]
    flops = hit.count if adding else 0
    return cost(reads, writes, other=flops, dtype=target.dtype, origin="modelled", notes=DISTINCT)


@formula("aten::scatter", "aten::scatter_add", "aten::scatter_reduce", "aten::index_add",
         "aten::index_copy", "aten::index_fill", "aten::index_reduce", "jax::scatter_add",
         "jax::scatter")  # fmt: skip
def scatter(call: Call, x: Arg, dim: Arg, index: Arg, source: Arg = None) -> Cost:
    """Elements or slices of the source put or added at the index's places."""
    target, places = tensor(x, "the target"), tensor(index, "the index")
    given = optional(source)
    adding = "add" in call.op or "reduce" in call.op
    if "index_" in call.op and target.shape:
        at = axes([integer(dim, "dim")], len(target.shape))[0]
        count = target.count // max(target.shape[at], 1) * places.count
    else:
        count = places.count
    reads = [places, *([picked(given, count)] if given else [])]
    return scattered(call, target, picked(target, count), reads, adding)


@formula("aten::masked_scatter", "aten::masked_scatter_backward")
def masked_scatter(call: Call, x: Arg, mask: Arg, source: Arg = None) -> Cost:
    """How many elements a mask picks is not recorded: all that the source has, at most."""
    target, where = tensor(x, "the target"), tensor(mask, "the mask")
    given = optional(source)
    hit = picked(target, given.count if given else target.count)
    return scattered(call, target, hit, [where, *([given] if given else [])], False)


@formula("aten::masked_select", "aten::nonzero", "aten::argwhere", "aten::nonzero_numpy",
         "aten::unique_consecutive", "aten::_unique2", "aten::_unique",
         "aten::unique_dim")  # fmt: skip
def picked_by_data(call: Call, x: Arg, mask: Arg = None) -> Cost:
    """The result's size depends on the data: taken from the record, or left out with a note."""
    found = [tensor(x, "the input"), optional(mask)]
    if call.outputs is not None:
        return cost(found, call.outputs)
    note = ("the result's size depends on the data and is not recorded: left out",)
    return cost(found, [], origin="modelled", notes=note)


@formula("aten::repeat_interleave")
def repeat_interleave(call: Call, x: Arg, repeats: Arg = None, dim: Arg = None) -> Cost:
    """Elements repeated; a list of repeats makes the size depend on the data."""
    found = tensor(x, "the input")
    if call.outputs is not None:
        return cost([found, optional(repeats)], call.outputs)
    if isinstance(repeats, int):
        return cost([found], [Tensor((found.count * repeats,), found.dtype)])
    raise UncountableError("the repeats are not recorded")


@formula("aten::one_hot", composite=True)
def one_hot(call: Call, x: Arg, classes: Arg = -1) -> Cost:
    """Zeros with ones put in place."""
    found, count = tensor(x, "the input"), integer(classes, "the classes")
    if count < 0:
        raise UncountableError("the number of classes depends on the data")
    return cost([found], [Tensor((*found.shape, count), "int64")])


@formula("aten::gather_backward", composite=True)
def gather_backward(grad: Arg, x: Arg, dim: Arg, index: Arg) -> Cost:
    """Zeros with the gradient added at the index's places."""
    g, found = tensor(grad, "the gradient"), tensor(x, "the input")
    return cost([g, tensor(index, "the index")], [found], other=g.count, dtype=g.dtype)


@formula("aten::searchsorted", "aten::bucketize", "aten::isin")
def searchsorted(call: Call, first: Arg, second: Arg) -> Cost:
    """A binary search per value: comparisons only."""
    a, b = tensor(first, "the first"), tensor(second, "the second")
    values = a if "bucketize" in call.op or "isin" in call.op else b
    dtype = "bool" if "isin" in call.op else "int64"
    return cost([a, b], [Tensor(values.shape, dtype)])


# Sorting and top-k: keys are compared and moved, which is no arithmetic (0 FLOPs by nature).


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
