"""The installed profilers: where they are, how old, and what they know."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from timeroof.core.children import safe_environment
from timeroof.core.errors import UsageError
from timeroof.counters.troubles import missing, too_old

# Names of the executables, the newest first, and the oldest version that has what is needed
# (ncu: --cache-control and --kernel-base came with 2019.5).
_EXECUTABLES = {
    "ncu": ("ncu", "nv-nsight-cu-cli"),
    "rocprofv3": ("rocprofv3",),
    "perf": ("perf",),
}
_OLDEST = {"ncu": (2019, 5), "rocprofv3": (0,), "perf": (4,)}
_VERSION = re.compile(r"(?i)version:?\s*v?(\d+(?:\.\d+)+)")
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Tool:
    """A profiler that is there."""

    name: str
    path: str
    version: tuple[int, ...]

    @property
    def version_text(self) -> str:
        """The version as people write it."""
        return ".".join(map(str, self.version)) or "of unknown version"

    def since(self, *version: int) -> bool:
        """Whether it is at least of a version; one that does not say is taken as new."""
        return not self.version or self.version >= version


def find_tool(name: str, environment: Mapping[str, str] | None = None) -> Tool:
    """The installed profiler, or a sentence that says how to get it."""
    if name not in _EXECUTABLES:
        raise UsageError(
            f"no profiler is called {name!r}", advice=f"use one of {', '.join(_EXECUTABLES)}"
        )
    place = (environment or {}).get("PATH", os.environ.get("PATH"))
    found = next((p for e in _EXECUTABLES[name] if (p := shutil.which(e, path=place))), None)
    if found is None:
        raise missing(name)
    tool = Tool(name, found, _version(found))
    if tool.version and tool.version < _OLDEST[name]:
        raise too_old(name, tool.version_text, ".".join(map(str, _OLDEST[name])))
    return tool


def _version(path: str) -> tuple[int, ...]:
    found = _VERSION.search(ask([path, "--version"]) or "")
    return tuple(int(n) for n in found[1].split(".")) if found else ()


def ask(command: list[str]) -> str | None:
    """What a short command prints, None where it fails."""
    try:
        done = subprocess.run(
            command,
            # Some of these tools are Python scripts.
            env=safe_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    return (done.stdout + b"\n" + done.stderr).decode(errors="replace")


def nvidia_capability() -> str | None:
    """The compute capability of the first NVIDIA GPU."""
    text = ask(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]) or ""
    found = re.search(r"(?m)^\s*(\d+\.\d+)\s*$", text)
    return found[1] if found else None


def amd_target() -> str | None:
    """The gfx number of the first AMD GPU."""
    text = ask(["rocm_agent_enumerator"]) or ""
    return next((t for t in re.findall(r"gfx[0-9a-f]+", text) if t != "gfx000"), None)


def chip_here(tool: str) -> str | None:
    """The chip of this computer that a profiler counts on, as its driver names it."""
    return {"ncu": nvidia_capability, "rocprofv3": amd_target, "perf": cpu_vendor}[tool]()


def cpu_vendor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """The vendor of this computer's processor, as the kernel names it."""
    try:
        found = re.search(r"(?m)^vendor_id\s*:\s*(\S+)", cpuinfo.read_text(errors="replace"))
    except OSError:
        return None
    return found[1] if found else None
