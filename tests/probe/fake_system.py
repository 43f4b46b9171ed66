"""A made-up /sys and /proc under a folder."""

from __future__ import annotations

from pathlib import Path


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def cpu(number: int, siblings: str, package: int = 0, l3: str = "0-3") -> dict[str, str]:
    base = f"sys/devices/system/cpu/cpu{number}"
    caches = {
        "index0": ("1", "Data", "32K", siblings),
        "index1": ("1", "Instruction", "32K", siblings),
        "index2": ("2", "Unified", "1024K", siblings),
        "index3": ("3", "Unified", "16M", l3),
    }
    files = {
        f"{base}/topology/core_cpus_list": siblings,
        f"{base}/topology/physical_package_id": str(package),
    }
    for index, (level, kind, size, shared) in caches.items():
        files |= {
            f"{base}/cache/{index}/level": level,
            f"{base}/cache/{index}/type": kind,
            f"{base}/cache/{index}/size": size,
            f"{base}/cache/{index}/shared_cpu_list": shared,
        }
    return files
