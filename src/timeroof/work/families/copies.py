"""Copies, casts, layout changes and fills: zero FLOPs by nature, all bytes count."""

from __future__ import annotations

from timeroof.work import call as args
from timeroof.work.call import Arg, Call, Tensor, UncountableError
from timeroof.work.cost import FREE, Cost, cost
from timeroof.work.registry import formula


@formula("aten::copy_", "aten::copy", "aten::_copy_from", "aten::_copy_from_and_resize")
def copy(destination: Tensor, source: Tensor) -> Cost:
    """Read the source (a broadcast one once), write the destination, perhaps in another format."""
    return cost([source], [_dense(destination)])


def _dense(x: Tensor, dtype: str | None = None) -> Tensor:
    return Tensor(x.shape, dtype or x.dtype)


@formula("aten::clone", "aten::contiguous", "aten::resolve_conj", "aten::resolve_neg",
         "aten::pin_memory", "aten::_pin_memory", "aten::_to_cpu", "aten::cpu", "aten::cuda",
         "aten::ravel", "aten::_reshape_copy", "aten::reshape", "aten::flatten", "aten::reshape_as",
         composite=True)  # fmt: skip
def maybe_clone(call: Call, x: Tensor) -> Cost:
    """Ops that copy by calling copy_; without a child some of them were views."""
    if call.op.split("::")[-1] not in ("clone", "pin_memory", "_pin_memory"):
        return FREE
    return cost([x], [_dense(x)])


@formula("aten::_to_copy", "aten::to_dense", "aten::to_mkldnn", "aten::_to_dense",
         "aten::_autocast_to_reduced_precision", "aten::_autocast_to_full_precision",
         "aten::type_as", composite=True)  # fmt: skip
def to_copy(call: Call, x: Tensor, dtype: Arg = None) -> Cost:
    """A cast or a move to another device."""
    wanted = args.dtype_of(dtype) if "_to_copy" in call.op else None
    return cost([x], [_dense(x, wanted)])


@formula("aten::to", "aten::float", "aten::half", "aten::double", "aten::int", "aten::long",
         "aten::bool", "aten::bfloat16", composite=True)  # fmt: skip
def to(x: Arg) -> Cost:
    """A cast that calls _to_copy where there is anything to do."""
    return FREE


def _recorded(pieces: Arg) -> bool:
    """Whether all tensors of a list were recorded with their formats."""
    return isinstance(pieces, tuple) and all(
        isinstance(p, Tensor) and p.dtype in args.FORMATS for p in pieces
    )


@formula("aten::cat", "aten::_cat", "aten::concat", "aten::concatenate", "aten::stack",
         "aten::hstack", "aten::vstack", "aten::dstack", "aten::flatten_dense_tensors",
         "aten::column_stack", "jax::concatenate",
         composite=True)  # fmt: skip
def cat(call: Call, pieces: Arg = None) -> Cost:
    """Every piece read once and written once; the result is as large as all of them."""
    if call.outputs and not _recorded(pieces):
        pieces = call.outputs
    found = args.tensors(pieces, "the pieces")
    return cost(found, [_dense(t) for t in found])


@formula("aten::split_with_sizes_copy", "aten::split_copy", "aten::unbind_copy",
         "aten::view_copy", "aten::squeeze_copy", "aten::unsqueeze_copy", "aten::alias_copy",
         "aten::t_copy", "aten::detach_copy",
         "aten::slice_copy", "aten::permute_copy", "aten::transpose_copy", "aten::flip",
         "aten::roll",
         "aten::rot90", "aten::tril", "aten::triu", "aten::pixel_shuffle", "aten::pixel_unshuffle",
         "aten::channel_shuffle", "aten::native_channel_shuffle",
         "aten::mkldnn_reorder_conv2d_weight",
         "aten::mkldnn_reorder_conv3d_weight", "aten::fliplr", "aten::flipud", "onednn::reorder",
         "mkldnn::_reorder_linear_weight", "aten::_mkldnn_reorder",
         "aten::unflatten_dense_tensors")  # fmt: skip
def rearranged(x: Tensor) -> Cost:
    """The same elements in another order."""
    return cost([x], [_dense(x)])


@formula("aten::repeat", "aten::tile", composite=True)
def repeat(x: Tensor, repeats: Arg) -> Cost:
    """Read once, written many times."""
    times = args.integers(repeats, "the repeats")
    out = x.count
    for n in times:
        out *= n
    return cost([x], [Tensor((out,), x.dtype)])


@formula("aten::constant_pad_nd", "aten::pad", "aten::reflection_pad1d", "aten::reflection_pad2d",
         "aten::reflection_pad3d", "aten::replication_pad1d", "aten::replication_pad2d",
         "aten::replication_pad3d", "aten::_pad_circular", composite=True)  # fmt: skip
