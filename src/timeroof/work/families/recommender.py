"""FBGEMM's ops of recommenders: embedding tables packed into one tensor, sparse features."""

from __future__ import annotations

from timeroof.work.args import UncountableError, optional, ranked, tensor
from timeroof.work.call import Arg, Call, Tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula

_PERMUTE_NODE = (
    "torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbsFunction"
    "<&fbgemm_gpu::permute_pooled_embs_gpu> >"
)
LIKE_TABLES = ("all tables are taken as equally wide, and indices as all different",)


def lookup_cost(
    weights: list[Tensor], tables: int, width: float, indices: Tensor, offsets: Tensor,
    per_index: Tensor | None,
) -> Cost:  # fmt: skip
    """Rows picked from all tables and added up per bag: an addition per element of a row.

    There is an offset per table and sample, so samples are offsets / tables.
    """
    table = sum(t.count for t in weights)
    dtype = weights[0].dtype
    rows = Tensor((min(int(indices.count * width), table),), dtype)
    out = Tensor((int((offsets.count - 1) * width),), dtype)
    flops = indices.count * width * (1 + (per_index is not None))
    reads = [rows, indices, offsets, per_index]
    return cost(reads, [out], other=flops, dtype=dtype, origin="modelled", notes=LIKE_TABLES)


@formula(
    "fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function",
    "fbgemm::split_embedding_codegen_lookup_adagrad_function",
    "fbgemm::split_embedding_codegen_lookup_sgd_function",
    "fbgemm::split_embedding_codegen_lookup_adam_function",
)
def split_lookup(call: Call) -> Cost:
    """Tables in several memories; row-wise moments tell how many rows there are."""
    values = call.inputs
    weights = [t for t in values[:3] if isinstance(t, Tensor) and t.count]
    tables = tensor(values[5], "the tables' offsets").count
    indices, offsets = tensor(values[11], "the indices"), tensor(values[12], "the offsets")
    if isinstance(values[7], int):
        width = values[7] / max(tables, 1)
    elif "rowwise" in call.op:
        moments = [t.count for t in values[20:22] if isinstance(t, Tensor)]
        width = sum(t.count for t in weights) / max(sum(moments), 1)
    else:
        raise UncountableError("the tables' width is not recorded")
    return lookup_cost(weights, tables, width, indices, offsets, optional(values[14]))


@formula("fbgemm::dense_embedding_codegen_lookup_function")
def dense_lookup(
    weights: Arg, weights_offsets: Arg, d_offsets: Arg, total_d: Arg, max_d: Arg,
    hash_size_cumsum: Arg, total_hash_size_bits: Arg, indices: Arg, offsets: Arg,
    pooling_mode: Arg = None, indice_weights: Arg = None,
) -> Cost:  # fmt: skip
    """Tables whose gradients are dense."""
    tables = tensor(weights_offsets, "the tables' offsets").count
    if not isinstance(total_d, int):
        raise UncountableError("the tables' width is not recorded")
    width = total_d / max(tables, 1)
    found = [tensor(weights, "the weights")]
    index, starts = tensor(indices, "the indices"), tensor(offsets, "the offsets")
    return lookup_cost(found, tables, width, index, starts, optional(indice_weights))


@formula(
    "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>",
    "torch::autograd::CppNode<SplitLookupFunction_adagrad_Op>",
    "torch::autograd::CppNode<SplitLookupFunction_Dense_Op>",
)
def lookup_backward(call: Call) -> Cost:
    """Gradients and update of the rows that were picked: an autograd node, of which only the
    incoming gradient is recorded.
    """
    raise UncountableError("the indices of the forward pass are not recorded here")


@formula("fbgemm::asynchronous_complete_cumsum", "fb::asynchronous_complete_cumsum",
         "fbgemm::asynchronous_exclusive_cumsum",
         "fbgemm::asynchronous_inclusive_cumsum")  # fmt: skip
def cumsum(x: Arg) -> Cost:
    """A running sum of lengths: integers."""
    found = tensor(x, "the lengths")
    return cost([found], [Tensor((found.count + 1,), found.dtype)])


@formula("fbgemm::bounds_check_indices")
def bounds_check(rows: Arg, indices: Arg, offsets: Arg) -> Cost:
    """Every index and offset read and compared."""
    return cost([tensor(t, "the indices") for t in (rows, indices, offsets)], [])


@formula("fbgemm::permute_2D_sparse_data", "fbgemm::permute_1D_sparse_data",
         "fbgemm::permute_sparse_features", "fbgemm::permute_sparse_data")  # fmt: skip
def permute_sparse(permute: Arg, lengths: Arg, values: Arg, weights: Arg = None) -> Cost:
    """Lengths and values in another order of features."""
    order, sizes, found = (tensor(t, "an input") for t in (permute, lengths, values))
    extra = tensor(weights, "the weights") if isinstance(weights, Tensor) else None
    return cost([order, sizes, found, extra], [sizes, found, extra])


@formula("fbgemm::permute_pooled_embs_auto_grad", "fbgemm::permute_pooled_embs",
         "fbgemm::recat_embedding_grad_output_mixed_D_batch",
         "fbgemm::recat_embedding_grad_output_mixed_D",
         _PERMUTE_NODE,
         "fb::offsets_range")  # fmt: skip
def rearranged(x: Arg) -> Cost:
    """The same elements in another order."""
    found = tensor(x, "the input")
    return cost([found], [Tensor(found.shape, found.dtype)])


@formula("fbgemm::dense_to_jagged", "fbgemm::jagged_to_padded_dense")
def jagged(call: Call, x: Arg) -> Cost:
    """Between padded and packed rows; the packed side is what must move."""
    found = ranked(x, "the input", 1, 2, 3)
    return cost([found], [found], origin="modelled")
