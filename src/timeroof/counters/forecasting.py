"""How long counting will take, said before it starts."""

from __future__ import annotations

import math

from timeroof.core.units import format_seconds
from timeroof.counters.options import CollectOptions, Forecast
from timeroof.counters.selecting import Selection

# Seconds that one pass over one kernel takes with ncu, saving and restoring memory included:
# the authors' recorded DeepCAM runs (V100, ncu 2020.1) took 0.020 to 0.099 s per kernel.
PASS_LOW_S, PASS_HIGH_S = 0.02, 0.1
# Hardware counters that fit into one pass, about.
COUNTERS_PER_PASS = 4
# rocprofv3 runs kernels one after the other while it counts.
SERIAL_LOW, SERIAL_HIGH = 1.5, 4.0


def forecast_of(tool: str, selection: Selection, options: CollectOptions) -> Forecast:
    """The forecast for a selection of metrics."""
    if tool == "perf":
        return _perf(selection, options)
    groups = selection.groups(options.metrics_per_run if tool == "rocprofv3" else _most(options))
    if tool == "rocprofv3":
        return _rocprofv3(len(groups), options)
    return _ncu([_passes(group) for group in groups], options)


def _most(options: CollectOptions) -> int:
    return options.metrics_per_run or 10**6


def _passes(metrics: tuple[str, ...]) -> int:
    """Passes that a run needs, about: some counters at a time, instrumented code apart."""
    instrumented = sum("__sass_" in m for m in metrics)
    return math.ceil((len(metrics) - instrumented) / COUNTERS_PER_PASS) + bool(instrumented)


def _ncu(passes: list[int], options: CollectOptions) -> Forecast:
    kernels = options.expected_kernels
    if options.max_kernels is not None:
        kernels = min(kernels or options.max_kernels, options.max_kernels)
    total, runs = sum(passes), len(passes)
    if options.replay == "application":
        runs = total
    again_s = runs * (options.clean_s or 0.0)
    low_s, high_s = (
        (None, None)
        if kernels is None
        else (total * kernels * PASS_LOW_S + again_s, total * kernels * PASS_HIGH_S + again_s)
    )
    text = f"ncu will run the program {_times(runs)}, about {total} passes over every kernel"
    if kernels is None:
        text += (
            f" ({format_seconds(total * PASS_LOW_S, 2)} to {format_seconds(total * PASS_HIGH_S, 2)}"
            " for each kernel that is launched; a limit on kernels bounds it)"
        )
    else:
        text += f" of {kernels}: {_between(low_s, high_s)}{_clean(options)}"
    return Forecast(total, kernels, runs, low_s, high_s, text)


def _rocprofv3(runs: int, options: CollectOptions) -> Forecast:
    clean_s = options.clean_s
    low_s = None if clean_s is None else runs * clean_s * SERIAL_LOW
    high_s = None if clean_s is None else runs * clean_s * SERIAL_HIGH
    text = f"rocprofv3 will run the program {_times(runs)}, kernel by kernel"
    if clean_s is not None:
        text += f": {_between(low_s, high_s)}{_clean(options)}"
    return Forecast(runs, options.expected_kernels, runs, low_s, high_s, text)


def _perf(selection: Selection, options: CollectOptions) -> Forecast:
    groups = max(1, len(selection.groups(options.metrics_per_run)))
    repeats = options.rounds * (2 if options.subtract else 1)
    runs = groups * repeats
    total_s = None if options.clean_s is None else runs * options.clean_s
    text = f"perf will run the program {_times(runs)}"
    if total_s is not None:
        text += f": about {format_seconds(total_s, 2)}{_clean(options)}"
    return Forecast(groups, None, runs, total_s, total_s, text)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _between(low_s: float | None, high_s: float | None) -> str:
    return f"about {format_seconds(low_s, 2)} to {format_seconds(high_s, 2)}"


def _clean(options: CollectOptions) -> str:
    return "" if options.clean_s is None else f", {format_seconds(options.clean_s, 2)} clean"
