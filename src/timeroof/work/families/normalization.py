"""Normalisation: statistics, then scale and shift.

Forward in training per element: mean 1, variance 3 (subtract, square, add), normalise 2,
and 2 for weight and bias; in inference the statistics are given, so 4. Root mean square:
square and add 2, normalise 1, weight 1. Backward per element: the normalised input again
(2), sums for weight and bias (3), and the input's gradient (weight, two means of products,
subtract twice, scale: 8).
"""

from __future__ import annotations

from math import prod

from timeroof.work.call import Arg, Tensor, UncountableError, flag, flags, integer, integers, tensor
from timeroof.work.cost import Cost, cost, together
from timeroof.work.families.matmul import QUANTISE_FLOPS
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
@formula("aten::batch_norm", "aten::_batch_norm_impl_index", "aten::instance_norm", composite=True)
def batch_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
    running_mean: Tensor | None = None, running_var: Tensor | None = None, training: Arg = None,
) -> Cost:  # fmt: skip
    """Batch normalisation by one kernel or a few, and the ops above the library's own."""
    learning = flag(training, "training") if isinstance(training, bool | int) else True
    return batch_norm_cost(x, [weight, bias], [running_mean, running_var], learning)


@formula("aten::_native_batch_norm_legit_no_training", "aten::_batch_norm_no_update")
@formula("aten::batch_norm_elemt", order="x weight bias")
def batch_norm_inference(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
    running_mean: Tensor | None = None, running_var: Tensor | None = None,
) -> Cost:  # fmt: skip
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


def _mask(asked: Arg) -> tuple[bool, ...]:
    return flags(asked, "output_mask", 3) if isinstance(asked, tuple) else (True,) * 3


@formula("aten::native_batch_norm_backward",
         order="grad x weight _ _ save_mean save_invstd train eps output_mask")  # fmt: skip
@formula("aten::batch_norm_backward",
         order="grad x weight _ _ save_mean save_var update eps output_mask")  # fmt: skip
@formula("aten::cudnn_batch_norm_backward", "aten::miopen_batch_norm_backward",
         order="x grad weight _ _ save_mean save_var")  # fmt: skip
def batch_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor | None = None, save_mean: Tensor | None = None,
    save_invstd: Tensor | None = None, save_var: Tensor | None = None, output_mask: Arg = None,
) -> Cost:  # fmt: skip
    """Gradients of batch normalisation, as `output_mask` asks; the libraries compute all."""
    return _backward(grad, x, weight, [save_mean, save_invstd or save_var], _mask(output_mask))


@formula("aten::batch_norm_stats")
def batch_norm_stats(x: Tensor) -> Cost:
    """Mean and variance per channel (synchronised batch normalisation)."""
    channel = Tensor((x.shape[1],), _statistics_dtype(x))
    return cost([x], [channel, channel], other=STATISTICS_FLOPS * x.count)


def _rows(x: Tensor, normalized: Arg, weight: Tensor | None) -> int:
    """How many rows are normalised, by the shape's argument or else by the weight's."""
    if isinstance(normalized, tuple):
        inner = len(integers(normalized, "the normalised shape"))
    elif weight is not None:
        inner = len(weight.shape)
    else:
        inner = 1
    return Tensor(x.shape[: len(x.shape) - inner], x.dtype).count


@formula("aten::native_layer_norm", "onednn::layer_normalization")
@formula("aten::layer_norm", composite=True)
def layer_norm(
    x: Tensor, normalized_shape: Arg = None, weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Cost:  # fmt: skip
    """Layer normalisation over the last dimensions; mean and deviation per row are kept."""
    row = Tensor((_rows(x, normalized_shape, weight),), _statistics_dtype(x))
    flops = (STATISTICS_FLOPS + NORMALISE_FLOPS + _affine(weight, bias)) * x.count
    return cost([x, weight, bias], [x, row, row], other=flops, dtype=x.dtype)


@formula("aten::native_layer_norm_backward")
def layer_norm_backward(
    grad: Tensor, x: Tensor, normalized_shape: Arg = None, mean: Tensor | None = None,
    rstd: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None,
    output_mask: Arg = None,
) -> Cost:  # fmt: skip
    """Gradients of layer normalisation, as `output_mask` asks."""
    there = (True, weight is not None, bias is not None)
    mask = _mask(output_mask) if isinstance(output_mask, tuple) else there
    size = weight
    if size is None and isinstance(normalized_shape, tuple):
        size = Tensor(integers(normalized_shape, "the normalised shape"), x.dtype)
    return _backward(grad, x, weight, [mean, rstd], mask, size)


@formula("aten::native_group_norm", order="x weight bias n c hxw group")
@formula("aten::group_norm", order="x num_groups weight bias", composite=True)
def group_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, group: Arg = None,
    num_groups: Arg = None,
) -> Cost:  # fmt: skip
    """Group normalisation; statistics per sample and group."""
    groups = next((g for g in (group, num_groups) if isinstance(g, int)), 1)
    row = Tensor((x.shape[0] * groups,), _statistics_dtype(x))
    flops = (STATISTICS_FLOPS + NORMALISE_FLOPS + _affine(weight, bias)) * x.count
    return cost([x, weight, bias], [x, row, row], other=flops, dtype=x.dtype)


