"""Bytes through the hierarchy: what must move."""

from timeroof.work.locality.accesses import Accesses, CrossingBytes, LadderBytes, ladder_bytes
from timeroof.work.locality.ideal import IdealTraffic, ideal_traffic, ideal_traffics

__all__ = [
    "Accesses",
    "CrossingBytes",
    "IdealTraffic",
    "LadderBytes",
    "ideal_traffic",
    "ideal_traffics",
    "ladder_bytes",
]
