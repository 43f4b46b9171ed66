"""Views, allocation and questions about tensors: they move nothing and compute nothing."""

from __future__ import annotations

from timeroof.work.call import Call
from timeroof.work.cost import FREE, Cost
from timeroof.work.registry import formula

_VIEWS = (
    "view", "_unsafe_view", "view_as", "view_as_real", "view_as_complex", "_reshape_alias",
    "as_strided", "alias", "detach", "t", "transpose", "numpy_T", "T", "mT", "mH", "matrix_H",
    "adjoint", "swapaxes", "swapdims", "permute", "movedim", "moveaxis", "slice", "select",
    "narrow", "split", "split_with_sizes", "tensor_split", "chunk", "unsafe_chunk", "unsafe_split",
    "unsafe_split_with_sizes", "unbind", "squeeze", "unsqueeze", "expand", "expand_as",
    "broadcast_to", "broadcast_tensors", "unfold", "diagonal", "diagonal_backward_view",
    "unflatten", "hsplit", "vsplit", "dsplit", "lift", "lift_fresh", "conj", "_conj", "_neg_view",
    "resolve_conj_view", "positive_view", "values", "_values", "indices", "_indices",
    "crow_indices", "col_indices", "ravel_view", "real_view", "imag_view", "_fw_primal",
    "_make_dual", "_unpack_dual", "_test_ambiguous_defaults", "view_copy_alias", "refine_names",
    "rename", "align_to", "atleast_1d", "atleast_2d", "atleast_3d", "_autocast_to_view",
    "_nested_view_from_buffer", "_nested_view_from_jagged", "squeeze_multiple",
)  # fmt: skip
_ALLOCATIONS = (
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
    "_empty_affine_quantized", "_empty_per_channel_affine_quantized", "resize", "resize_as",
    "_resize_output", "set", "set_data", "_efficientzerotensor", "empty_quantized",
    "_mkldnn_transpose", "_mkldnn_reshape", "_sparse_coo_tensor_unsafe",
    "_sparse_coo_tensor_with_dims_and_tensors", "sparse_coo_tensor", "_coalesced",
)  # fmt: skip
_QUESTIONS = (
    "result_type", "can_cast", "size", "stride", "dim", "numel", "is_contiguous", "is_pinned",
    "is_same_size", "is_floating_point", "is_complex", "is_signed", "is_leaf", "is_conj",
    "is_neg", "is_inference", "is_coalesced", "storage_offset", "sym_size", "sym_stride",
    "sym_numel", "sym_storage_offset", "output_nr", "_version", "requires_grad", "retain_grad",
    "retains_grad", "record_stream", "promote_types", "_has_compatible_shallow_copy_type",
    "cudnn_is_acceptable", "_use_cudnn_ctc_loss", "_use_cudnn_rnn_flatten_weight",
    "_use_miopen_ctc_loss", "_fused_sdp_choice", "_nnpack_available", "data", "_assert_async",
    "_assert_tensor_metadata", "_assert_scalar", "_functional_assert_async",
    "_local_scalar_dense_view", "_debug_has_internal_overlap", "device", "layout",
    "_is_zerotensor", "_is_all_true_view", "q_scale", "q_zero_point", "qscheme",
    "q_per_channel_axis", "sparse_dim", "dense_dim", "_dimI", "_dimV", "_nnz",
)  # fmt: skip


@formula(*(f"aten::{name}" for name in (*_VIEWS, *_ALLOCATIONS, *_QUESTIONS)), "detach", "detach_",
         "prim::device", "prim::layout", "prim::profile", "inductor::_alloc_from_pool",
         "inductor::_reinterpret_tensor", "jax::reshape", "jax::squeeze", "jax::expand_dims",
         "jax::bitcast_convert_type", "jax::stop_gradient", "tf::Reshape", "tf::Identity",
         "tf::ExpandDims", "tf::Squeeze", "tf::Shape", "xla::bitcast", "xla::get-tuple-element",
         "xla::tuple", "xla::parameter")  # fmt: skip
def moves_nothing(call: Call) -> Cost:
    """A new look at the same bytes, fresh memory, or a question: zero by nature."""
    return FREE
