"""Matrix products through torch, one per core at the same time, each thread on its own core.

One product over several of torch's threads would be at the mercy of the scheduler: for seconds two
of them can share a core. What the cores' units can do shows in products that need no neighbour.
"""

from __future__ import annotations

import threading
import time

from timeroof.probe.cpu.threads import Team
from timeroof.probe.rates import Figure
from timeroof.probe.sampling import Plan, sample
from timeroof.probe.torch_gemm import check_product, operands, product


def measure_products(team: Team, precision: str, size: int, plan: Plan) -> Figure:
    """Operations per second (a multiply-add counts two) of one square product per thread."""
    import torch

    before = torch.get_num_threads()
    # For this process, and in each thread for the pool of that thread.
    torch.set_num_threads(1)
    try:
        team.call(lambda _: torch.set_num_threads(1))
        pairs = [operands(precision, size, "cpu") for _ in range(team.size)]
        calls = [product(left, right) for left, right in pairs]
        for result, (left, right) in zip(team.call(lambda k: calls[k]()), pairs, strict=True):
            check_product(result, left, right)
        together = threading.Barrier(team.size)

        def timed(index: int, repetitions: int) -> tuple[float, float]:
            call = calls[index]
            together.wait()
            start = time.perf_counter()
            for _ in range(repetitions):
                call()
            return start, time.perf_counter()

        def run(repetitions: int) -> float:
            spans: list[tuple[float, float]] = team.call(lambda index: timed(index, repetitions))
            return max(end for _, end in spans) - min(start for start, _ in spans)

        return Figure.of(sample(run, plan), amount=2.0 * size**3 * team.size)
    finally:
        torch.set_num_threads(before)
