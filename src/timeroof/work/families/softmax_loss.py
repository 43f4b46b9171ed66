"""Softmax and losses. Softmax is 5 FLOPs per element: largest, subtract, exp, add, divide."""

from __future__ import annotations

from timeroof.work.call import Arg, Call, Tensor, Unrecorded, dtype_of, integer, optional, tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula
from timeroof.work.shapes import broadcast

SOFTMAX_FLOPS = LOG_SOFTMAX_FLOPS = 5
SOFTMAX_BACKWARD_FLOPS = 4  # product, sum, subtract, product
NONE, MEAN, SUM = 0, 1, 2

# FLOPs per element of losses between two tensors of one shape, forward and backward.
_POINTWISE: dict[str, tuple[int, int]] = {
    "mse_loss": (2, 3), "l1_loss": (2, 3), "smooth_l1_loss": (4, 4), "huber_loss": (4, 4),
    "binary_cross_entropy": (7, 6), "binary_cross_entropy_with_logits": (8, 6),
    "soft_margin_loss": (4, 6), "kl_div": (3, 2), "poisson_nll_loss": (3, 2),
    "hinge_embedding_loss": (3, 2),
}  # fmt: skip


@formula("aten::_softmax", "aten::_safe_softmax", "aten::_sparse_softmax", "onednn::softmax",
         "aten::_log_softmax")  # fmt: skip
def softmax(x: Tensor, dim: Arg = -1, half_to_float: Arg = False) -> Cost:
    """Softmax along a dimension; `half_to_float` writes single precision."""
    out = Tensor(x.shape, "fp32" if half_to_float is True else x.dtype)
    return cost([x], [out], other=SOFTMAX_FLOPS * x.count)


@formula("aten::softmax", "aten::log_softmax", "aten::special_softmax", composite=True)
def softmax_op(x: Tensor, dim: Arg = -1, dtype: Arg = None) -> Cost:
    """The ops above _softmax and _log_softmax."""
    out = Tensor(x.shape, dtype_of(dtype) or x.dtype)
    return cost([x], [out], other=SOFTMAX_FLOPS * x.count)


@formula("aten::_softmax_backward_data", "aten::_log_softmax_backward_data")
def softmax_backward(grad: Tensor, output: Arg, dim: Arg = -1, input_dtype: Arg = None) -> Cost:
    """The gradient from gradient and result."""
    out = tensor(output, "the result")
    written = Tensor(grad.shape, dtype_of(input_dtype) or grad.dtype)
    return cost([grad, out], [written], other=SOFTMAX_BACKWARD_FLOPS * grad.count)


@formula("aten::_masked_softmax")
def masked_softmax(x: Tensor, mask: Tensor) -> Cost:
    """Softmax with masked elements left out."""
    return cost([x, mask], [x], other=SOFTMAX_FLOPS * x.count)


def _picked(scores: Tensor, target: Tensor) -> Tensor:
    """The scores that the targets pick: one each."""
    return Tensor(target.shape, scores.dtype)


@formula("aten::nll_loss_forward", "aten::nll_loss2d_forward")
@formula("aten::nll_loss", "aten::nll_loss2d", "aten::nll_loss_nd", composite=True)
def nll_loss(x: Arg, target: Tensor, weight: Tensor | None = None, reduction: Arg = MEAN) -> Cost:
    """Minus the picked log-probability: only picked elements are read; negate and add."""
    scores = tensor(x, "the scores")
    result = _reduced(target.shape, reduction, scores.dtype)
    picked = _picked(scores, target)
    flops = 2 + (weight is not None)
    return cost(
        [picked, target, weight], [result, Tensor((), scores.dtype)],
        other=flops * target.count, dtype=scores.dtype,
    )  # fmt: skip


def _reduced(shape: tuple[int, ...], reduction: Arg, dtype: str) -> Tensor:
    if isinstance(reduction, Unrecorded):
        return Tensor((), dtype)
    return Tensor(shape if integer(reduction, "the reduction") == NONE else (), dtype)


@formula("aten::nll_loss_backward", "aten::nll_loss2d_backward")
def nll_loss_backward(
    grad: Tensor, scores: Tensor, target: Tensor, weight: Tensor | None = None
) -> Cost:
    """Zeros, with one number put in place per target."""
    reads = [grad, target, weight]
    return cost(reads, [scores], other=2 * target.count, dtype=scores.dtype)


@formula("aten::cross_entropy_loss", composite=True)
def cross_entropy(
    scores: Tensor, target: Tensor, weight: Tensor | None = None, reduction: Arg = MEAN
) -> Cost:
    """Log-softmax and the picked element: the scores are read once."""
    result = _reduced(target.shape, reduction, scores.dtype)
    flops = LOG_SOFTMAX_FLOPS * scores.count + 2 * target.count
    return cost([scores, target, weight], [result], other=flops, dtype=scores.dtype)


def pointwise_loss(
    call: Call, x: Arg, target: Arg, flops: int, weight: Arg, reduction: Arg
) -> Cost:
    """A loss per element, then its mean or sum (one more FLOP)."""
    guess, truth = tensor(x, "the input"), tensor(target, "the target")
    shape = broadcast(guess.shape, truth.shape)
    result = _reduced(shape, reduction, guess.dtype)
    total = (flops + (result.shape != shape)) * Tensor(shape, guess.dtype).count
    return cost([guess, truth, optional(weight)], [result], other=total, dtype=guess.dtype)


def _register(name: str, forward: int, backward: int) -> None:
    weighted = name.startswith("binary")

    def loss(
        call: Call, x: Arg, target: Arg, third: Arg = None, fourth: Arg = None, fifth: Arg = None
    ) -> Cost:
        weight = third if weighted else None
        reduction = (fifth if "logits" in name else fourth) if weighted else third
        chosen = MEAN if reduction is None else reduction
        return pointwise_loss(call, x, target, forward, weight, chosen)

    def gradient(call: Call, grad: Arg, x: Arg, target: Arg) -> Cost:
        g, guess = tensor(grad, "the gradient"), tensor(x, "the input")
        reads = [g, guess, tensor(target, "the target")]
        return cost(reads, [guess], other=backward * guess.count, dtype=guess.dtype)

    composite = name in ("binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss",
                         "hinge_embedding_loss", "l1_loss")  # fmt: skip
    formula(f"aten::{name}", composite=composite)(loss)
    formula(f"aten::{name}_backward")(gradient)


for _name, (_forward, _backward) in _POINTWISE.items():
    _register(_name, _forward, _backward)


@formula("aten::_ctc_loss", "aten::_cudnn_ctc_loss")
def ctc_loss(log_probs: Arg, targets: Tensor) -> Cost:
    """Forward recursion over an alphabet: about 6 FLOPs per step and extended label."""
    scores = tensor(log_probs, "the scores")
    steps, batch = scores.shape[0], scores.shape[1] if len(scores.shape) == 3 else 1
    longest = targets.shape[-1] if len(targets.shape) == 2 else targets.count // max(batch, 1)
    table = Tensor((batch, steps, 2 * longest + 1), scores.dtype)
    return cost([scores, targets], [table], other=6 * table.count, origin="modelled")
