"""Functions of ours that are called below compiled code, and are not to be compiled with it."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any


def beside_dynamo(action: Callable[..., None]) -> Callable[..., None]:
    """The same function, with torch.compile's eye closed for it and for all that it calls.

    What `torch.compiler.disable` does, without loading the compiler into a program that has none.
    """
    from torch._C._dynamo.eval_frame import set_eval_frame

    def act(*args: Any) -> None:
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
    """Have Dynamo run a function as it is."""
    from torch._C._dynamo import eval_frame

    module: Any = eval_frame
    if hasattr(module, "skip_code"):  # before torch 2.7
        module.skip_code(code)
        return
    skip, default = module._FrameAction.SKIP, module._FrameAction.DEFAULT
    module.set_code_exec_strategy(code, module._FrameExecStrategy(skip, default))
