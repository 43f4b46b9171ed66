"""What a study is asked for, as factors and the runner need to know it."""

from __future__ import annotations

import msgspec

from timeroof.core.machine import Machine
from timeroof.study.case import Value


class DesignOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The choices of a user that the design of a factor respects."""

    kernels: list[str] = []
    framework: str = "torch"
    device: str = "cpu"
    # All cores that the study may use.
    threads: int = 1
    precisions: list[str] = []
    passes: list[str] = []
    quick: bool = False
    sweeps: dict[str, list[Value]] = {}
    # The machine that the cases run on, for its cache sizes and units.
    machine: Machine | None = None


class Plan(msgspec.Struct, kw_only=True, frozen=True):
    """How carefully a case is measured.

    Sampling ends when the 95 % confidence interval of the median is within `precision` of it
    on either side, or when the time is used up; never before `least` samples.
    """

    warmup_s: float = 0.3
    budget_s: float = 2.0
    precision: float = 0.02
    least: int = 10
    most: int = 2000
    # A sample of a short kernel is the mean of so many executions that it lasts this long.
    sample_s: float = 200e-6
    # Seconds after which a case that does not answer has failed.
    limit_s: float = 300.0


FULL = Plan()
QUICK = Plan(warmup_s=0.1, budget_s=0.5, precision=0.03, least=7, limit_s=120.0)
