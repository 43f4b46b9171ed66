"""Page faults of a step on the account of the ops that write fresh memory."""

from __future__ import annotations

import math
import mmap
import statistics
from collections.abc import Hashable, Mapping, Sequence

from timeroof.live.torch.recording import CleanStep

# glibc hands out larger blocks from the kernel every time, and gives them back when freed;
# smaller ones it keeps (M_MMAP_THRESHOLD grows to this and no further).
ALWAYS_FRESH_BYTES = 32 << 20
# Below this an allocation comes from memory that the program has touched before.
LEAST_BYTES = 64 << 10
# Of a step, that page faults must take to be told from the allocator's ups and downs.
LEAST_SHARE = 0.05


def share_faults(faults: float, fresh_bytes: Sequence[Mapping[Hashable, int]]) -> list[float]:
    """Faults per op: blocks that are always fresh first, then the others, by their pages.

    No op gets more faults than it has pages; what is left over is nobody's.

    >>> share_faults(100, [{1: 64 << 20}, {2: 4096}])
    [100.0, 0.0]
    """
    page = mmap.PAGESIZE
    left = faults
    found = [0.0] * len(fresh_bytes)
    for low, high in ((ALWAYS_FRESH_BYTES, math.inf), (LEAST_BYTES, ALWAYS_FRESH_BYTES)):
        pages = [sum(-(-b // page) for b in f.values() if low <= b < high) for f in fresh_bytes]
        total = sum(pages)
        if total and left > 0:
            share = min(1.0, left / total)
            found = [f + share * p for f, p in zip(found, pages, strict=True)]
            left -= share * total
    return found


def faults_in_bounds(clean: Sequence[CleanStep], fault_s: float) -> float:
    """Page faults a step that bounds count: the usual number if it matters, else the fewest.

    How many pages an allocator gives back and takes again changes from step to step and from run
    to run. Where that is a small part of a step, it must not decide what an op is bound by.
    """
    usual = statistics.median(step.faults for step in clean)
    step_s = statistics.median(step.duration_ns for step in clean) / 1e9
    return usual if usual * fault_s >= LEAST_SHARE * step_s else min(s.faults for s in clean)
