"""What every format's file provides: a name, a sniff and a read; how it says what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from timeroof.core.profile import Profile
from timeroof.read.opening import Input

Progress = Callable[[str, float], None]


def silent(what: str, share: float) -> None:
    """A progress function that says nothing."""


@dataclass(frozen=True)
class ReadOptions:
    """What a reader may be told."""

    progress: Progress = field(default=silent)
    # A second input that lends a trace its shapes (an ExecutionTrace beside a Kineto trace).
    companions: tuple[Input, ...] = ()
    # What the caller knows of the chip where the file does not say it: a compute capability
    # ("7.0", "gfx942") or an architecture's name ("Volta").
    architecture: str | None = None


class Format(Protocol):
    """One profiler format. A format's module ends in ``FORMAT = …``; formats.py lists them all.

    A format that makes one profile of several files (a workload folder, one metric per file)
    is listed with ``folders=True``: folders and archives are then offered to it whole, as one
    Input with many entries. All others see one entry at a time, and several files of theirs
    are taken for ranks of one run.
    """

    @property
    def name(self) -> str:
        """Short stable name, as `--format` takes it: "kineto", "ncu-csv", "nsys-sqlite"."""
        ...

    @property
    def title(self) -> str:
        """What people call it."""
        ...

    def sniff(self, found: Input) -> bool:
        """Whether the content (never the file's name) is of this format; cheap, never raises."""
        ...

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile that the input holds, or an InputError that says what is wrong with it."""
        ...
