"""What driver and worker tell each other, one JSON line each."""

from __future__ import annotations

import msgspec

from timeroof.core.machine import Machine
from timeroof.study.case import Case
from timeroof.study.options import Plan


class Order(msgspec.Struct, kw_only=True):
    """Measure this case so carefully."""

    case: Case
    plan: Plan


class Hello(msgspec.Struct, kw_only=True):
    """The worker is ready, or says why it never will be."""

    framework: str
    version: str = ""
    error: str | None = None


class Setup(msgspec.Struct, kw_only=True):
    """The first line that a worker gets: where it runs, as far as counting needs it."""

    machine: Machine | None = None
    memory_limit_bytes: int | None = None
