"""Latency of a load that needs the result of the one before it, per level."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from timeroof.probe.cpu.ir import module
from timeroof.probe.cpu.ir_memory import CHASE_LOADS, chase_kernel
from timeroof.probe.cpu.jit import Compiled, compile_ir
from timeroof.probe.cpu.levels import Level
from timeroof.probe.cpu.memory import Region
from timeroof.probe.cpu.threads import Team, Work
from timeroof.probe.measurement import Latency
from timeroof.probe.problems import wrong_result
from timeroof.probe.sampling import Plan, Samples, sample

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
