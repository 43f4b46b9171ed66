"""Counters: drive a vendor's profiler and bring what it counted into a Profile.

`collect` is one call for every profiler: it runs it around a program and reads what it counted.
"""

from __future__ import annotations

from collections.abc import Callable

from timeroof.core.errors import UsageError
from timeroof.counters.join import join
from timeroof.counters.ncu import collect_ncu
from timeroof.counters.options import Collected, CollectOptions
from timeroof.counters.perf import SOFTWARE, collect_perf, is_counted
from timeroof.counters.rocprofv3 import collect_rocprofv3
from timeroof.counters.tools import find_tool, recognised
from timeroof_recorder.counted import RANGE_NAME, Region, repetitions

__all__ = [
    "TOOLS",
    "CollectOptions",
    "Collected",
    "check_tool",
    "collect",
    "counted_region",
    "join",
    "repetitions",
]


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


def counted_region(name: str = RANGE_NAME) -> Region:
    """Inside the program: `with counted_region():` marks what is counted."""
    return Region(name)