@formula("aten::native_group_norm_backward", order="grad x mean rstd weight n c hxw g output_mask")
def group_norm_backward(
    grad: Tensor, x: Tensor, mean: Tensor | None = None, rstd: Tensor | None = None,
    weight: Tensor | None = None, output_mask: Arg = None,
) -> Cost:  # fmt: skip
    """Gradients of group normalisation, as `output_mask` asks."""
    return _backward(grad, x, weight, [mean, rstd], _mask(output_mask))


@formula("aten::rms_norm", composite=True, order="x normalized_shape weight")
@formula("aten::_fused_rms_norm", order="x normalized_shape weight")
def rms_norm(x: Tensor, weight: Tensor | None = None) -> Cost:
    """Root-mean-square normalisation (square, add, scale): 3 per element, 4 with a weight."""
    return cost([x, weight], [x], other=(3 + (weight is not None)) * x.count)


@formula("aten::_fused_rms_norm_backward", order="grad x normalized_shape rstd weight")
def fused_rms_norm_backward(
    grad: Tensor, x: Tensor, rstd: Tensor | None = None, weight: Tensor | None = None
) -> Cost:
    """Gradients of root-mean-square normalisation: no mean, so two FLOPs fewer."""
    return cost([grad, x, rstd, weight], [x, weight], other=9 * x.count)


# Inference engines fuse it with the residual before it and with the cast to fewer bits behind it.
RMS_FLOPS = 4


@formula("_C::rms_norm", "sgl_kernel::rmsnorm", "sgl_kernel::gemma_rmsnorm", "aiter::rmsnorm",
         "aiter::rms_norm_cu", order="out x weight")  # fmt: skip
@formula("aiter::rms_norm", "aiter::rmsnorm2d_fwd", "aiter::rmsnorm2d_fwd_ck",
         "vllm::rocm_aiter_rms_norm", order="x weight")  # fmt: skip
@formula("_C::fused_add_rms_norm", "sgl_kernel::fused_add_rmsnorm",
         "sgl_kernel::gemma_fused_add_rmsnorm", "vllm::rocm_aiter_rmsnorm2d_fwd_with_add",
         "vllm::rocm_aiter_rmsnorm_with_add", "aiter::fused_add_rms_norm_cu",
         order="x residual weight")  # fmt: skip
@formula("aiter::rmsnorm2d_fwd_with_add", "aiter::rmsnorm2d_fwd_with_add_ck",
         "aiter::add_rmsnorm",
         order="out x residual _ weight")  # fmt: skip
@formula("_C::rms_norm_static_fp8_quant", order="out x weight scale")
@formula("_C::fused_add_rms_norm_static_fp8_quant", order="out x residual weight scale")
@formula("_C::rms_norm_dynamic_per_token_quant", "_C::rms_norm_per_block_quant",
         order="out x weight scale _ _ residual")  # fmt: skip
@formula("aiter::rmsnorm2d_fwd_with_dynamicquant", "aiter::rmsnorm2d_fwd_with_dynamicquant_ck",
         "aiter::rmsnorm_quant", order="out x scale weight")  # fmt: skip
@formula("aiter::rmsnorm2d_fwd_with_add_dynamicquant",
         "aiter::rmsnorm2d_fwd_with_add_dynamicquant_ck", "aiter::add_rmsnorm_quant",
         order="out x residual _ scale weight")  # fmt: skip
def fused_rms_norm(
    x: Tensor, weight: Tensor | None, out: Tensor | None = None, residual: Tensor | None = None,
    scale: Tensor | None = None,
) -> Cost:  # fmt: skip
    """Perhaps add a residual, which is written back; normalise; perhaps scale and clamp."""
    if residual is None and scale is None:
        return rms_norm(x, weight)
    flops = RMS_FLOPS + (residual is not None) + QUANTISE_FLOPS * (scale is not None)
    return cost([x, residual, weight, scale], [out or x, residual], other=flops * x.count,
                dtype=x.dtype)  # fmt: skip


@formula("vllm::rocm_aiter_rmsnorm_fp8_group_quant", order="x weight _ group")
@formula("vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant", order="x residual weight _ group")
def rms_norm_to_groups(
    x: Tensor, weight: Tensor | None, group: Arg, residual: Tensor | None = None
) -> Cost:
    """The result is fp8 with a scale per group of a row."""
    rows, size = prod(x.shape[:-1]), integer(group, "the group's size")
    scales = Tensor((rows, -(-x.shape[-1] // max(size, 1))), "fp32")
    narrow = cost([], [Tensor(x.shape, "fp8"), scales])
    whole = cost([x, residual, weight], [residual],
                 other=(RMS_FLOPS + QUANTISE_FLOPS + (residual is not None)) * x.count,
                 dtype=x.dtype)  # fmt: skip
    return together([whole, narrow])


@formula("aten::_weight_norm_interface", "aten::_weight_norm")
def weight_norm(weight: Tensor, g: Arg) -> Cost:
    """A weight scaled to given norms: square, add, and scale."""
    norms = tensor(g, "the norms")
    return cost([weight, norms], [weight, norms], other=3 * weight.count)


@formula("aten::local_response_norm", composite=True)
def local_response_norm(x: Tensor, size: Arg = 5) -> Cost:
    """Divide by a power of a sum of squares over neighbouring channels."""
    return cost([x], [x], other=(2 * integer(size, "size") + 4) * x.count)
