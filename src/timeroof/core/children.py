"""Python processes of our own: every one is started here.

A child has the interpreter, the packages and the PYTHONPATH of its parent, and imports nothing
from the folder that it is started in: `-P` keeps that folder off the path, and entries of
PYTHONPATH that mean it are left out. A program of the user's is no child in this sense.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from timeroof.core.import_path import SAFE_VARIABLE, is_working_folder, package_root

_PATH = "PYTHONPATH"
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

    def run(self, **options: Any) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end; options are those of `subprocess.run`."""
        return subprocess.run(self.command, env=self.environment, check=False, **options)

    def start(self, **options: Any) -> subprocess.Popen[bytes]:
        """Start it; options are those of `subprocess.Popen`."""
        return subprocess.Popen(self.command, env=self.environment, **options)


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
