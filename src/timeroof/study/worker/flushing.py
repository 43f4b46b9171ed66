"""Cold caches: stream through more memory than they hold, outside the timed part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from timeroof.core.machine import Machine

TIMES_THE_CACHE = 2
# Where nobody knows the cache: larger than any that is common.
UNKNOWN_CACHE_BYTES = 64 << 20


def flusher(machine: Machine | None, device: str) -> Callable[[], Any]:
    """A function that leaves nothing of a case in any cache.

    It reads: lines that it leaves behind are clean, so that the case does not pay for
    writing them back.
    """
    import torch

    cache = (machine.largest_cache_bytes if machine is not None else None) or UNKNOWN_CACHE_BYTES
    buffer = torch.ones(TIMES_THE_CACHE * cache // 4, dtype=torch.float32, device=device)

    def flush() -> Any:
        result = buffer.sum()
        return result if device == "cpu" else result.item()

    return flush
