"""The cost of touching fresh memory: page faults per second, with and without huge pages."""

from __future__ import annotations

import functools
import mmap

from timeroof.probe.cpu.ir import module
from timeroof.probe.cpu.ir_memory import touch_kernel
from timeroof.probe.cpu.jit import Compiled, compile_ir
from timeroof.probe.cpu.memory import HUGE_BYTES, Region
from timeroof.probe.cpu.threads import Team, Work
from timeroof.probe.measurement import FaultCost
from timeroof.probe.problems import wrong_result
from timeroof.probe.sampling import LEAST_SAMPLES, Samples

# Name → what is asked of the kernel. As it comes is what a program's allocator gets.
PAGES: dict[str, bool | None] = {"default": None, "small pages": False, "huge pages": True}

SIZE_BYTES = 4 * HUGE_BYTES
REPEATED = 0.1


@functools.cache
def _compiled(page_bytes: int) -> Compiled:
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
        outcome = team.run(_compiled(page_bytes), work, 1)
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
