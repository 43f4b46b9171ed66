"""What a run leaves behind: plain data about its steps, without torch and without counting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CleanStep:
    """A step without instruments: its duration, and the pages it touched first."""

    duration_ns: int
    faults: int
    # The program's own profiler was on.
    profiled: bool = False


@dataclass(frozen=True)
class TimedStep:
    """The ops of one step with their times, outer before inner, as columns.

    Threads are torch's numbers; `main_thread` is the one that steps. `scope` is torch's
    RecordScope: 0 an op, 1 a backward function, 7 a user's annotation.
    """

    names: tuple[str, ...]
    name: Ints
    start_ns: Ints
    end_ns: Ints
    thread: Ints
    sequence: Ints
    scope: Ints
    begin_ns: int
    finish_ns: int
    main_thread: int

    @property
    def duration_ns(self) -> int:
        """The step's duration on the clock of its events."""
        return self.finish_ns - self.begin_ns

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True)
class Described:
    """One op of a described step: who called it, with which tensors, and what it returned."""

    name: str
    parent: int | None
    thread: int
    sequence: int
    scope: int
    schema: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


@dataclass(frozen=True)
class TensorSeen:
    """A tensor as it was passed: shape, torch's name of its format, and its place in memory."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    storage: int
    offset: int
    item_bytes: int
    device: str


@dataclass(frozen=True)
class PrimitiveSeen:
    """A oneDNN primitive: its line in words, when it began (epoch) and how long it took."""

    words: tuple[str, ...]
    start_ns: int
    duration_ns: int


@dataclass
class PrimitiveStep:
    """The primitives of one step beside its ops."""

    timed: TimedStep
    primitives: list[PrimitiveSeen]


@dataclass
class Recording:
    """Everything that was seen of a program."""

    clean: list[CleanStep] = field(default_factory=list)
    timed: list[TimedStep] = field(default_factory=list)
    # Pages touched first in timed steps, for comparison with the clean ones'.
    timed_faults: list[int] = field(default_factory=list)
    # Ops described while being timed (a block that ran once): the times are perturbed.
    block: TimedStep | None = None
    described: list[Described] = field(default_factory=list)
    primitive_steps: list[PrimitiveStep] = field(default_factory=list)
    steps_seen: int = 0
    marker: str = ""
    has_torch: bool = False
    torch_version: str = ""
    threads: int | None = None
    rank: int | None = None
    uses_gpu: bool = False
    event_cost_ns: float | None = None
    event_cost_error_ns: float | None = None
    partial: str | None = None
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Keep a remark once."""
        if text not in self.notes:
            self.notes.append(text)
