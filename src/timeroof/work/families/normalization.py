"""Normalisation: statistics, then scale and shift.

Forward in training per element: mean 1, variance 3 (subtract, square, add), normalise 2,
and 2 for weight and bias; in inference the statistics are given, so 4. Root mean square:
square and add 2, normalise 1, weight 1. Backward per element: the normalised input again
(2), sums for weight and bias (3), and the input's gradient (weight, two means of products,
subtract twice, scale: 8).
"""

from __future__ import annotations

from timeroof.work.call import (
    Arg,
    Tensor,
    UncountableError,
    flag,
    flags,
    integer,
    integers,
    optional,
    tensor,
)
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula

STATISTICS_FLOPS, NORMALISE_FLOPS = 4, 2
BACKWARD_INPUT_FLOPS, BACKWARD_WEIGHT_FLOPS, BACKWARD_NORMALISE_FLOPS = 8, 3, 2


def _affine(weight: Tensor | None, bias: Tensor | None) -> int:
    return (weight is not None) + (bias is not None)


def _statistics_dtype(x: Tensor) -> str:
    """Statistics of narrow formats are kept in single precision."""
    return x.dtype if x.dtype in ("fp32", "fp64") else "fp32"


def batch_norm_cost(
    x: Tensor, scale: list[Tensor | None], running: list[Tensor | None], training: bool
) -> Cost:
    """Batch normalisation, the statistics per channel."""
    if len(x.shape) < 2:
        raise UncountableError("the input has no channels")
    affine = _affine(scale[0], scale[1])
    if not training:
        flops = (NORMALISE_FLOPS + affine) * x.count
        return cost([x, *scale, *running], [x], other=flops, dtype=x.dtype)
    channel = Tensor((x.shape[1],), _statistics_dtype(x))
    flops = (STATISTICS_FLOPS + NORMALISE_FLOPS + affine) * x.count
    return cost([x, *scale, *running], [x, channel, channel, *running], other=flops, dtype=x.dtype)


@formula("aten::native_batch_norm", "aten::_native_batch_norm_legit", "aten::cudnn_batch_norm",
         "aten::miopen_batch_norm", "aten::_batch_norm_with_update",
         "onednn::batch_normalization")  # fmt: skip
def batch_norm(
    x: Arg, weight: Arg = None, bias: Arg = None, running_mean: Arg = None,
    running_var: Arg = None, training: Arg = None,
) -> Cost:  # fmt: skip
    """Batch normalisation by one kernel or a few."""
    scale = [optional(weight), optional(bias)]
    running = [optional(running_mean), optional(running_var)]
    learning = flag(training, "training") if isinstance(training, bool | int) else True
    return batch_norm_cost(tensor(x, "the input"), scale, running, learning)


@formula("aten::batch_norm", "aten::_batch_norm_impl_index", "aten::instance_norm", composite=True)
def batch_norm_op(
    x: Arg, weight: Arg = None, bias: Arg = None, running_mean: Arg = None,
    running_var: Arg = None, training: Arg = None,
) -> Cost:  # fmt: skip
    """The ops above the library's own."""
    return batch_norm(x, weight, bias, running_mean, running_var, training)


@formula("aten::_native_batch_norm_legit_no_training", "aten::_batch_norm_no_update")
def batch_norm_inference(
    x: Arg, weight: Arg = None, bias: Arg = None, running_mean: Arg = None, running_var: Arg = None
) -> Cost:
    """Batch normalisation with given statistics."""
    return batch_norm(x, weight, bias, running_mean, running_var, False)


def _backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, statistics: list[Tensor | None],
    mask: tuple[bool, ...], size: Tensor | None = None,
) -> Cost:  # fmt: skip
    """The wanted gradients; `size` is the shape of weight and bias where there is no weight."""
    flops = BACKWARD_NORMALISE_FLOPS + BACKWARD_INPUT_FLOPS * mask[0]
    flops += BACKWARD_WEIGHT_FLOPS * (mask[1] or mask[2])
    scale = weight or size or Tensor((x.shape[1] if len(x.shape) > 1 else 1,), x.dtype)
    writes = [x if mask[0] else None, scale if mask[1] else None, scale if mask[2] else None]
    return cost([grad, x, weight, *statistics], writes, other=flops * x.count, dtype=grad.dtype)


