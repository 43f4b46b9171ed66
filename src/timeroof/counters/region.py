"""Inside the program that is counted: mark the region, and say how often to do it."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from timeroof.counters.options import RANGE_NAME, REPETITIONS

_ROCTX = ("librocprofiler-sdk-roctx.so", "librocprofiler-sdk-roctx.so.1")


def repetitions() -> int:
    """How often the program should do its region, as `collect` asks for it; 1 outside of it."""
    try:
        return max(1, int(os.environ.get(REPETITIONS, "1")))
    except ValueError:
        return 1


@contextmanager
def counted_region(name: str = RANGE_NAME) -> Iterator[None]:
    """Mark what is counted: cudaProfilerStart and Stop with an NVTX range, or roctx on AMD.

    Does nothing where no GPU is used. Pending work is waited for, so that none of it is
    counted on the wrong side.
    """
    torch = _torch_with_gpu()
    if torch is None:
        yield
        return
    torch.cuda.synchronize()
    start, stop = _switches(torch)
    start()
    torch.cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
        stop()


def _torch_with_gpu() -> Any:
    """The framework if the program uses it: it is never imported for this."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_available() else None


def _switches(torch: Any) -> tuple[Any, Any]:
    """How to start and stop the profiler's counting."""
    if not getattr(torch.version, "hip", None):
        runtime = torch.cuda.cudart()
        return runtime.cudaProfilerStart, runtime.cudaProfilerStop
    library = _roctx()
    if library is None:
        return (lambda: None), (lambda: None)
    return partial(library.roctxProfilerResume, 0), partial(library.roctxProfilerPause, 0)


def _roctx() -> ctypes.CDLL | None:
    for name in _ROCTX:
        with suppress(OSError):
            return ctypes.CDLL(name)
    return None
