"""Ways of running the same work: settings of torch, and what a machine needs for them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from timeroof.study.kernel import COMPILED, Workload

CUDA_ONLY = {"graph": "CUDA graphs", "cudnn-benchmark": "cuDNN's search for an algorithm"}
_COMPILERS = ("g++", "c++", "clang++")
COMPILES = (*COMPILED, "cell-loop-compile")


def why_unsupported(variant: str, device: str) -> str | None:
    """Why a variant cannot run here; None where it can."""
    if variant in CUDA_ONLY and not device.startswith("cuda"):
        return f"{CUDA_ONLY[variant]} need a CUDA device; this case runs on {device}"
    if variant == "no-onednn" and device != "cpu":
        return "oneDNN is a library for CPUs"
    if variant in COMPILES and device == "cpu" and not any(map(shutil.which, _COMPILERS)):
        return "torch.compile needs a C++ compiler (g++) and there is none"
    return None


def setting(variant: str) -> AbstractContextManager[Any]:
    """The state of torch that a variant needs while it is made ready and run."""
    import torch

    backends: Any = torch.backends
    found: AbstractContextManager[Any] = nullcontext()
    if variant == "no-onednn":
        found = backends.mkldnn.flags(enabled=False)
    elif variant == "cudnn-benchmark":
        found = backends.cudnn.flags(enabled=True, benchmark=True)
    return found


def prepare_compiling() -> None:
    """Settings that compiled cases need: a graph that may be run backward again and again."""
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    functorch.donated_buffer = False
    inductor.cpp.enable_kernel_profile = True


def compiled(variant: str, workload: Workload) -> Workload:
    """The workload with its function compiled where the variant says so."""
    import torch

    if workload.compiled or variant not in COMPILED:
        return workload
    modes: dict[str, Callable[..., Any]] = {
        "compile": lambda f: torch.compile(f, dynamic=False),
        "max-autotune": lambda f: torch.compile(f, dynamic=False, mode="max-autotune"),
    }
    return Workload(
        workload.make_inputs,
        modes[variant](workload.function),
        workload.weights,
        workload.make_optimizer,
        compiled=True,
        eager=workload.function,
    )
