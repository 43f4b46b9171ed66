"""What driver and worker tell each other, one JSON line each."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from timeroof.core.machine import Machine
from timeroof.study.case import Case, Plan


class Order(msgspec.Struct, kw_only=True):
    """Measure this case so carefully."""

    case: Case
    plan: Plan


class Hello(msgspec.Struct, kw_only=True):
    """The worker is ready, or says why it never will be."""

    framework: str
    version: str = ""
    error: str | None = None


class Setup(msgspec.Struct, kw_only=True):
    """The first line that a worker gets: where it runs, as far as counting needs it."""

    machine: Machine | None = None
    memory_limit_bytes: int | None = None


# A worker never outlives its driver, and its output never reaches the user's terminal.


_PR_SET_PDEATHSIG = 1
LOOK_EVERY_S = 0.5


def tie_to(driver: int) -> None:
    """Die with the driver: by the kernel's hand on Linux, else by looking out for it."""
    tied = False
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            tied = ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) == 0
    if os.getppid() != driver:  # it died before we asked
        os._exit(1)
    if not tied:
        threading.Thread(target=_watch, args=(driver,), daemon=True).start()
    # Ctrl-C reaches the whole process group; the driver decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _watch(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(LOOK_EVERY_S)
    os._exit(1)


def be_the_first_to_go() -> None:
    """Where memory runs out, the kernel should take this process, not the driver."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def limit_memory(size_bytes: int | None) -> None:
    """Make a too large allocation fail here instead of bringing the machine to its knees."""
    if size_bytes is None:
        return
    with suppress(OSError, ValueError):
        resource.setrlimit(
            resource.RLIMIT_AS, (size_bytes, resource.getrlimit(resource.RLIMIT_AS)[1])
        )


def address_space_bytes() -> int:
    """Address space that is in use already; libraries reserve much that they never touch."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return pages * resource.getpagesize()
    return 0
