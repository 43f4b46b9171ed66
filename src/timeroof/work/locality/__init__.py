"""Bytes through the hierarchy: what must move (bounds), what likely moves (estimates)."""

from timeroof.work.locality.accesses import Accesses
from timeroof.work.locality.blocking import (
    Convolution,
    Product,
    estimate_convolution_bytes,
    estimate_gemm_bytes,
    estimate_level_bytes,
)
from timeroof.work.locality.ideal import IdealTraffic, ideal_traffic, ideal_traffics
from timeroof.work.locality.ladder import CrossingBytes, LadderBytes, ladder_bytes
from timeroof.work.locality.lru import EstimatedTraffic, estimate_lru_traffic

__all__ = [
    "Accesses",
    "Convolution",
    "CrossingBytes",
    "EstimatedTraffic",
    "IdealTraffic",
    "LadderBytes",
    "Product",
    "estimate_convolution_bytes",
    "estimate_gemm_bytes",
    "estimate_level_bytes",
    "estimate_lru_traffic",
    "ideal_traffic",
    "ideal_traffics",
    "ladder_bytes",
]
