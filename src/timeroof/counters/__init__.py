"""Counters: drive a vendor's profiler and bring what it counted into a Profile.

`collect` runs ncu, rocprofv3 or perf around a program; `join` gives the amounts that were
counted to the clean run's times.
"""

from timeroof.counters.collecting import TOOLS, check_tool, collect, forecast
from timeroof.counters.joining import join
from timeroof.counters.options import Collected, CollectOptions
from timeroof.counters.region import counted_region, repetitions

__all__ = [
    "TOOLS",
    "CollectOptions",
    "Collected",
    "check_tool",
    "collect",
    "counted_region",
    "forecast",
    "join",
    "repetitions",
]
