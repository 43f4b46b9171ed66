"""Python processes of our own: every one is started here.

A child has the interpreter, the packages and the PYTHONPATH of its parent, and imports nothing
from the folder that it is started in: `-P` keeps that folder off the path, and entries of
PYTHONPATH that mean it are left out. A program of the user's is no child in this sense.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from timeroof.core import SAFE_VARIABLE, is_working_folder, package_root
from timeroof.core.files import cache_folder, scratch_folder

_PATH = "PYTHONPATH"
_COMPILED = "TORCHINDUCTOR_CACHE_DIR"
_INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Child:
    """A module of ours to run as a process: its command line and its environment."""

    module: str
    arguments: tuple[str, ...] = ()
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        """What to start."""
        return [sys.executable, "-P", "-m", self.module, *self.arguments]

    @property
    def environment(self) -> dict[str, str]:
        """The variables to start it with; processes that it starts look nowhere else either."""
        return safe_environment() | {SAFE_VARIABLE: "1"} | self.extra

    def run(self, timeout_s: float | None = None) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end, or for so long; what it prints is held."""
        process = self.start(
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            out, err = process.communicate(timeout=timeout_s)
        except BaseException:
            end_group(process)
            raise
        return subprocess.CompletedProcess(self.command, process.returncode, out, err)

    def start(self, **options: Any) -> subprocess.Popen[bytes]:
        """Start it; options are those of `subprocess.Popen`. It has a process group of its own,
        which ends when it does, or when this process does, however that comes about."""
        environment = self.environment | _in_scratch()
        process = subprocess.Popen(self.command, env=environment, process_group=0, **options)
        guard(process.pid)
        return process


def safe_environment() -> dict[str, str]:
    """This process's variables, with a PYTHONPATH that finds this package and not the folder."""
    given = os.environ.get(_PATH, "").split(os.pathsep)
    entries = [str(Path(e).absolute()) for e in given if e and not is_working_folder(e)]
    root = package_root()
    # One that is not installed was found through a path that a child need not have.
    if root not in entries and Path(root).name not in _INSTALLED:
        entries.append(root)
    kept = {name: value for name, value in os.environ.items() if name != _PATH}
    return kept | ({_PATH: os.pathsep.join(entries)} if entries else {})


def _in_scratch() -> dict[str, str]:
    """Temporary files of a child go where they are removed with this process. What torch has
    compiled stays where torch keeps it."""
    folder = scratch_folder()
    if folder is None:
        return {}
    kept = os.environ.get(_COMPILED) or str(cache_folder() / "torchinductor")
    return {"TMPDIR": folder, _COMPILED: kept}


# Waits for the first of some processes to end, then ends a group. Its own process: it must outlive
# a parent that is killed. A compiler that a killed worker had started would run on.
_GUARD = """
import os, select, signal, sys
group, *watched = map(int, sys.argv[1:])
try:
    poll = select.poll()
    for pid in watched:
        poll.register(os.pidfd_open(pid), select.POLLIN)
    poll.poll()
except OSError:
    pass
try:
    os.killpg(group, signal.SIGKILL)
except OSError:
    pass
"""


def guard(group: int) -> None:
    """End a process group as soon as its leader or this process has ended."""
    if not hasattr(os, "pidfd_open"):
        return
    words = [sys.executable, "-I", "-S", "-c", _GUARD, str(group), str(os.getpid()), str(group)]
    nowhere = subprocess.DEVNULL
    with suppress(OSError):
        guarding = subprocess.Popen(
            words, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True
        )
        if not _GUARDS:
            atexit.register(_release_guards)
        _GUARDS.append(guarding)
    # Those that have ended are waited for, so that none stays behind as a zombie.
    _GUARDS[:] = [each for each in _GUARDS if each.poll() is None]


_GUARDS: list[subprocess.Popen[bytes]] = []


def _release_guards() -> None:
    """At the end of this process they end by themselves: nobody need wait for them."""
    for each in _GUARDS:
        if each.poll() is None:
            each.returncode = 0
    _GUARDS.clear()


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a child, with all in its group, and wait for it."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(OSError):
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


_PR_SET_PDEATHSIG = 1


def tie_to(driver: int) -> None:
    """Die with the driver, a worker's parent: by the kernel's hand on Linux."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != driver:  # it died before we asked
        os._exit(1)
    # Ctrl-C reaches the whole process group; the driver decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Where memory runs out, the kernel should take this process, not the driver.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
