"""What a probe hands over: the machine and everything behind its ceilings."""

from __future__ import annotations

import msgspec

from timeroof.core.machine import Machine
from timeroof.core.resources import Scope

MEASUREMENT_SCHEMA = "timeroof.measurement/1"


class SweepPoint(msgspec.Struct, kw_only=True, frozen=True):
    """Useful bandwidth of one access pattern at one total working set."""

    pattern: str
    size_bytes: int
    threads: int
    rate_per_s: float
    median_per_s: float
    spread: float


class Latency(msgspec.Struct, kw_only=True, frozen=True):
    """Time of one load that needs the result of the load before it."""

    level: str
    size_bytes: int
    time_s: float
    cycles: float | None
    spread: float


class FaultCost(msgspec.Struct, kw_only=True, frozen=True):
    """Touching fresh memory: how many base pages' worth per second."""

    pages: str
    page_bytes: int
    threads: int
    pages_per_s: float
    bytes_per_s: float
    spread: float


class LaunchCost(msgspec.Struct, kw_only=True, frozen=True):
    """What one op costs that does next to nothing, as a distribution over samples."""

    framework: str
    what: str
    python_loop: bool
    best_s: float
    p25_s: float
    median_s: float
    p75_s: float
    p95_s: float
    samples: int


class Clock(msgspec.Struct, kw_only=True, frozen=True):
    """Cycles per second found with a chain of dependent adds."""

    scope: Scope
    threads: int
    rate_per_s: float
    median_per_s: float


class Measurement(msgspec.Struct, kw_only=True, frozen=True):
    """A measured machine with its curve, its latencies and what there is to say about it.

    `notes` say what was assumed or left out, `warnings` what may have disturbed the figures
    and what to do, `errors` which values were refused because they cannot be right.
    """

    machine: Machine
    schema: str = MEASUREMENT_SCHEMA
    created: str = ""
    quick: bool = False
    duration_s: float = 0.0
    fingerprint: str = ""
    clocks: list[Clock] = []
    sweep: list[SweepPoint] = []
    latency: list[Latency] = []
    faults: list[FaultCost] = []
    launches: list[LaunchCost] = []
    notes: list[str] = []
    warnings: list[str] = []
    errors: list[str] = []
