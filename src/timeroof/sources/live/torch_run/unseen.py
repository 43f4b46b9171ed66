"""Ops of our own that the program's modes and hooks must not see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unseen() -> Iterator[None]:
    """Ordinary tensors with gradients, out of sight of function and dispatch modes.

    A program may run under a mode that counts or changes ops (`FlopCounterMode`, a logger), or
    with gradients off: neither concerns what we run between its steps.
    """
    import torch

    with (
        torch._C.DisableTorchFunction(),
        torch._C._DisableTorchDispatch(),
        torch.inference_mode(mode=False),
        torch.enable_grad(),
    ):
        yield
