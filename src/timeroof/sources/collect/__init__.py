"""Counters: drive a vendor's profiler and bring what it counted into a Profile.

`collect` runs ncu, rocprofv3 or perf around a program; `join` gives the amounts that were
counted to the clean run's times.
"""

from timeroof.sources.collect.case import CaseCounts, collect_case, count_executions
from timeroof.sources.collect.collecting import TOOLS, check_tool, collect, forecast
from timeroof.sources.collect.joining import join
from timeroof.sources.collect.options import Collected, CollectOptions
from timeroof.sources.collect.region import counted_region, repetitions

__all__ = [
    "TOOLS",
    "CaseCounts",
    "CollectOptions",
    "Collected",
    "check_tool",
    "collect",
    "collect_case",
    "count_executions",
    "counted_region",
    "forecast",
    "join",
    "repetitions",
]
