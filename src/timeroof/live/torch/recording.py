"""What a run leaves behind: plain data about its steps, without torch and without counting."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# As text: numpy reads its settings (threads) when it is loaded, which is the program's to do.
Ints: TypeAlias = "npt.NDArray[np.int64]"
# torch's RecordScope.
OP_SCOPE, BACKWARD_SCOPE, USER_SCOPE = 0, 1, 7


@dataclass(frozen=True)
class CleanStep:
    """A step without instruments: its duration, and the pages it touched first."""

    duration_ns: int
    faults: int
    # The program's own profiler was on.
    profiled: bool = False


@dataclass(frozen=True)
class TimedStep:
    """The ops of one step with their times, outer before inner, as columns. Threads are torch's
    numbers; `main_thread` is the one that steps. `scope` is torch's RecordScope: 0 an op, 1 a
    backward function, 7 a user's annotation."""

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
    inputs: tuple[object, ...]
    outputs: tuple[object, ...]
    # The compiled kernel that it is, by its place among the recording's.
    kernel: int | None = None
    # Where it comes from, where that is known of the op itself (compiled code).
    module: str | None = None
    phase: str | None = None
    source: str | None = None


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


class LoopOp(NamedTuple):
    """An operation of a compiled loop: the op that does the same, its format, its operands."""

    op: str
    dtype: str
    operands: int


@dataclass(frozen=True)
class KernelArgument:
    """A tensor argument of a compiled kernel: what of it is read and written, and its size."""

    read_bytes: int
    written_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel that Inductor made: the ops in it, what its loops compute, what it touches.

    `work` counts elements per operation of its loops, `products` are ops of templates.
    `symbolic`: sizes vary from call to call; all figures are for those it was compiled with.
    """

    name: str
    ops: tuple[str, ...]
    work: tuple[tuple[LoopOp, int], ...]
    products: tuple[Described, ...]
    arguments: tuple[KernelArgument, ...]
    module: str | None
    source: str | None
    phase: str | None
    symbolic: bool = False


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


_OF_STEPS = (
    "clean", "unsettled", "pace", "timed", "primitive_steps", "device_traces", "steps_seen",
)  # fmt: skip


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
    marker: str = ""
    has_torch: bool = False
    torch_version: str = ""
    threads: int | None = None
    rank: int | None = None
    uses_gpu: bool = False
    event_cost_ns: float | None = None
    event_cost_error_ns: float | None = None
    partial: str | None = None
    # Why no step could be timed or described, with the cure, where that is known.
    why_nothing: str | None = None
    why_undescribed: str | None = None
    notes: list[str] = field(default_factory=list)

    def set_aside(self) -> dict[str, object]:
        """Forget what was measured of steps; returns it, for `put_back`."""
        kept = {name: getattr(self, name) for name in _OF_STEPS}
        fresh = Recording()
        self.put_back({name: getattr(fresh, name) for name in _OF_STEPS})
        return kept

    def put_back(self, kept: dict[str, object]) -> None:
        """What was set aside."""
        for name, value in kept.items():
            setattr(self, name, value)

    def undescribed(self, why: str) -> None:
        """No step can be described: say why."""
        self.why_undescribed = why
        self.note(why)

    def note(self, text: str) -> None:
        """Keep a remark once."""
        if text not in self.notes:
            self.notes.append(text)
