"""torch.compile'd programs: Inductor's kernels as events of their own, and what is only glue."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_KERNELS = ("graph_", "cpp_fused_", "triton_")
# Events of Dynamo's and AOTAutograd's wrappers around compiled code.
_GLUE = (
    "TorchDynamo Cache Lookup",
    "Torch-Compiled Region",
    "Pregraph bytecode",
    "AOTDispatcher Runtime Wrapper",
    "CompiledFunction",
    "## Call CompiledFxGraph",
)
# Events of the dispatcher around the Python code of a mode (FlopCounterMode) or a tensor's class.
_HANDED_TO_PYTHON = ("PythonDispatchMode", "PythonSubclass")


def is_compiled(name: str) -> bool:
    """Whether an event is a kernel of Inductor.

    >>> is_compiled("graph_0_cpp_fused_add_0"), is_compiled("aten::add")
    (True, False)
    """
    return name.startswith(_KERNELS) and not name.endswith("_inductor_wrapper_call")


def is_glue(name: str, sequence: int = -1) -> bool:
    """Whether an event only surrounds others: a wrapper of compiled code, a Python function.

    Functions of autograd that are written in Python bear their class's name and a number of
    autograd's; ops have a name space (``aten::mm``).

    >>> is_glue("CompiledFunction"), is_glue("aten::mm", 3), is_glue("MyFunction", 3)
    (True, False, True)
    """
    if is_handed_to_python(name) or name.startswith(_GLUE):
        return True
    return sequence >= 0 and ":" not in name and not is_compiled(name)


def is_handed_to_python(name: str) -> bool:
    """Whether an event is the dispatcher's, around Python code that an op was handed to."""
    return name in _HANDED_TO_PYTHON


def is_view(schema: torch.FunctionSchema) -> bool:
    """Whether every result is another look at an argument that is not written."""
    infos = [result.alias_info for result in schema.returns]
    return bool(infos) and all(info is not None and not info.is_write for info in infos)


def missing_compiler() -> str | None:
    """A word where the program uses Inductor and there is no C++ compiler for it."""
    config = sys.modules.get("torch._inductor.config")
    if config is None:
        return None
    wanted = [c for c in config.cpp.cxx if c]
    if any(shutil.which(c) for c in wanted):
        return None
    return (
        f"no C++ compiler was found ({', '.join(wanted)}): torch.compile cannot make kernels for"
        " the CPU, and ops ran as they are"
    )


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
