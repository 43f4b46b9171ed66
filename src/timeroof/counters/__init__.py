"""Counters: drive a vendor's profiler and bring what it counted into a Profile."""

from timeroof.counters.collect import TOOLS, check_tool, collect, counted_region
from timeroof.counters.join import join
from timeroof.counters.options import Collected, CollectOptions
from timeroof_recorder.counted import repetitions

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
