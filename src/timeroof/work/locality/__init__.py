"""Bytes through the hierarchy: what must move."""

from timeroof.work.locality.accesses import Accesses
from timeroof.work.locality.ideal import IdealTraffic, ideal_traffic, ideal_traffics
from timeroof.work.locality.ladder import CrossingBytes, LadderBytes, ladder_bytes

__all__ = [
    "Accesses",
    "CrossingBytes",
    "IdealTraffic",
    "LadderBytes",
    "ideal_traffic",
    "ideal_traffics",
    "ladder_bytes",
]