@formula("aten::native_batch_norm_backward")
def batch_norm_backward(
    grad: Arg, x: Arg, weight: Arg = None, running_mean: Arg = None, running_var: Arg = None,
    save_mean: Arg = None, save_invstd: Arg = None, train: Arg = True, eps: Arg = 0.0,
    output_mask: Arg = None,
) -> Cost:  # fmt: skip
    """Gradients of batch normalisation, as `output_mask` asks."""
    mask = flags(output_mask, "output_mask", 3) if isinstance(output_mask, tuple) else (True,) * 3
    statistics = [optional(save_mean), optional(save_invstd)]
    return _backward(
        tensor(grad, "the gradient"), tensor(x, "the input"), optional(weight), statistics, mask
    )


@formula("aten::cudnn_batch_norm_backward", "aten::miopen_batch_norm_backward")
def library_batch_norm_backward(
    x: Arg, grad: Arg, weight: Arg = None, running_mean: Arg = None, running_var: Arg = None,
    save_mean: Arg = None, save_var: Arg = None,
) -> Cost:  # fmt: skip
    """cuDNN's and MIOpen's gradients: the input comes first, all three are computed."""
    statistics = [optional(save_mean), optional(save_var)]
    return _backward(
        tensor(grad, "the gradient"),
        tensor(x, "the input"),
        optional(weight),
        statistics,
        (True,) * 3,
    )


@formula("aten::batch_norm_backward")
def new_batch_norm_backward(
    grad: Arg, x: Arg, weight: Arg = None, running_mean: Arg = None, running_var: Arg = None,
    save_mean: Arg = None, save_var: Arg = None, update: Arg = True, eps: Arg = 0.0,
    output_mask: Arg = None,
) -> Cost:  # fmt: skip
    """The newer single backward op."""
    return batch_norm_backward(
        grad, x, weight, None, None, save_mean, save_var, True, 0.0, output_mask
    )


@formula("aten::batch_norm_stats")
def batch_norm_stats(x: Arg) -> Cost:
    """Mean and variance per channel (synchronised batch normalisation)."""
    found = tensor(x, "the input")
    channel = Tensor((found.shape[1],), _statistics_dtype(found))
    return cost([found], [channel, channel], other=STATISTICS_FLOPS * found.count)


@formula("aten::batch_norm_elemt")
def batch_norm_elemt(x: Arg, weight: Arg = None, bias: Arg = None) -> Cost:
    """Normalise, scale and shift with given statistics."""
    return batch_norm(x, weight, bias, None, None, False)


def _rows(x: Tensor, normalized: Arg, weight: Tensor | None) -> int:
    """How many rows are normalised, by the shape's argument or else by the weight's."""
    if isinstance(normalized, tuple):
        inner = len(integers(normalized, "the normalised shape"))
    elif weight is not None:
        inner = len(weight.shape)
    else:
        inner = 1
    return Tensor(x.shape[: len(x.shape) - inner], x.dtype).count


def layer_norm_cost(x: Tensor, normalized: Arg, weight: Tensor | None, bias: Tensor | None) -> Cost:
    """Layer normalisation over the last dimensions."""
    row = Tensor((_rows(x, normalized, weight),), _statistics_dtype(x))
    flops = (STATISTICS_FLOPS + NORMALISE_FLOPS + _affine(weight, bias)) * x.count
    return cost([x, weight, bias], [x, row, row], other=flops, dtype=x.dtype)


@formula("aten::native_layer_norm", "onednn::layer_normalization")
def layer_norm(x: Arg, normalized_shape: Arg = None, weight: Arg = None, bias: Arg = None) -> Cost:
    """Layer normalisation; mean and deviation per row are kept."""
    return layer_norm_cost(
        tensor(x, "the input"), normalized_shape, optional(weight), optional(bias)
    )


@formula("aten::layer_norm", composite=True)
def layer_norm_op(
    x: Arg, normalized_shape: Arg = None, weight: Arg = None, bias: Arg = None
) -> Cost:
    """The op above native_layer_norm."""
    return layer_norm(x, normalized_shape, weight, bias)


@formula("aten::native_layer_norm_backward")
def layer_norm_backward(
    grad: Arg, x: Arg, normalized_shape: Arg = None, mean: Arg = None, rstd: Arg = None,
    weight: Arg = None, bias: Arg = None, output_mask: Arg = None,
) -> Cost:  # fmt: skip
    """Gradients of layer normalisation, as `output_mask` asks."""
    scale = optional(weight)
    mask = (
        flags(output_mask, "output_mask", 3)
        if isinstance(output_mask, tuple)
        else (True, scale is not None, optional(bias) is not None)
    )
    statistics = [optional(mean), optional(rstd)]
    found, size = tensor(x, "the input"), scale
    if size is None and isinstance(normalized_shape, tuple):
        size = Tensor(integers(normalized_shape, "the normalised shape"), found.dtype)
    return _backward(tensor(grad, "the gradient"), found, scale, statistics, mask, size)


