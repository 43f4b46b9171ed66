"""The kernels that can be studied: each file has a `KERNEL`, or `KERNELS` that share their code."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from timeroof.core.errors import UsageError

if TYPE_CHECKING:
    from timeroof.study.case import Kernel

# As they are listed; kernels that are not named here come after, in order of their names.
_ORDER = ("conv2d", "lstm", "gru", "rnn", "gemm", "linear", "attention")


@lru_cache(maxsize=1)
def kernels() -> dict[str, Kernel]:
    """All kernels by name."""
    files = [import_module(f"{__name__}.{m.name}") for m in iter_modules(__path__)]
    every = [k for file in files for k in getattr(file, "KERNELS", None) or (file.KERNEL,)]
    found = {kernel.name: kernel for kernel in every}
    rest = sorted(set(found) - set(_ORDER))
    return {name: found[name] for name in (*_ORDER, *rest)}


def kernel_names() -> list[str]:
    """Their names."""
    return list(kernels())


def kernel(name: str) -> Kernel:
    """One kernel."""
    if name not in kernels():
        known = ", ".join(kernel_names())
        raise UsageError(f"no kernel is called {name!r}", advice=f"use one of {known}")
    return kernels()[name]
