"""What building a profile asks of a framework; each answer has a neutral form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from timeroof.live.recording import CompiledKernel, Described, Recording, TensorSeen, TimedStep

if TYPE_CHECKING:
    import polars as pl

    from timeroof.core.machine import Machine
    from timeroof.core.profile import Wait
    from timeroof.live.accounting import Account
    from timeroof.live.calls import Counted
    from timeroof.live.memory import Traffic
    from timeroof.live.rows import Rows


@dataclass(frozen=True)
class Context:
    """The phase and, where they are known, the module and the line of an op."""

    phase: str
    module: str | None
    source: str | None = None
    # Known from a module around it or an autograd node, not from an annotation of the program's.
    is_firm: bool = False


class FilePass(NamedTuple):
    """A timed pass whose events are in a file: what the instruments say of it, and its clocks."""

    number: int
    payload: Mapping[str, Any]
    faults: int = 0
    clocks: Any = None


class Framework:
    """How the record of a framework's instruments is read.

    A framework whose instruments describe ops as `timeroof_recorder.instruments` says
    needs nothing of its own here.
    """

    name = ""

    def described(
        self, payload: Mapping[str, Any], kernels: Sequence[CompiledKernel], folder: Path
    ) -> list[Described]:
        """The ops of a described step from what the instruments wrote."""
        return [_described(op) for op in payload.get("ops", ())]

    def timed_steps(self, passes: Sequence[FilePass], folder: Path) -> list[TimedStep | None]:
        """Timed passes whose events are in files; None where one cannot be read."""
        return [None] * len(passes)

    def settle(self, recording: Recording) -> None:
        """Whatever the timed steps of a recording say beyond times: what they computed."""

    def account(self, step: TimedStep, event_cost_ns: float) -> Account:
        """Every nanosecond of a timed step on somebody's account."""
        from timeroof.live.accounting import account

        return account(step, event_cost_ns)

    def waits(self, steps: Sequence[TimedStep]) -> list[Wait]:
        """The lines in which timed steps wait for results."""
        return []

    def traffic(
        self, ops: Sequence[Described], counted: Sequence[Counted], phases: Sequence[str],
        machine: Machine,
    ) -> Traffic:  # fmt: skip
        """What of the described ops' bytes must pass each level of a machine."""
        from timeroof.live.memory import traffic

        return traffic(ops, counted, phases, machine)

    def contexts(self, ops: list[Described]) -> list[Context]:
        """Phase, module and line of every op."""
        return [Context(op.phase or "other", op.module, op.source) for op in ops]

    def count(self, ops: Sequence[Described], compiled: Sequence[CompiledKernel]) -> list[Counted]:
        """The cost of every op."""
        from timeroof.live.calls import count_calls

        return count_calls(ops, compiled)

    def split(
        self, table: pl.DataFrame, recording: Recording, rows: Rows, units: list[str],
        machine: Machine | None,
    ) -> tuple[pl.DataFrame, list[str]]:  # fmt: skip
        """The table with calls of libraries split off their ops, and notes."""
        return table, []

    def is_unseen_kernel(self, name: str) -> bool:
        """Whether an op without an amount is a compiled kernel that nobody could look at."""
        return False


def _described(op: Sequence[Any]) -> Described:
    name, parent, thread, sequence, kind, inputs, outputs, phase, module, source, formula = op
    return Described(
        name=name, parent=parent, thread=thread, sequence=sequence, scope=kind, schema="",
        inputs=_values(inputs), outputs=_values(outputs), phase=phase, module=module,
        source=source, op=formula,
    )  # fmt: skip


def _values(values: Sequence[object]) -> tuple[object, ...]:
    return tuple(_value(value) for value in values)


def _value(value: object) -> object:
    if not isinstance(value, (tuple, list)):
        return value
    if value and value[0] == "tensor" and len(value) == 8:
        _, shape, dtype, strides, *rest = value
        return TensorSeen(tuple(shape), dtype, tuple(strides), *rest)
    return _values(value)


# Frameworks that have a folder here, whose module has `make()`.
HOMES = {
    "torch": "timeroof.live.torch",
    "jax": "timeroof.live.jax",
    "tensorflow": "timeroof.live.tensorflow",
}


def framework_of(name: str | None) -> Framework:
    """What reads the records of a framework."""
    if name not in HOMES:
        return Framework()
    made: Framework = import_module(HOMES[str(name)]).make()
    return made
