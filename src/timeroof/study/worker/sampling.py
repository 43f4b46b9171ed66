"""Samples of a case: warm up until stable, then measure until the median is known well enough."""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from timeroof.model.stats import median_half_interval
from timeroof.study.case import Plan


class Reading(NamedTuple):
    """Seconds of all executions together, and the pages that were touched first in them."""

    time_s: float
    faults: int


Clock = Callable[[Callable[[], object], int], Reading]


def wall_clock(run: Callable[[], object], times: int) -> Reading:
    """For devices that have done the work when the call returns."""
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    begin = time.perf_counter_ns()
    for _ in range(times):
        run()
    end = time.perf_counter_ns()
    more = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    return Reading((end - begin) / 1e9, more)


def event_clock(run: Callable[[], object], times: int) -> Reading:
    """For CUDA devices: the device's own time from before the first to after the last kernel."""
    import torch

    cuda: Any = torch.cuda
    begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
    cuda.synchronize()
    begin.record()
    for _ in range(times):
        run()
    end.record()
    end.synchronize()
    return Reading(begin.elapsed_time(end) / 1e3, 0)


def waiting_clock(run: Callable[[], object], times: int) -> Reading:
    """For any other device that works beside its host: wait for it on both sides."""
    import torch

    wait: Any = torch.accelerator.synchronize
    wait()
    return wall_clock(lambda: ([run() for _ in range(times)], wait()), 1)._replace(faults=0)


def clock_for(device: str) -> Clock:
    """The clock of a device."""
    kind = device.split(":", 1)[0]
    return {"cpu": wall_clock, "cuda": event_clock}.get(kind, waiting_clock)


# Two readings in a row within this of each other: warmed up.
STABLE = 0.1
MOST_EXECUTIONS = 1000


@dataclass
class Sampled:
    """Seconds per execution of every sample, and how they came about."""

    samples_s: list[float] = field(default_factory=list)
    faults: list[float] = field(default_factory=list)
    executions_per_sample: int = 1
    # Half of the 95 % confidence interval of the median, relative to it.
    confidence: float | None = None


def sample(
    run: Callable[[], object], clock: Clock, plan: Plan, flush: Callable[[], object] | None = None,
    now: Callable[[], float] = time.perf_counter,
) -> Sampled:  # fmt: skip
    """Warm up, decide how many executions make a sample, and sample. With `flush` every sample is
    one execution on cold caches."""
    end, last = now() + plan.warmup_s, clock(run, 1).time_s
    while True:  # until two readings in a row agree or the time is over
        if flush is not None:
            flush()
        one_s = clock(run, 1).time_s
        if abs(one_s - last) <= STABLE * one_s or now() >= end:
            break
        last = one_s
    times = 1
    if flush is None and one_s < plan.sample_s:
        times = min(MOST_EXECUTIONS, math.ceil(plan.sample_s / max(one_s, 1e-7)))
    found = Sampled(executions_per_sample=times)
    end = now() + plan.budget_s
    while len(found.samples_s) < plan.most:
        if flush is not None:
            flush()
        reading = clock(run, times)
        found.samples_s.append(reading.time_s / times)
        found.faults.append(reading.faults / times)
        # Fewer samples of what takes very long, but never fewer than five.
        least = plan.least if reading.time_s <= plan.budget_s / 2 else 5
        if len(found.samples_s) >= least:
            found.confidence = median_half_interval(found.samples_s)
            if now() >= end or (found.confidence or 0.0) <= plan.precision:
                break
    return found
