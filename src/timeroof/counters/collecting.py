"""One call for every profiler: run it around a program and read what it counted."""

from __future__ import annotations

from collections.abc import Callable

from timeroof.core.errors import UsageError
from timeroof.counters.forecasting import forecast_of
from timeroof.counters.ncu import collect_ncu
from timeroof.counters.ncu_command import replay_words
from timeroof.counters.options import Collected, CollectOptions, Forecast
from timeroof.counters.perf import collect_perf
from timeroof.counters.perf_stat import SOFTWARE, is_counted
from timeroof.counters.rocprofv3 import collect_rocprofv3
from timeroof.counters.selecting import select
from timeroof.counters.sets import find_set
from timeroof.counters.tools import find_tool
from timeroof.counters.troubles import recognised

_DRIVERS: dict[str, Callable[[list[str], str | None, CollectOptions], Collected]] = {
    "ncu": collect_ncu,
    "rocprofv3": collect_rocprofv3,
    "perf": collect_perf,
}
TOOLS = tuple(_DRIVERS)


def collect(
    tool: str,
    command: list[str],
    *,
    architecture: str | None = None,
    options: CollectOptions | None = None,
) -> Collected:
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
    if tool == "ncu":
        replay_words(found, options)
    elif tool == "perf":
        counted, said = is_counted(found, SOFTWARE[0], whole_machine=options.system_wide)
        problem = None if counted else recognised("perf", said)
        if problem is not None:
            raise problem


def forecast(tool: str, architecture: str, options: CollectOptions) -> Forecast:
    """How long counting will take, from the metric set alone: nothing is run.

    >>> forecast("ncu", "Volta", CollectOptions(max_kernels=10, metrics_per_run=1)).runs
    15
    """
    metrics = find_set(tool, architecture)
    selection = select(metrics, lambda _: True, "", whole_machine=options.system_wide)
    return forecast_of(tool, selection, options)
