"""Beside the program: ops of ours that its modes do not see; its own profiler goes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from timeroof_recorder.process import Ignoring, wrap

# The program's own torch.profiler goes first: ours gives way from its warm-up to its end.


# Both of torch's profilers go through these.
_STARTS, _END = ("_prepare_trace", "_start_trace"), "__exit__"


def step_aside(starts: Callable[[], None], ends: Callable[[], None]) -> Callable[[], None]:
    """Call us before a profiler of the program starts and after it ends; returns a way back."""
    from torch.autograd.profiler import profile

    def before(original: Callable[..., object], *args: object, **kwargs: object) -> object:
        with Ignoring("the program's profiler starts beside ours"):
            starts()
        return original(*args, **kwargs)

    def after(original: Callable[..., object], *args: object, **kwargs: object) -> object:
        try:
            return original(*args, **kwargs)
        finally:
            with Ignoring("the end of the program's profiler was missed"):
                ends()

    backs = [*(wrap(profile, name, before) for name in _STARTS), wrap(profile, _END, after)]

    def back() -> None:
        for each in backs:
            each()

    return back


# Ops of our own that the program's modes and hooks must not see.


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