@formula("aten::native_group_norm")
def group_norm(
    x: Arg, weight: Arg = None, bias: Arg = None, n: Arg = None, c: Arg = None, hxw: Arg = None,
    group: Arg = None,
) -> Cost:  # fmt: skip
    """Group normalisation; statistics per sample and group."""
    found, scale = tensor(x, "the input"), [optional(weight), optional(bias)]
    groups = (
        found.shape[0] * integer(group, "the groups") if isinstance(group, int) else found.shape[0]
    )
    row = Tensor((groups,), _statistics_dtype(found))
    flops = (STATISTICS_FLOPS + NORMALISE_FLOPS + _affine(scale[0], scale[1])) * found.count
    return cost([found, *scale], [found, row, row], other=flops, dtype=found.dtype)


@formula("aten::group_norm", composite=True)
def group_norm_op(x: Arg, num_groups: Arg = None, weight: Arg = None, bias: Arg = None) -> Cost:
    """The op above native_group_norm."""
    return group_norm(x, weight, bias, None, None, None, num_groups)


@formula("aten::native_group_norm_backward")
def group_norm_backward(
    grad: Arg, x: Arg, mean: Arg = None, rstd: Arg = None, weight: Arg = None, n: Arg = None,
    c: Arg = None, hxw: Arg = None, group: Arg = None, output_mask: Arg = None,
) -> Cost:  # fmt: skip
    """Gradients of group normalisation, as `output_mask` asks."""
    mask = flags(output_mask, "output_mask", 3) if isinstance(output_mask, tuple) else (True,) * 3
    statistics = [optional(mean), optional(rstd)]
    return _backward(
        tensor(grad, "the gradient"), tensor(x, "the input"), optional(weight), statistics, mask
    )


@formula("aten::rms_norm", composite=True)
def rms_norm(x: Arg, normalized_shape: Arg = None, weight: Arg = None) -> Cost:
    """Root-mean-square normalisation: 3 per element, 4 with a weight."""
    return rms_cost(tensor(x, "the input"), optional(weight))


@formula("aten::_fused_rms_norm")
def fused_rms_norm(x: Arg, normalized_shape: Arg = None, weight: Arg = None) -> Cost:
    """The same in one kernel."""
    return rms_cost(tensor(x, "the input"), optional(weight))


@formula("aten::_fused_rms_norm_backward")
def fused_rms_norm_backward(
    grad: Arg, x: Arg, normalized_shape: Arg = None, rstd: Arg = None, weight: Arg = None
) -> Cost:
    """Gradients of root-mean-square normalisation: no mean, so two FLOPs fewer."""
    g, found, scale = tensor(grad, "the gradient"), tensor(x, "the input"), optional(weight)
    return cost([g, found, optional(rstd), scale], [found, scale], other=9 * found.count)


def rms_cost(x: Tensor, weight: Tensor | None) -> Cost:
    """Square, add, scale, and multiply by the weight."""
    return cost([x, weight], [x], other=(3 + (weight is not None)) * x.count)


@formula("_C::rms_norm")
def vllm_rms_norm(out: Arg, x: Arg, weight: Arg) -> Cost:
    """vLLM's kernel: the result comes first."""
    return rms_cost(tensor(x, "the input"), optional(weight))


@formula("_C::fused_add_rms_norm")
def vllm_fused_add_rms_norm(x: Arg, residual: Arg, weight: Arg) -> Cost:
    """Add the residual, then normalise; both are written back."""
    found, rest = tensor(x, "the input"), tensor(residual, "the residual")
    return cost([found, rest, optional(weight)], [found, rest], other=5 * found.count)


@formula("aten::_weight_norm_interface", "aten::_weight_norm")
def weight_norm(v: Arg, g: Arg) -> Cost:
    """A weight scaled to given norms: square, add, and scale."""
    found, norms = tensor(v, "the weight"), tensor(g, "the norms")
    return cost([found, norms], [found, norms], other=3 * found.count)


@formula("aten::local_response_norm", composite=True)
def local_response_norm(x: Arg, size: Arg = 5) -> Cost:
    """Divide by a power of a sum of squares over neighbouring channels."""
    found = tensor(x, "the input")
    return cost([found], [found], other=(2 * integer(size, "size") + 4) * found.count)
