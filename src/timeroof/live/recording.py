"""What a run leaves behind: plain data about its steps, of whatever framework, without counting."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from timeroof.core.profile import StepKind
from timeroof_recorder.seen import (
    BACKWARD_SCOPE,
    OP_SCOPE,
    USER_SCOPE,
    CompiledKernel,
    Described,
    ExternCall,
    GraphSeen,
    KernelArgument,
    LoopOp,
    TensorSeen,
)

__all__ = [
    "BACKWARD_SCOPE", "OP_SCOPE", "USER_SCOPE", "CleanStep", "CompiledKernel", "Described",
    "EventName", "ExternCall", "GraphSeen", "Ints", "KernelArgument", "LoopOp", "PrimitiveSeen",
    "PrimitiveStep", "Recording", "TensorSeen", "TimedStep", "is_meta", "leaves", "tensors_in",
]  # fmt: skip

Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CleanStep:
    """A step without instruments: its duration, and the pages it touched first."""

    duration_ns: int
    faults: int
    # The program's own profiler was on.
    profiled: bool = False
    # How long the stepping thread waited for a CPU; None where nobody looked.
    waited_ns: int | None = None


class EventName(NamedTuple):
    """What the instruments say of all events of a name: the idle cause that their own time goes to
    (None: they are ops), the same where autograd numbered them, and a phase that they open."""

    cause: str | None = None
    cause_if_numbered: str | None = None
    phase: str | None = None


@dataclass(frozen=True)
class TimedStep:
    """The ops of one step with their times, outer before inner, as columns. Threads are the
    framework's numbers; `main_thread` is the one that steps. `scope` is 0 for an op, 1 for a
    backward function, 7 for a region that the program named. `told` says per name what it is."""

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
    # Pages that were touched first, how long the stepping thread slept, and how often (None: not
    # counted on this system).
    faults: int = 0
    asleep_ns: int = 0
    sleeps: int | None = None
    # Which of the program's steps it is, from 1 on.
    number: int = 0
    told: tuple[EventName, ...] = ()
    # What the stepping thread waited for a CPU, and what other threads did, in the step.
    waited_ns: int = 0
    others_waited_ns: int = 0
    # Where events bear their identity: the place of the described op of each, or -1.
    described: Ints | None = None

    @property
    def duration_ns(self) -> int:
        """The step's duration on the clock of its events."""
        return self.finish_ns - self.begin_ns

    def __len__(self) -> int:
        return len(self.name)


def leaves(values: object) -> list[object]:
    """What is in nested tuples."""
    if isinstance(values, tuple):
        return [leaf for value in values for leaf in leaves(value)]
    return [values]


def tensors_in(values: object) -> list[TensorSeen]:
    """The tensors among nested values."""
    return [leaf for leaf in leaves(values) if isinstance(leaf, TensorSeen)]


def is_meta(op: Described) -> bool:
    """Whether an op only works out shapes: its results (or all it has) are on the meta device.
    Numbers among its arguments are tensors of the CPU's."""
    found = tensors_in(op.outputs) or tensors_in(op.inputs)
    return bool(found) and all(tensor.device.startswith("meta") for tensor in found)


@dataclass(frozen=True)
class PrimitiveSeen:
    """A oneDNN primitive: its line in words, when it began (epoch) and how long it took."""

    words: tuple[str, ...]
    start_ns: int
    duration_ns: int


@dataclass
class PrimitiveStep:
    """What oneDNN printed in one step, beside its ops; it is read when the program has ended."""

    timed: TimedStep
    lines: list[bytes]


@dataclass
class Recording:
    """Everything that was seen of a program."""

    clean: list[CleanStep] = field(default_factory=list)
    # Steps without instruments in warm-up or right after instruments, until a clean one is seen.
    unsettled: list[CleanStep] = field(default_factory=list)
    # Seconds of the fixed work that shows the machine's own pace.
    pace: list[float] = field(default_factory=list)
    timed: list[TimedStep] = field(default_factory=list)
    # Ops described while being timed (a block that ran once): the times are perturbed.
    block: TimedStep | None = None
    described: list[Described] = field(default_factory=list)
    primitive_steps: list[PrimitiveStep] = field(default_factory=list)
    compiled: list[CompiledKernel] = field(default_factory=list)
    # Traces of single steps with the kernels of a device, as torch writes them.
    device_traces: list[Path] = field(default_factory=list)
    # Whether rows are told apart by the line of the program that they come from.
    with_lines: bool = False
    steps_seen: int = 0
    # What ends a step: its kind (optimizer, forward, manual, window), and in words.
    marker: str = ""
    mark: str = ""
    # All kinds of steps of the run, and the one that this recording is of.
    kinds: list[StepKind] = field(default_factory=list)
    kind: str = "step"
    # Seconds by which profiling lengthened the run.
    profiling_s: float | None = None
    frameworks: list[tuple[str, str]] = field(default_factory=list)
    threads: int | None = None
    rank: int | None = None
    # The share of their time that the program's threads waited for a CPU.
    waiting_share: float | None = None
    # The part of that in which other threads of the program itself had the CPUs.
    own_waiting: float | None = None
    uses_gpu: bool = False
    # What recording an event costs of a CPU's time, and how much longer that took beside others.
    event_cost_ns: float | None = None
    event_stretch: float = 1.0
    event_cost_error_ns: float | None = None
    partial: str | None = None
    # Why no step could be timed or described, with the cure, where that is known.
    why_nothing: str | None = None
    why_undescribed: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def framework(self) -> str | None:
        """The framework whose instruments were in place."""
        return self.frameworks[0][0] if self.frameworks else None

    def undescribed(self, why: str) -> None:
        """No step can be described: say why."""
        self.why_undescribed = why
        self.note(why)

    def note(self, text: str) -> None:
        """Keep a remark once."""
        if text not in self.notes:
            self.notes.append(text)
