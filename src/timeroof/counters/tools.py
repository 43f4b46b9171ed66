"""The installed profilers: where they are, how old, and what they know."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from timeroof.core.children import safe_environment
from timeroof.core.errors import InputError, TimeroofError, UsageError
from timeroof.counters.processes import Ran

# What goes wrong with profilers, each in one sentence with its cure.


# With less than this a disk is full.
FULL_BYTES = 2**20

_INSTALL = {
    "ncu": "install NVIDIA Nsight Compute (part of the CUDA toolkit) and put ncu on PATH",
    "rocprofv3": "install ROCm 6.2 or newer and put /opt/rocm/bin on PATH",
    "perf": "install it (apt-get install linux-perf, or linux-tools for your kernel)",
}
_GPU_CURE = (
    "run as root, or let all users count: put 'options nvidia"
    " NVreg_RestrictProfilingToAdminUsers=0' into /etc/modprobe.d/ and reboot (a container"
    " needs --cap-add SYS_ADMIN)"
)
_PERF_CURE = (
    "run as root, or let all users count: sudo sysctl kernel.perf_event_paranoid=1 (a container"
    " needs --cap-add PERFMON)"
)
_KFD_CURE = "add yourself to the groups render and video: sudo usermod -aG render,video $USER"


class Trouble(NamedTuple):
    """What a profiler prints, what it means, and what to do; without a tool for all of them."""

    tool: str
    printed: str
    what: str
    cure: str


_KNOWN = (
    Trouble(
        "ncu", r"ERR_NVGPUCTRPERM", "may not read the GPU's counters (ERR_NVGPUCTRPERM)", _GPU_CURE
    ),
    Trouble(
        "ncu",
        r"InsufficientDriver|driver version is insufficient",
        "does not fit the installed driver",
        "install the Nsight Compute that belongs to the driver's CUDA version",
    ),
    Trouble(
        "ncu",
        r"already in use|in use by another",
        "cannot count while another profiler holds the GPU's counters",
        "end the other profiler (DCGM too: dcgmi profile --pause)",
    ),
    Trouble(
        "rocprofv3",
        r"/dev/kfd.*(?:permission|denied)|(?:permission|denied).*/dev/kfd",
        "may not open the GPU (/dev/kfd)",
        _KFD_CURE,
    ),
    Trouble(
        "perf",
        r"perf_event_paranoid|No permission|Access to performance monitoring",
        "may not read the CPU's counters (perf_event_paranoid)",
        _PERF_CURE,
    ),
    Trouble(
        "",
        r"CUDA out of memory|HIP out of memory|OutOfMemoryError|cudaErrorMemoryAllocation",
        "or its program found too little of the GPU's memory",
        "make the program smaller: profilers need memory of their own, and the clean run's process"
        " still holds what its variables do",
    ),
    Trouble(
        "",
        r"No space left on device|disk quota exceeded",
        "found the disk full",
        "make space, or choose another folder for the counters",
    ),
)


def nothing_known(tool: str, architecture: str) -> UsageError:
    """The profiler lists none of a chip's metrics."""
    return UsageError(
        f"{tool} lists none of the metrics of {architecture}",
        advice="check that it is the version for this chip, and that it sees the GPU",
    )


def recognised(tool: str, text: str) -> UsageError | None:
    """The error for a message that is known, None for any other."""
    for known in _KNOWN:
        if known.tool in ("", tool) and re.search(known.printed, text, re.IGNORECASE):
            return UsageError(f"{tool} {known.what}", advice=known.cure)
    return None


def failed(tool: str, ran: Ran, report: str, folder: Path, *, last: bool) -> TimeroofError:
    """Why a run left nothing to read, in one sentence; raised where nothing was read before."""
    error = _failure(tool, ran, report, folder)
    if last and ran.interrupted:
        raise KeyboardInterrupt
    if last:
        raise error
    return error


def _failure(tool: str, ran: Ran, report: str, folder: Path) -> TimeroofError:
    full = "No space left on device" if _is_full(folder) else ""
    known = recognised(tool, f"{report}\n{ran.text}\n{full}")
    if known is not None:
        return known
    kept = f"what it wrote is in {folder}"
    if ran.timed_out:
        return InputError(
            f"{tool} was stopped at its time limit before it wrote a result",
            advice=f"limit the kernels or allow more time; {kept}",
        )
    if ran.code < 0 or ran.code in (137, 143):
        number = -ran.code if ran.code < 0 else ran.code - 128
        reason = ", often for want of memory" if number == 9 else ""
        return InputError(
            f"{tool} was killed (signal {number}{reason}) before it wrote a result",
            advice=f"count fewer kernels at a time; {kept}",
        )
    if re.search(r"No kernels were profiled", report + ran.text):
        return InputError(
            f"{tool} saw no kernel to count",
            advice="check the region and the kernel filter, and that the program uses the GPU",
        )
    said = _last_words(report) or _last_words(ran.text)
    words = f" ({said})" if said else ""
    return InputError(
        f"{tool} or its program ended with code {ran.code} and no result{words}",
        advice=f"run the program without it first; {kept}",
    )


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < FULL_BYTES
    except OSError:
        return False


def _last_words(text: str) -> str:
    """The profiler's own error, or the last line that was printed."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    errors = [ln.removeprefix("==ERROR== ") for ln in lines if ln.startswith("==ERROR==")]
    return (errors or lines[-1:] or [""])[0][:200].rstrip(".")


# The oldest version that has what is needed (ncu: --print-units came with 2020.2).
_OLDEST = {"ncu": (2020, 2), "rocprofv3": (0,), "perf": (4,)}
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


def find_tool(name: str, environment: Mapping[str, str] | None = None) -> Tool:
    """The installed profiler, or a sentence that says how to get it."""
    place = (environment or {}).get("PATH", os.environ.get("PATH"))
    found = shutil.which(name, path=place)
    if found is None:
        raise UsageError(f"{name} is not on PATH", advice=_INSTALL[name])
    tool = Tool(name, found, _version(found))
    if tool.version and tool.version < _OLDEST[name]:
        needed = ".".join(map(str, _OLDEST[name]))
        raise UsageError(
            f"{name} {tool.version_text} is too old", advice=f"install {needed} or newer"
        )
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


def chip_here(tool: str) -> str | None:
    """The chip of this computer that a profiler counts on, as its driver or kernel names it."""
    if tool == "ncu":
        text = ask(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
        pattern = r"(?m)^\s*(\d+\.\d+)\s*$"
    elif tool == "rocprofv3":
        text, pattern = ask(["rocm_agent_enumerator"]), r"(gfx(?!000)[0-9a-f]+)"
    else:
        cpuinfo = Path("/proc/cpuinfo")
        text = cpuinfo.read_text(errors="replace") if cpuinfo.is_file() else None
        pattern = r"(?m)^vendor_id\s*:\s*(\S+)"
    found = re.search(pattern, text or "")
    return found[1] if found else None
