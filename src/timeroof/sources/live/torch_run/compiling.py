"""torch.compile'd programs: Inductor's C++ kernels as events of their own."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

from timeroof.sources.live.torch_run.importing import after_import

# Our hooks for modules are global while a step is described or the first steps are awaited;
# torch.compile says so once, which is nothing that the program could change.
_HOOKS = r"Using `torch\.compile\(module\)` when there are global hooks on modules"


def show_compiled_kernels() -> Callable[[], None]:
    """Have kernels that are compiled from now on record themselves; returns a way back.

    Nothing is imported: the setting is made when the program first compiles something.
    """
    warnings.filterwarnings("ignore", message=_HOOKS)
    return after_import("torch._inductor.config", _enable)


def _enable() -> None:
    import sys

    config: Any = sys.modules["torch._inductor.config"]
    with contextlib.suppress(Exception):
        config.cpp.enable_kernel_profile = True


def is_compiled(name: str) -> bool:
    """Whether an event is compiled code: a kernel of Inductor or a whole compiled graph.

    >>> is_compiled("graph_0_cpp_fused_add_0"), is_compiled("aten::add")
    (True, False)
    """
    return name.startswith(("graph_", "cpp_fused_", "triton_", "## Call CompiledFxGraph"))
