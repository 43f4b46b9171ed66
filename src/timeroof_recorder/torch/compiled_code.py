"""Beside torch.compile: functions of ours that it does not see, and what it lacks."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


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
