"""Samples of cases in turns: warm up until stable, then measure until the medians are known.

Cases that are compared run in one process, A B B A, in blocks of about a millisecond: whatever
changes with time (clock, temperature, neighbours) then reaches all of them alike. Beside other
programs a block's seconds are the CPU time of the one thread that runs it.
"""

from __future__ import annotations

import itertools
import math
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from timeroof.model.stats import median_half_interval
from timeroof.probe.sampling import CpuTimes, read_cpu_times
from timeroof.study.case import Plan


class Reading(NamedTuple):
    """Seconds of all executions together, and the pages that were touched first in them."""

    time_s: float
    faults: int
    # Wall over CPU time of a block in which the thread kept its processor; None of any other.
    wall_per_cpu: float | None = None


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


def cpu_clock(run: Callable[[], object], times: int) -> Reading:
    """For one thread beside other programs: its own time on a processor."""
    who = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
    before, begin, began = resource.getrusage(who), time.perf_counter_ns(), time.thread_time_ns()
    for _ in range(times):
        run()
    used, passed = time.thread_time_ns() - began, time.perf_counter_ns() - begin
    after = resource.getrusage(who)
    switches = after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw
    kept = None if switches or used <= 0 else passed / used
    return Reading(used / 1e9, after.ru_minflt - before.ru_minflt, kept)


def process_clock(run: Callable[[], object], times: int) -> Reading:
    """For a framework with threads of its own on one core beside other programs: the time that all
    of them had a processor. It hands work over by switches, so these say nothing of neighbours."""
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    began = time.process_time_ns()
    for _ in range(times):
        run()
    used = time.process_time_ns() - began
    more = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    return Reading(used / 1e9, more)


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
# Rounds of what takes very long; a round has two samples of each case.
FEWEST_ROUNDS = 3
# An execution this long has warmed its caches up by itself long before it ends.
LONG_S = 5e-3
# Blocks that nobody disturbed, from which on their clocks say something.
FEWEST_BLOCKS, MOST_WALL_PER_CPU = 5, 1.05
CLOCKS_DISAGREE = "CPU time misses wall time in blocks that nobody disturbed"


@dataclass(frozen=True)
class Entrant:
    """A case made ready: one execution, what clears the caches before it, the state it needs."""

    run: Callable[[], object]
    flush: Callable[[], object] | None = None
    setting: Callable[[], AbstractContextManager[object]] = nullcontext


def overwriter(size_bytes: int, threads: int) -> Callable[[], object]:
    """A function that overwrites memory, each thread its part: no cache keeps anything else."""
    import numpy as np

    pool = ThreadPoolExecutor(threads)
    parts = np.array_split(np.zeros(max(size_bytes, threads), np.uint8), threads)
    values = itertools.cycle(range(256))

    def overwrite() -> None:
        value = next(values)
        list(pool.map(lambda part: part.fill(value), parts))

    return overwrite


@dataclass
class Sampled:
    """Seconds per execution of every sample, and how they came about."""

    samples_s: list[float] = field(default_factory=list)
    faults: list[float] = field(default_factory=list)
    executions_per_sample: int = 1
    # Whether each block follows an execution that nobody times, which warms the caches up.
    warmed: bool = True
    wall_per_cpu: list[float] = field(default_factory=list)

    @property
    def confidence(self) -> float | None:
        """Half of the 95 % confidence interval of the median, relative to it."""
        return median_half_interval(self.samples_s)

    @property
    def doubt(self) -> str | None:
        """Why its CPU time is not to be trusted, None where nothing speaks against it."""
        few = len(self.wall_per_cpu) < FEWEST_BLOCKS
        agree = few or statistics.median(self.wall_per_cpu) <= MOST_WALL_PER_CPU
        return None if agree else CLOCKS_DISAGREE

    def add(self, reading: Reading) -> None:
        """Keep a block."""
        self.samples_s.append(reading.time_s / self.executions_per_sample)
        self.faults.append(reading.faults / self.executions_per_sample)
        if reading.wall_per_cpu is not None:
            self.wall_per_cpu.append(reading.wall_per_cpu)


def sample(
    entrants: Sequence[Entrant], clock: Clock, plan: Plan,
    now: Callable[[], float] = time.perf_counter, beat: Callable[[], None] = lambda: None,
) -> list[Sampled]:  # fmt: skip
    """Warm up, decide how many executions make a sample, and sample in turns, there and back. With
    `flush` every sample is one execution on cold caches."""
    found = []
    for entrant in entrants:
        with entrant.setting():
            found.append(_warmed_up(entrant, clock, plan, now))
        beat()
    order = [*range(len(entrants)), *reversed(range(len(entrants)))]
    end, rounds = now() + plan.budget_s * len(entrants), 0
    while not _enough(found, plan, rounds, late=now() >= end):
        for place in order:
            _block(entrants[place], found[place], clock)
            beat()
        rounds += 1
    return found


def _warmed_up(entrant: Entrant, clock: Clock, plan: Plan, now: Callable[[], float]) -> Sampled:
    end, last = now() + plan.warmup_s, clock(entrant.run, 1).time_s
    while True:  # until two readings in a row agree or the time is over
        if entrant.flush is not None:
            entrant.flush()
        one_s = clock(entrant.run, 1).time_s
        if abs(one_s - last) <= STABLE * one_s or now() >= end:
            break
        last = one_s
    times = 1
    if entrant.flush is None and one_s < plan.sample_s:
        times = min(MOST_EXECUTIONS, math.ceil(plan.sample_s / max(one_s, 1e-7)))
    return Sampled(executions_per_sample=times, warmed=entrant.flush is None and one_s < LONG_S)


def _block(entrant: Entrant, found: Sampled, clock: Clock) -> None:
    with entrant.setting():
        if entrant.flush is not None:
            entrant.flush()
        elif found.warmed:
            entrant.run()
        found.add(clock(entrant.run, found.executions_per_sample))


def _enough(found: Sequence[Sampled], plan: Plan, rounds: int, *, late: bool) -> bool:
    if late and rounds >= FEWEST_ROUNDS:
        return True
    if 2 * rounds < plan.least:
        return False
    settled = all((one.confidence or 0.0) <= plan.precision for one in found)
    return settled or 2 * rounds >= plan.most


# Who else runs.

LOOK_S = 0.3


class LoadMeter:
    """The share of all CPU time that others used, or that the host took away, since it began."""

    def __init__(self) -> None:
        self._before: CpuTimes | None = read_cpu_times()
        self._own_s = time.process_time()

    def share(self) -> float | None:
        """The share so far, None where the system does not say."""
        before, after = self._before, read_cpu_times()
        if before is None or after is None or after.total_s <= before.total_s:
            return None
        own_s = time.process_time() - self._own_s
        others_s = after.busy_s - before.busy_s - own_s + after.stolen_s - before.stolen_s
        return round(max(0.0, others_s / (after.total_s - before.total_s)), 4)


def share_of_others() -> float | None:
    """What others use while this process does nothing."""
    meter = LoadMeter()
    time.sleep(LOOK_S)
    return meter.share()
