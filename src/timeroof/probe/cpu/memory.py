"""Memory for the micro-kernels: one region per thread, first touched by that thread."""

from __future__ import annotations

import ctypes
import mmap
import platform
from typing import Any

import numpy as np

from timeroof.probe.cpu.threads import Team

PAGE_BYTES = 4096
HUGE_BYTES = 2 * 1024 * 1024


class Region:
    """Fresh anonymous memory with a known address."""

    def __init__(self, size_bytes: int, *, huge: bool | None = True) -> None:
        """`huge`: ask for huge pages (True), refuse them (False), or take what comes (None)."""
        self.size_bytes = size_bytes
        # Twice a huge page of slack, so that the start can be moved to the next one.
        self._map = private_map(size_bytes + 2 * HUGE_BYTES)
        self.advised = huge is None or advise(self._map, huge=huge)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.address = (start + HUGE_BYTES - 1) // HUGE_BYTES * HUGE_BYTES

    def array(self, offset: int, count: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
        """A view of the memory as numbers."""
        size = count * np.dtype(dtype).itemsize
        buffer = (ctypes.c_char * size).from_address(self.address + offset)
        # The buffer points into the map without holding it: the array must keep it alive.
        buffer.keep = self._map
        return np.frombuffer(buffer, dtype=dtype)


def private_map(size_bytes: int) -> mmap.mmap:
    """Anonymous memory of this process alone: Python's default is shared, without huge pages."""
    if platform.system() == "Windows":
        return mmap.mmap(-1, size_bytes)
    return mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def advise(memory: mmap.mmap, *, huge: bool) -> bool:
    """Ask the kernel for huge pages or against them; False where it cannot be asked."""
    name = "MADV_HUGEPAGE" if huge else "MADV_NOHUGEPAGE"
    option = getattr(mmap, name, None)
    if option is None:
        return False
    try:
        memory.madvise(option)
    except OSError:
        return False
    return True


def regions(team: Team, size_bytes: int, *, huge: bool = True) -> list[Region]:
    """One region per thread of a team, in the memory nearest to each thread."""

    def make(_index: int) -> Region:
        region = Region(size_bytes, huge=huge)
        ctypes.memset(region.address, 1, size_bytes)
        return region

    return list(team.call(make))
