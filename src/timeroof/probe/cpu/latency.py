"""Latency of a load that needs the result of the one before it, per level."""

from __future__ import annotations

import functools
import mmap
from collections.abc import Sequence

import numpy as np

from timeroof.probe.cpu.bandwidth import Level
from timeroof.probe.cpu.ir import Compiled, compile_ir, module
from timeroof.probe.cpu.streams import CHASE_LOADS, chase_kernel, touch_kernel
from timeroof.probe.cpu.threads import HUGE_BYTES, Region, Team, Work
from timeroof.probe.measurement import FaultCost, Latency, wrong_result
from timeroof.probe.sampling import LEAST_SAMPLES, Plan, Samples, sample

LINE_BYTES = 64
# Where in the region the walk's position is kept, before the ring begins.
HEAD_BYTES = 4096


@functools.cache
def _compiled() -> Compiled:
    return compile_ir(module(chase_kernel()))


def ring_order(lines: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A random order of cache lines that no prefetcher guesses; the same in every run."""
    return np.random.default_rng(2009_04598).permutation(lines)


def measure_latency(
    team: Team,
    region: Region,
    level: Level,
    *,
    clock_hz: float | None,
    plan: Plan,
    most_bytes: int,
) -> Latency:
    """The latency in the middle of a level."""
    size_bytes = min(level.anchors[0], most_bytes - HEAD_BYTES)
    samples = sample_walk(team, region, size_bytes, plan)
    return Latency(
        level=level.name,
        size_bytes=size_bytes,
        time_s=samples.best_s,
        cycles=None if clock_hz is None else samples.best_s * clock_hz,
        spread=samples.spread,
    )


def sample_walk(team: Team, region: Region, size_bytes: int, plan: Plan) -> Samples:
    """Seconds per load on a walk around a ring of lines; checks where each walk ends."""
    order = ring_order(max(2, size_bytes // LINE_BYTES))
    start = region.address + HEAD_BYTES
    addresses = (order * LINE_BYTES + start).astype(np.uint64)
    step = LINE_BYTES // 8
    memory = region.array(HEAD_BYTES, len(order) * step, np.uint64)
    memory[order * step] = np.roll(addresses, -1)
    head = region.array(0, 1, np.uint64)
    head[0] = addresses[0]
    turns, walked = 8, 0

    def run(repetitions: int) -> float:
        nonlocal walked
        outcome = team.run(_compiled(), [Work(0, region.address, 0, turns)], repetitions)
        walked += turns * repetitions * CHASE_LOADS
        if outcome.checksums[0] != int(addresses[walked % len(order)]):
            raise wrong_result("latency")
        return outcome.time_s

    # Once around first, so that every line is where its level keeps it.
    run(-(-len(order) // (turns * CHASE_LOADS)))
    samples = sample(run, plan)
    return Samples([t / (turns * CHASE_LOADS) for t in samples.times_s], samples.repetitions)


def latency_curve(
    team: Team, region: Region, sizes: Sequence[int], plan: Plan
) -> list[tuple[int, float]]:
    """Latency over the working set, from which cache sizes can be read."""
    return [(size, sample_walk(team, region, size, plan).best_s) for size in sizes]


# The cost of touching fresh memory: page faults per second, with and without huge pages.


# Name → what is asked of the kernel. As it comes is what a program's allocator gets.
PAGES: dict[str, bool | None] = {"default": None, "small pages": False, "huge pages": True}

SIZE_BYTES = 4 * HUGE_BYTES
REPEATED = 0.1


@functools.cache
def _faults_compiled(page_bytes: int) -> Compiled:
    return compile_ir(module(touch_kernel(page_bytes)))


def sample_faults(
    team: Team, pages: str, *, size_bytes: int = SIZE_BYTES, samples: int = LEAST_SAMPLES
) -> Samples | None:
    """Seconds per base page of a team touching memory it just got; None where it cannot be asked.

    By base pages also where the kernel hands out huge ones, so that the rates compare.
    """
    page_bytes = mmap.PAGESIZE
    count = size_bytes // page_bytes
    times_s = []
    regions: list[Region] = []
    for _ in range(samples):
        # Given back first: in a virtual machine, memory that was never used before costs
        # the host a fault too, which a program pays only once.
        regions.clear()
        regions += [Region(size_bytes, huge=PAGES[pages]) for _ in range(team.size)]
        if not all(region.advised for region in regions):
            return None
        work = [Work(region.address, 0, 0, count) for region in regions]
        outcome = team.run(_faults_compiled(page_bytes), work, 1)
        if any(checksum != count for checksum in outcome.checksums):
            raise wrong_result("page fault")
        times_s.append(outcome.time_s / (count * team.size))
    return Samples(times_s)


def fault_cost(pages: str, threads: int, samples: Samples) -> FaultCost:
    """What samples say: what one in ten reaches is what the system can do.

    Fresh pages are zeroed, so their cost moves with the memory: the single best is luck.
    """
    page_bytes = mmap.PAGESIZE
    rate = 1.0 / samples.quantile_s(REPEATED)
    return FaultCost(
        pages=pages,
        page_bytes=page_bytes,
        threads=threads,
        pages_per_s=rate,
        bytes_per_s=rate * page_bytes,
        spread=samples.spread,
    )
