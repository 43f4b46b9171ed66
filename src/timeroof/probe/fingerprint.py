"""The key of a measurement: the same hardware and software give the same fingerprint."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib import metadata
from typing import Any

from timeroof.probe.cpu.topology import Topology


def software() -> dict[str, str]:
    """Versions that a measured figure may depend on."""
    found = {
        "python": platform.python_version(),
        "os": f"{platform.system()} {platform.release()}".strip(),
    }
    for package in ("timeroof", "torch", "llvmlite"):
        version = _version(package)
        if version is not None:
            found[package] = version
    return found


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def hardware(topology: Topology, cpu_name: str, memory_bytes: int | None) -> dict[str, Any]:
    """What the machine is made of, as plain data."""
    caches = sorted((c.level, c.size_bytes, len(c.cpus)) for c in topology.caches)
    return {
        "model": topology.model_name,
        "cpu": cpu_name,
        "architecture": platform.machine(),
        "cores": len(topology.cores),
        "sockets": len(topology.sockets),
        "caches": caches,
        # Whole GiB: what the kernel keeps for itself changes from boot to boot.
        "memory_gib": round(memory_bytes / 2**30) if memory_bytes else None,
    }


def fingerprint(*parts: object) -> str:
    """A short hash of plain data.

    >>> fingerprint({"a": 1}) == fingerprint({"a": 1}) != fingerprint({"a": 2})
    True
    """
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
