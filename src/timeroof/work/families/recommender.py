"""FBGEMM's ops of recommenders beside the lookups: sparse features packed, sorted, checked."""

from __future__ import annotations

from timeroof.work.call import Arg, Call, Tensor, ranked, tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula

_PERMUTE_NODE = (
    "torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbsFunction"
    "<&fbgemm_gpu::permute_pooled_embs_gpu> >"
)


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
