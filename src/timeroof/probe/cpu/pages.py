"""In which pages the probe's memory lies: what was asked for is not what the system gives."""

from __future__ import annotations

import ctypes
from pathlib import Path

from timeroof.probe.cpu.threads import HUGE_BYTES, Region

SIZE_BYTES = 8 * HUGE_BYTES
MAPS = Path("/proc/self/smaps")
HUGE, SMALL, MIXED = "huge (2 MB)", "4 kB", "both huge (2 MB) and 4 kB"


def pages_of_region() -> str | None:
    """The pages of memory that is made as the micro-kernels' is; None where nobody can tell."""
    region = Region(SIZE_BYTES)
    ctypes.memset(region.address, 1, SIZE_BYTES)
    try:
        text = MAPS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return pages_at(text, region.address, SIZE_BYTES)


def pages_at(smaps: str, address: int, size_bytes: int) -> str | None:
    """What `smaps` says of the mapping that holds an address.

    >>> text = "1000-5000 rw-p 0 00:00 0\\nAnonHugePages:        12 kB\\n"
    >>> pages_at(text, 0x2000, 12 << 10), pages_at(text, 0x9000, 1)
    ('huge (2 MB)', None)
    """
    inside = False
    for line in smaps.splitlines():
        head = line.partition(" ")[0]
        low, dash, high = head.partition("-")
        if dash and not head.endswith(":"):
            inside = int(low, 16) <= address < int(high, 16)
        elif inside and head == "AnonHugePages:":
            held = int(line.split()[1]) * 1024
            return HUGE if held >= 0.9 * size_bytes else MIXED if held else SMALL
    return None
