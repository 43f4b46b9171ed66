"""Limits that a container sets: CPU time and memory, from cgroup version 2 or 1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")

# Version 1 spells "no limit" as a huge number.
NO_LIMIT = 1 << 60


def cpu_quota(root: Path = ROOT) -> float | None:
    """Cores' worth of CPU time that this process gets, or None where it gets all."""
    quotas = [_quota_v2(folder) for folder in _folders(root, "")]
    quotas += [_quota_v1(folder) for folder in _folders(root, "cpu")]
    return min((quota for quota in quotas if quota is not None), default=None)


def memory_limit(root: Path = ROOT) -> int | None:
    """Bytes of memory that a container allows, or None."""
    limits = [_number(folder / "memory.max") for folder in _folders(root, "")]
    limits += [_number(folder / "memory.limit_in_bytes") for folder in _folders(root, "memory")]
    return min((limit for limit in limits if limit and limit < NO_LIMIT), default=None)


def available_memory(root: Path = ROOT) -> int | None:
    """Bytes that can be had without swapping, or None where the system does not say."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        lines = []
    free = next((int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable")), None)
    limit = memory_limit(root)
    known = [size for size in (free, limit) if size is not None]
    return min(known, default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The process's cgroup folder of a controller, and all those above it."""
    base = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        names, _, path = line.partition(":")[2].partition(":")
        if controller not in names.split(","):
            continue
        mount = next(
            (base / m for m in (names, controller, "unified") if (base / m).is_dir()), base
        )
        mount = mount if controller else base
        folder = mount / path.strip("/")
        while folder != mount and mount in folder.parents:
            yield folder
            folder = folder.parent
        yield mount
        return
    # Inside a container the own folder is often mounted as the root.
    yield base / controller if controller else base


def _quota_v2(folder: Path) -> float | None:
    """cpu.max holds "quota period" or "max period"."""
    words = next(iter(_lines(folder / "cpu.max")), "").split()
    if len(words) != 2 or not (words[0].isdigit() and words[1].isdigit()):
        return None
    return int(words[0]) / int(words[1]) if int(words[1]) else None


def _quota_v1(folder: Path) -> float | None:
    quota = _number(folder / "cpu.cfs_quota_us")
    period = _number(folder / "cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else None


def _number(path: Path) -> int | None:
    text = next(iter(_lines(path)), "").strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
