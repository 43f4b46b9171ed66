"""Beside the program: ops of ours that its modes and hooks do not see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext


@contextmanager
def unseen() -> Iterator[None]:
    """Ordinary tensors with gradients, out of sight of function and dispatch modes.

    A program may run under a mode that counts or changes ops (`FlopCounterMode`, a logger), inside
    a transform (`torch.func.grad`), or with gradients off: none of it concerns what we run
    between its steps.
    """
    import torch

    with (
        _outside_transforms(),
        torch._C.DisableTorchFunction(),
        torch._C._DisableTorchDispatch(),
        torch.inference_mode(mode=False),
        torch.enable_grad(),
    ):
        yield


def _outside_transforms() -> AbstractContextManager[object]:
    from torch._C._functorch import maybe_current_level
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    return nullcontext() if maybe_current_level() is None else temporarily_clear_interpreter_stack()
