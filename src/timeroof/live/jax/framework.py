"""How JAX's records are read: traces with compiled programs; no step needs to be described."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from timeroof.live.calls import Counted
from timeroof.live.frameworks import FilePass, Framework
from timeroof.live.jax.defined import NO_FUNCTIONS, Functions
from timeroof.live.recording import CompiledKernel, Described, Recording, TimedStep
from timeroof.live.xla import account as accounts, work
from timeroof.live.xla.steps import XlaStep, read_steps
from timeroof.live.xla.work import in_words

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.live.accounting import Account
    from timeroof.live.memory import Traffic
    from timeroof.live.rows import Rows


@dataclass(frozen=True)
class JaxStep(XlaStep):
    """A timed step, and what the functions of its programs are defined to do."""

    functions: Functions = NO_FUNCTIONS


class Jax(Framework):
    """JAX."""

    name = "jax"

    def timed_steps(self, passes: Sequence[FilePass], folder: Path) -> list[TimedStep | None]:
        """Steps from the traces of JAX's profiler."""
        functions = Functions(one.payload for one in passes)
        return [
            JaxStep(**vars(step), functions=functions) if isinstance(step, XlaStep) else step
            for step in read_steps(passes, folder)
        ]

    def settle(self, recording: Recording) -> None:
        """The kernels of a typical step, which the compiled programs describe."""
        work.settle(recording, self.name)

    def account(self, step: TimedStep, event_cost_ns: float) -> Account:
        """Kernels of all threads first, then the runtime, compiling, dispatch."""
        if isinstance(step, XlaStep):
            return accounts.account(step, event_cost_ns)
        return super().account(step, event_cost_ns)

    def count(self, ops: Sequence[Described], compiled: Sequence[CompiledKernel]) -> list[Counted]:
        """By the instructions of the compiled programs."""
        return work.count(ops)

    def traffic(
        self, ops: Sequence[Described], counted: Sequence[Counted], phases: Sequence[str],
        machine: Machine,
    ) -> Traffic:  # fmt: skip
        """By the programs' buffer assignment."""
        return work.traffic(ops, counted, phases, machine)

    def split(
        self, table: pl.DataFrame, recording: Recording, rows: Rows, units: list[str],
        machine: Machine | None,
    ) -> tuple[pl.DataFrame, list[str]]:  # fmt: skip
        """No library's calls are seen below a kernel; rows get the program's own words."""
        return with_defined(in_words(table, recording, rows), recording, rows), []


def with_defined(table: pl.DataFrame, recording: Recording, rows: Rows) -> pl.DataFrame:
    """The table with the products that each row's function defines where it executes its own."""
    steps = [s for s in (*recording.timed, recording.block) if isinstance(s, JaxStep)]
    shares: dict[int, set[float | None]] = defaultdict(set)
    for row, op in zip(rows.of_described, recording.described, strict=True):
        if row >= 0 and steps and isinstance(op, work.Executed) and op.kernel_of is not None:
            shares[row].add(steps[0].functions.share(op.kernel_of))
    found = {row: one for row, (one, *more) in shares.items() if one is not None and not more}
    if not found or "contraction_flops" not in table.columns:
        return table
    share = pl.col("id").replace_strict(found, default=None, return_dtype=pl.Float64)
    return table.with_columns((share * pl.col("contraction_flops")).alias("defined_flops"))


def make() -> Framework:
    """What reads JAX's records."""
    return Jax()
