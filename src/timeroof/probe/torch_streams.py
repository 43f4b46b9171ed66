"""Memory traffic of a torch device: bandwidth over the working set, host links, launching."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from timeroof.probe.measurement import LaunchCost, SweepPoint
from timeroof.probe.problems import wrong_result
from timeroof.probe.rates import Figure
from timeroof.probe.sampling import Plan, Samples, sample
from timeroof.probe.torch_timing import DeviceTimer

VALUE_BYTES = 4
# Bytes moved per value, and arrays used, of each pattern on fp32.
PATTERNS = {"read": (1, 1), "write": (1, 1), "update": (2, 1), "copy": (2, 2), "triad": (3, 3)}


def stream(pattern: str, size_bytes: int, device: str) -> tuple[Callable[[], Any], float, int]:
    """A call that streams once over a working set, its useful bytes, and the set's size."""
    import torch

    moves, arrays = PATTERNS[pattern]
    count = max(1, size_bytes // arrays // VALUE_BYTES)
    a, b, c = (torch.ones(count if k < arrays else 1, device=device) for k in range(3))
    calls: dict[str, Callable[[], Any]] = {
        "read": lambda: torch.sum(a),
        "write": lambda: a.fill_(2.0),
        "update": a.neg_,
        "copy": lambda: a.copy_(b),
        "triad": lambda: torch.add(b, c, alpha=3.0, out=a),
    }
    return calls[pattern], float(moves * count * VALUE_BYTES), arrays * count * VALUE_BYTES


def check_stream(pattern: str, call: Callable[[], Any]) -> None:
    """Raise unless one pass leaves what the pattern must leave behind."""
    result = call()
    expected = {"read": None, "write": 2.0, "update": -1.0, "copy": 1.0, "triad": 4.0}[pattern]
    good = bool((result == expected).all()) if expected is not None else float(result) > 0
    if not good:
        raise wrong_result(f"{pattern} stream")


def measure_stream(
    pattern: str, size_bytes: int, timer: DeviceTimer, plan: Plan, *, flush_bytes: int = 0
) -> tuple[Figure, int]:
    """Useful bytes per second at a working set; with the cache flushed before each sample."""
    call, moved, actual_bytes = stream(pattern, size_bytes, str(timer.device))
    check_stream(pattern, call)
    run = timer.cold(call, flush_bytes) if flush_bytes else timer.run(call)
    return Figure.of(sample(run, plan), amount=moved), actual_bytes


def measure_curve(sizes: list[int], timer: DeviceTimer, plan: Plan) -> list[SweepPoint]:
    """The curve of every pattern over the working set, caches as the pattern leaves them."""
    points = []
    for size in sizes:
        for pattern in PATTERNS:
            figure, actual_bytes = measure_stream(pattern, size, timer, plan)
            points.append(
                SweepPoint(
                    pattern=pattern,
                    size_bytes=actual_bytes,
                    threads=0,
                    rate_per_s=figure.rate_per_s,
                    median_per_s=figure.median_per_s,
                    spread=figure.spread,
                )
            )
    return points


def measure_link(to_device: bool, size_bytes: int, timer: DeviceTimer, plan: Plan) -> Figure:
    """Bytes per second between host and device, from pinned memory where there is any."""
    import torch

    pinned = timer.device.type == "cuda"
    host = torch.ones(size_bytes, dtype=torch.uint8, pin_memory=pinned)
    there = torch.zeros(size_bytes, dtype=torch.uint8, device=timer.device)
    target, source = (there, host) if to_device else (host, there)
    call = lambda: target.copy_(source, non_blocking=pinned)  # noqa: E731 - a call to repeat
    figure = Figure.of(sample(timer.run(call), plan), amount=float(size_bytes))
    timer.synchronize()
    if not bool((target == source).all()):
        raise wrong_result("host-device copy")
    return figure


def measure_device_launches(timer: DeviceTimer, plan: Plan) -> list[LaunchCost]:
    """An op on one element: time per kernel in the stream, and the host's cost to submit it."""
    import torch

    one = torch.ones(1, device=timer.device)
    costs = [
        _cost("kernel in a stream", sample(timer.run(one.zero_), plan), 1),
        _cost("submit from the host", sample(timer.submit(one.zero_), plan), 1),
    ]
    if timer.has_events:
        costs.append(_graph_replay(one, timer, plan))
    return costs


def _graph_replay(one: Any, timer: DeviceTimer, plan: Plan, nodes: int = 100) -> LaunchCost:
    """Time per node of a captured graph that is replayed."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(nodes):
            one.zero_()
    return _cost("graph replay, per node", sample(timer.run(graph.replay), plan), nodes)


def _cost(what: str, samples: Samples, ops: int) -> LaunchCost:
    return LaunchCost(
        framework="torch",
        what=what,
        python_loop=True,
        best_s=samples.best_s / ops,
        p25_s=samples.quantile_s(0.25) / ops,
        median_s=samples.median_s / ops,
        p75_s=samples.quantile_s(0.75) / ops,
        p95_s=samples.quantile_s(0.95) / ops,
        samples=len(samples.times_s),
    )


def sustain(
    run: Callable[[int], float],
    *,
    sustained_s: float,
    repetitions: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Samples:
    """Seconds per repetition over a long stretch without rest: what is left once it is warm.

    The first half warms up and is left out.
    """
    start = clock()
    times_s: list[float] = []
    while (elapsed_s := clock() - start) < sustained_s:
        time_s = run(repetitions) / repetitions
        if elapsed_s >= sustained_s / 2:
            times_s.append(time_s)
    return Samples(times_s or [run(repetitions) / repetitions], repetitions)