def pad(x: Tensor, padding: Arg) -> Cost:
    """A larger tensor: pairs of padding count from the last dimension."""
    pairs = args.integers(padding, "the padding")
    shape = list(x.shape)
    if len(pairs) % 2 or len(pairs) > 2 * len(shape):
        raise UncountableError("padding does not fit the input")
    for i in range(len(pairs) // 2):
        shape[-1 - i] = max(shape[-1 - i] + pairs[2 * i] + pairs[2 * i + 1], 0)
    return cost([x], [Tensor(tuple(shape), x.dtype)])


@formula("aten::reflection_pad1d_backward", "aten::reflection_pad2d_backward",
         "aten::replication_pad2d_backward", "aten::replication_pad3d_backward",
         "aten::reflection_pad3d_backward")  # fmt: skip
def pad_backward(grad: Tensor, x: Tensor) -> Cost:
    """The gradient folded back: border elements are added."""
    return cost([grad], [x], other=max(grad.count - x.count, 0), dtype=grad.dtype)


@formula("aten::fill_", "aten::fill", "aten::fill_diagonal_")
def fill(this: Tensor) -> Cost:
    """Written, not read."""
    return cost([], [_dense(this)])


@formula("aten::zero_", "aten::zero", "aten::zeros_like", "aten::ones_like", "aten::full_like",
         composite=True)  # fmt: skip
def fill_op(call: Call, this: Tensor) -> Cost:
    """Fills that call fill_ on most devices."""
    wanted = named_dtype(call, 2 if "full" in call.op else 1) if "like" in call.op else None
    return cost([], [_dense(this, wanted)])


@formula("aten::zeros", "aten::ones", "aten::full", "aten::eye", "aten::scalar_tensor",
         "aten::tensor", composite=True)  # fmt: skip
def new(call: Call, size: Arg) -> Cost:
    """A new tensor filled by fill_ or zero_."""
    shape = args.integers(size, "the size") if isinstance(size, tuple) else ()
    if "eye" in call.op:
        side = args.integer(size, "the size")
        second = call.inputs[1:2]
        wide = second and isinstance(second[0], int) and not isinstance(second[0], bool)
        other = args.integer(second[0], "the size") if wide and len(call.inputs) != 5 else side
        shape = (side, other)
    return cost([], [Tensor(shape, named_dtype(call, 2 if "full" in call.op else 1) or "fp32")])


def named_dtype(call: Call, place: int) -> str | None:
    """The format that a call asks for, by name or in its place among the arguments."""
    named = dict(call.kwargs).get("dtype")
    if named is not None:
        return args.dtype_of(named)
    return args.dtype_of(call.inputs[place]) if place < len(call.inputs) else None


@formula("aten::new_zeros", "aten::new_ones", "aten::new_full", composite=True)
def new_like(call: Call, this: Tensor, size: Arg) -> Cost:
    """A new tensor, of another's format unless told otherwise, filled by fill_ or zero_."""
    dtype = named_dtype(call, 3 if "full" in call.op else 2) or this.dtype
    return cost([], [Tensor(args.integers(size, "the size"), dtype)])


@formula("aten::arange", "aten::range")
def arange(call: Call) -> Cost:
    """Numbers in order; (end), (start, end) or (start, end, step), then four options or none."""
    given = call.inputs[:-4] if len(call.inputs) >= 5 else call.inputs
    values = [v for v in given if isinstance(v, int | float) and not isinstance(v, bool)]
    if not values or len(values) > 3:
        raise UncountableError("the limits are not recorded")
    start, end = (values[0], values[1]) if len(values) > 1 else (0, values[0])
    step = values[2] if len(values) > 2 else 1
    dtype = named_dtype(call, len(call.inputs) - 4 if len(call.inputs) >= 5 else 99)
    written = next((t.dtype for t in call.inputs if isinstance(t, Tensor)), None)
    whole = "int64" if all(isinstance(v, int) for v in values) else "fp32"
    length = max(int(-(-(end - start) // step)), 0)
    return cost([], [Tensor((length,), dtype or written or whole)])


@formula("aten::linspace", "aten::logspace")
def linspace(start: Arg, end: Arg, steps: Arg) -> Cost:
    """Numbers at equal distance: multiply and add each."""
    out = Tensor((args.integer(steps, "the steps"),), "fp32")
    return cost([], [out], other=2 * out.count)


@formula("aten::slice_backward", "aten::select_backward", "aten::diagonal_backward", composite=True)
def view_backward(grad: Tensor, sizes: Arg) -> Cost:
    """Zeros of the input's size with the gradient copied in."""
    return cost([grad], [Tensor(args.integers(sizes, "the sizes"), grad.dtype)])


@formula("aten::unfold_backward")
def unfold_backward(grad: Tensor, sizes: Arg) -> Cost:
    """Windows added back into the input's shape."""
    return cost([grad], [Tensor(args.integers(sizes, "the sizes"), grad.dtype)], other=grad.count)


@formula("aten::im2col")
def im2col(x: Tensor, kernel: Arg, dilation: Arg = 1, padding: Arg = 0, stride: Arg = 1) -> Cost:
    """Windows laid out as columns."""
    from timeroof.work.shapes import window_count

    sizes = [
        args.integers(a, n, 2)
        for a, n in (
            (kernel, "kernel"),
            (stride, "stride"),
            (padding, "padding"),
            (dilation, "dilation"),
        )
    ]
    windows = 1
    for i in (0, 1):
        windows *= window_count(x.shape[i - 2], sizes[0][i], sizes[1][i], sizes[2][i], sizes[3][i])
    out = Tensor((*x.shape[:-2], sizes[0][0] * sizes[0][1], windows), x.dtype)
    return cost([x], [out])


@formula("aten::col2im")
def col2im(x: Tensor, output_size: Arg, kernel: Arg) -> Cost:
    """Columns added back into an image."""
    window = args.integers(kernel, "kernel", 2)
    channels = x.shape[-2] // max(window[0] * window[1], 1)
    out = Tensor((*x.shape[:-2], channels, *args.integers(output_size, "the size")), x.dtype)
    return cost([x], [out], other=x.count)


@formula("aten::item", composite=True)
def item(this: Tensor) -> Cost:
    """One number for the host; it calls _local_scalar_dense."""
    return cost([this], [])


@formula("aten::_local_scalar_dense")
def local_scalar(this: Tensor) -> Cost:
    """One number read from the device."""
    return cost([Tensor((), this.dtype)], [])


@formula("torch.distributed.ddp.reducer::copy_bucket_to_grad", "memcpy", "Memcpy")
def plain_copy(this: Tensor) -> Cost:
    """A tensor copied as it is."""
    return cost([this], [_dense(this)])


@formula("aten::diag", "aten::diagflat", "aten::tril_indices",
         "aten::triu_indices", "aten::meshgrid", "aten::cartesian_prod",
         composite=True)  # fmt: skip
def made_of_copies(call: Call, x: Tensor | None = None) -> Cost:
    """Ops that fill and copy; the result's size comes from the record only."""
    if call.outputs is None:
        raise UncountableError("the result is not recorded")
    return cost([x], call.outputs)


@formula("aten::diag_embed")
def diag_embed(x: Tensor, offset: Arg = 0) -> Cost:
    """Rows laid on the diagonals of square matrices of zeros."""
    shift = abs(args.integer(offset, "the offset"))
    side = x.shape[-1] + shift
    return cost([x], [Tensor((*x.shape[:-1], side, side), x.dtype)])


@formula("aten::slice_scatter", "aten::select_scatter", "aten::diagonal_scatter",
         "aten::as_strided_scatter")  # fmt: skip
def view_scatter(x: Tensor, source: Tensor) -> Cost:
    """A copy with one part of it replaced; what is replaced need not be read."""
    kept = Tensor((max(x.count - source.count, 0),), x.dtype)
    return cost([kept, source], [_dense(x)])


# Views, allocation and questions about tensors: they move nothing and compute nothing.

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
    "_linalg_check_errors",
    "_is_zerotensor", "_is_all_true_view", "q_scale", "q_zero_point", "qscheme",
    "q_per_channel_axis", "sparse_dim", "dense_dim", "_dimI", "_dimV", "_nnz",
)  # fmt: skip


@formula(*(f"aten::{name}" for name in (*_VIEWS, *_ALLOCATIONS, *_QUESTIONS)), "detach", "detach_",
         "prim::device", "prim::layout", "prim::profile", "inductor::_alloc_from_pool",
         "inductor::_reinterpret_tensor", "jax::reshape", "jax::squeeze", "jax::expand_dims",
         "jax::bitcast_convert_type", "jax::stop_gradient", "xla::bitcast",
         "xla::get-tuple-element", "xla::tuple", "xla::parameter")  # fmt: skip
def moves_nothing(call: Call) -> Cost:
    """A new look at the same bytes, fresh memory, or a question: zero by nature."""
    return FREE


# A kernel beside the one that does an op's work, see `timeroof.work.parts`; no framework's op.
CHANGE_LAYOUT = "timeroof::change_layout"


@formula(CHANGE_LAYOUT)
def change_layout(call: Call) -> Cost:
    """Every tensor is read and written once."""
    tensors = [t for t in call.inputs if isinstance(t, Tensor)]
    return cost(tensors, tensors, origin="inferred")
