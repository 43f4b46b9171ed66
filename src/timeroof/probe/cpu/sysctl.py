"""Cache sizes from macOS, which has no sysfs."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable

# Performance cores first: that is where the threads of a heavy program run.
_NAMES = {
    1: ("hw.perflevel0.l1dcachesize", "hw.l1dcachesize"),
    2: ("hw.perflevel0.l2cachesize", "hw.l2cachesize"),
    3: ("hw.l3cachesize",),
}


def sysctl_caches(read: Callable[[str], int | None] | None = None) -> list[tuple[int, int]]:
    """Level and size in bytes of each cache that sysctl knows; empty elsewhere."""
    if read is None:
        if platform.system() != "Darwin":
            return []
        read = _read
    found = []
    for level, names in _NAMES.items():
        size = next((value for name in names if (value := read(name))), None)
        if size:
            found.append((level, size))
    return found


def _read(name: str) -> int | None:
    value = ctypes.c_int64(0)
    size = ctypes.c_size_t(ctypes.sizeof(value))
    library = ctypes.CDLL(None)
    status = library.sysctlbyname(
        name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)
    )
    return value.value if status == 0 else None
