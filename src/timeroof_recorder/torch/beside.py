"""Beside the program: ops and functions of ours that its modes, its hooks and torch.compile do not
see, two small programs among them; and what its first step waits for.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import CodeType
from typing import TYPE_CHECKING, Any

from timeroof_recorder.marks import Marks
from timeroof_recorder.process import Ignoring, after_import, wrap

if TYPE_CHECKING:
    import torch
    from torch import Tensor


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


# Beside torch.compile: functions of ours that it does not see, and what it lacks.


def is_view(schema: torch.FunctionSchema) -> bool:
    """Whether every result is another look at an argument that is not written."""
    infos = [result.alias_info for result in schema.returns]
    return bool(infos) and all(info is not None and not info.is_write for info in infos)


def missing_compiler() -> list[str] | None:
    """The C++ compilers that Inductor looks for, where the program uses it and there is none."""
    config = sys.modules.get("torch._inductor.config")
    if config is None:
        return None
    wanted = [c for c in config.cpp.cxx if c]
    return None if any(shutil.which(c) for c in wanted) else wanted


def beside_dynamo(action: Callable[..., None]) -> Callable[..., None]:
    """The same function, with torch.compile's eye closed for it and for all that it calls. What
    `torch.compiler.disable` does, without loading the compiler into a program that has none."""
    from torch._C._dynamo.eval_frame import set_eval_frame

    def act(*args: object) -> None:
        before = set_eval_frame(None)
        try:
            action(*args)
        finally:
            set_eval_frame(before)

    _let_run(act.__code__)
    # Where a compiled function calls it: the graph ends before the call.
    act._torchdynamo_disable = True  # type: ignore[attr-defined]
    return act


def _let_run(code: CodeType) -> None:
    from torch._C._dynamo import eval_frame

    module: Any = eval_frame
    if hasattr(module, "skip_code"):  # before torch 2.7
        module.skip_code(code)
        return
    skip, default = module._FrameAction.SKIP, module._FrameAction.DEFAULT
    module.set_code_exec_strategy(code, module._FrameExecStrategy(skip, default))


# Two small programs whose events are counted, to know what recording one costs.


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


# What a program's first step waits for before anything of it is called: batches, the compiler.


_LOADERS, _COMPILER = "torch.utils.data.dataloader", "torch._dynamo.callback"


class Beginnings:
    """Tells marks when batches begin to be fetched and when Dynamo goes to work."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._back: list[Callable[[], None]] = []
        for module, action in ((_LOADERS, self._loaders), (_COMPILER, self._compiler)):
            self._back.append(after_import(module, action))

    def end(self) -> None:
        """Leave torch as it was."""
        while self._back:
            self._back.pop()()

    def _loaders(self) -> None:
        with Ignoring("the begin of the first batch is not known"):
            loader = sys.modules[_LOADERS].DataLoader
            self._back.append(wrap(loader, "__iter__", self._fetches))

    def _fetches(self, original: Callable[..., object], *args: object) -> object:
        """Once the first step has begun, nobody has to be told any more."""
        with Ignoring("the begin of the first batch was missed"):
            self._marks.fetches()
            if self._marks.first_ns is not None:
                self.end()
        return original(*args)

    def _compiler(self) -> None:
        with Ignoring("the begin of compiling is not known"):
            handler = sys.modules[_COMPILER].callback_handler
            handler.register_start_callback(self._compiles)
            self._back.append(lambda: self._leave(handler))

    def _compiles(self, _about: object) -> None:
        self._marks.compiles()

    def _leave(self, handler: Any) -> None:
        if self._compiles in handler.start_callbacks:
            handler.remove_start_callback(self._compiles)
