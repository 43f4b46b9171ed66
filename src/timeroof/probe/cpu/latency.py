"""Latency of dependent loads, and the cost of touching fresh memory."""

from __future__ import annotations

import functools
import mmap

import numpy as np

from timeroof.probe.cpu.ir import Compiled, compile_ir, module
from timeroof.probe.cpu.streams import CHASE_LOADS, chase_kernel, touch_kernel
from timeroof.probe.cpu.threads import HUGE_BYTES, Region, Team, Work
from timeroof.probe.measurement import wrong_result
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
    return Samples([t / (turns * CHASE_LOADS) for t in samples.times_s])


SIZE_BYTES = 4 * HUGE_BYTES


@functools.cache
def _faults_compiled(page_bytes: int) -> Compiled:
    return compile_ir(module(touch_kernel(page_bytes)))


def sample_faults(
    team: Team, *, size_bytes: int = SIZE_BYTES, samples: int = LEAST_SAMPLES
) -> Samples:
    """Seconds per base page of a team touching memory that it just got, as the system gives it."""
    count = size_bytes // mmap.PAGESIZE
    times_s = []
    regions: list[Region] = []
    for _ in range(samples):
        # Given back first: in a virtual machine, memory that was never used before costs
        # the host a fault too, which a program pays only once.
        regions.clear()
        regions += [Region(size_bytes, huge=False) for _ in range(team.size)]
        work = [Work(region.address, 0, 0, count) for region in regions]
        outcome = team.run(_faults_compiled(mmap.PAGESIZE), work, 1)
        if any(checksum != count for checksum in outcome.checksums):
            raise wrong_result("page fault")
        times_s.append(outcome.time_s / (count * team.size))
    return Samples(times_s)
