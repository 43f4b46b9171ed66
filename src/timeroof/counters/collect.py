"""One call for every profiler: run it around a program and read what it counted."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import ModuleType

from timeroof.core.errors import UsageError
from timeroof.counters.ncu import collect_ncu
from timeroof.counters.options import RANGE_NAME, REPETITIONS, Collected, CollectOptions
from timeroof.counters.perf import SOFTWARE, collect_perf, is_counted
from timeroof.counters.rocprofv3 import collect_rocprofv3
from timeroof.counters.tools import find_tool, recognised

_DRIVERS: dict[str, Callable[[list[str], str | None, CollectOptions], Collected]] = {
    "ncu": collect_ncu,
    "rocprofv3": collect_rocprofv3,
    "perf": collect_perf,
}
TOOLS = tuple(_DRIVERS)


def collect(
    tool: str, command: list[str], *, architecture: str | None = None,
    options: CollectOptions | None = None,
) -> Collected:  # fmt: skip
    """Run a program under a profiler and return what was counted.

    `architecture` names the chip (a machine's compute capability or architecture); without it
    the driver is asked. Whatever goes wrong is an InputError or a UsageError of one sentence;
    an interruption keeps what was counted until then, marked `interrupted`.
    """
    if tool not in _DRIVERS:
        raise UsageError(f"no profiler is called {tool!r}", advice=f"use one of {', '.join(TOOLS)}")
    if not command:
        raise UsageError("no program is named", advice="name a command to count")
    return _DRIVERS[tool](command, architecture, options or CollectOptions())


def check_tool(tool: str, options: CollectOptions) -> None:
    """Refuse what can be known before anything is run: no such tool, too old, no permission."""
    found = find_tool(tool, options.environment)
    if tool == "perf":
        counted, said = is_counted(found, SOFTWARE[0], whole_machine=options.system_wide)
        problem = None if counted else recognised("perf", said)
        if problem is not None:
            raise problem


# Inside the program that is counted: mark the region, and say how often to do it.


_ROCTX = ("librocprofiler-sdk-roctx.so", "librocprofiler-sdk-roctx.so.1")


def repetitions() -> int:
    """How often the program should do its region, as `collect` asks for it; 1 outside of it."""
    try:
        return max(1, int(os.environ.get(REPETITIONS, "1")))
    except ValueError:
        return 1


@contextmanager
def counted_region(name: str = RANGE_NAME) -> Iterator[None]:
    """Mark what is counted: cudaProfilerStart and Stop with an NVTX range, or roctx on AMD. Does
    nothing where no GPU is used. Pending work is waited for, so that none of it is counted on the
    wrong side."""
    torch = sys.modules.get("torch")  # never imported for this
    if torch is None or not torch.cuda.is_available():
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


def _switches(torch: ModuleType) -> tuple[Callable[[], object], Callable[[], object]]:
    if not getattr(torch.version, "hip", None):
        runtime = torch.cuda.cudart()
        return runtime.cudaProfilerStart, runtime.cudaProfilerStop
    for name in _ROCTX:
        with suppress(OSError):
            library = ctypes.CDLL(name)
            return partial(library.roctxProfilerResume, 0), partial(library.roctxProfilerPause, 0)
    return (lambda: None), (lambda: None)
