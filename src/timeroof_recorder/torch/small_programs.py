"""Two small programs whose events are counted, to know what recording one costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from timeroof_recorder.torch.unseen import unseen

if TYPE_CHECKING:
    from torch import Tensor

# The small programs draw no random numbers and call no module: modes and hooks see none of them.
CHANNELS, SIZE, BATCH, DEPTH = 8, 16, 4, 8


def close_ops() -> Callable[[], None]:
    """Small element-wise ops and views with their backward pass, one right after the other."""
    import torch

    with unseen():
        weight, bias, x = _full(8, 4, grad=True), _full(8, 4, grad=True), _full(8, 4)

    def run() -> None:
        with unseen():
            y = x
            for _ in range(16):
                y = torch.sigmoid(y * weight + bias).narrow(0, 0, 8)
                y = y.reshape(4, 8).t()
            torch.autograd.grad(y.sum(), (weight, bias))

    return run


def ops_apart() -> Callable[[], None]:
    """A small convolution net with its backward pass: kernels of ten microseconds between events.
    The kernels push the profiler's code and data out of the near caches."""
    import torch
    from torch.nn import functional

    with unseen():
        kernels = [_full(CHANNELS, CHANNELS, 3, 3, grad=True) for _ in range(DEPTH)]
        scales = [_full(CHANNELS, grad=True) for _ in range(2 * DEPTH)]
        x = _full(BATCH, CHANNELS, SIZE, SIZE)

    def run() -> None:
        with unseen():
            y = x
            for depth, kernel in enumerate(kernels):
                z = functional.conv2d(y, kernel, padding=1)
                z = functional.batch_norm(
                    z, None, None, scales[2 * depth], scales[2 * depth + 1], training=True
                )
                z = functional.relu(z)
                y = torch.cat([z[:, : CHANNELS // 2], y[:, CHANNELS // 2 :]], 1)
            torch.autograd.grad(y.mean((2, 3)).logsumexp(1).sum(), kernels + scales)

    return run


def _full(*shape: int, grad: bool = False) -> Tensor:
    import torch

    return torch.full(shape, 0.1, dtype=torch.float32, device="cpu", requires_grad=grad)
