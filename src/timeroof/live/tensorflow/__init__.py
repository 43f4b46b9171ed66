"""How TensorFlow's records are read: traces with graphs and XLA's programs, eager ops described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from timeroof.live.calls import Counted
from timeroof.live.frameworks import FilePass, Framework
from timeroof.live.recording import CompiledKernel, Described, Recording, TimedStep
from timeroof.live.tensorflow import work
from timeroof.live.tensorflow.steps import tensorflow_steps
from timeroof.live.xla import account as accounts
from timeroof.live.xla.steps import XlaStep
from timeroof.live.xla.work import in_words

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.core.profile import Wait
    from timeroof.live.accounting import Account
    from timeroof.live.memory import Traffic
    from timeroof.live.rows import Rows


class Tensorflow(Framework):
    """TensorFlow."""

    name = "tensorflow"

    def described(
        self, payload: Mapping[str, Any], kernels: Sequence[CompiledKernel], folder: Path
    ) -> list[Described]:
        """The eager ops of a described step."""
        return work.eager_described(payload.get("eager", ()))

    def timed_steps(self, passes: Sequence[FilePass], folder: Path) -> list[TimedStep | None]:
        """Steps from the traces of TensorFlow's profiler."""
        return tensorflow_steps(passes, folder)

    def settle(self, recording: Recording) -> None:
        """The ops of a typical step."""
        work.settle(recording)

    def account(self, step: TimedStep, event_cost_ns: float) -> Account:
        """Kernels of all threads first, then data, the runtime, compiling, dispatch."""
        if isinstance(step, XlaStep):
            return accounts.account(step, event_cost_ns)
        return super().account(step, event_cost_ns)

    def waits(self, steps: Sequence[TimedStep]) -> list[Wait]:
        """The lines that read arrays or wait for them."""
        return accounts.waits_of(steps)

    def count(self, ops: Sequence[Described], compiled: Sequence[CompiledKernel]) -> list[Counted]:
        """By formulas of ops and by instructions of compiled programs."""
        return work.count(ops)

    def traffic(
        self, ops: Sequence[Described], counted: Sequence[Counted], phases: Sequence[str],
        machine: Machine,
    ) -> Traffic:  # fmt: skip
        """By the ops' tensors, and by the programs' buffer assignment."""
        return work.traffic(ops, counted, phases, machine)

    def split(
        self, table: pl.DataFrame, recording: Recording, rows: Rows, units: list[str],
        machine: Machine | None,
    ) -> tuple[pl.DataFrame, list[str]]:  # fmt: skip
        """No library's calls are seen below a kernel; rows get the program's own words."""
        return in_words(table, recording, rows), []


def make() -> Framework:
    """What reads TensorFlow's records."""
    return Tensorflow()
