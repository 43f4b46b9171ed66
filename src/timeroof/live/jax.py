"""How JAX's records are read: traces with compiled programs, so that no step needs to be described.

Beside what its programs execute, a function is defined to do products: both are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from timeroof.core.errors import trace_ignored
from timeroof.live.calls import Counted
from timeroof.live.frameworks import FilePass, Framework
from timeroof.live.recording import CompiledKernel, Described, Recording, TimedStep
from timeroof.live.xla import account as accounts, work
from timeroof.live.xla.steps import Kernel, XlaStep, read_steps
from timeroof.live.xla.work import in_words
from timeroof.work.call import UncountableError, parse_dtype
from timeroof.work.hlo.cost import Program
from timeroof.work.jaxpr import algorithm_of

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.core.profile import Wait
    from timeroof.live.accounting import Account
    from timeroof.live.memory import Traffic
    from timeroof.live.rows import Rows

# Defined work per executed of products by their FLOPs.
Shares = dict[float, float]
Sizes = tuple[tuple[tuple[int, ...], str | None], ...]


class _Axes(NamedTuple):
    """Which dimensions of a convolution are which."""

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


@dataclass(frozen=True)
class Function:
    """A function that was lowered: its arguments, and how often it does a product of so many
    FLOPs."""

    arguments: Sizes
    products: Mapping[float, float]


class Functions:
    """The functions of a process by the name of their compiled programs."""

    def __init__(self, payloads: Iterable[Mapping[str, Any]]) -> None:
        self._named: dict[str, list[Function]] = defaultdict(list)
        self._shares: dict[int, Shares | None] = {}
        for payload in payloads:
            for name, arguments, jaxprs in payload.get("defined", ()):
                products = _products(jaxprs)
                if products is not None:
                    sizes = tuple((tuple(dims), parse_dtype(dtype)) for dims, dtype in arguments)
                    self._named[name].append(Function(sizes, products))

    def share(self, kernel: Kernel) -> float | None:
        """Defined products per executed one of a kernel; None where that is not known: loops that
        data end, functions of one name, several devices."""
        if kernel.linked is None or kernel.device or kernel.is_whole or not self._named:
            return None
        program, instruction = kernel.linked
        if id(program) not in self._shares:
            self._shares[id(program)] = self._shares_of(program)
        shares = self._shares[id(program)]
        executed = program.cost(instruction).contraction_flops
        return None if shares is None or executed is None else shares.get(executed, 1.0)

    def _shares_of(self, program: Program) -> Shares | None:
        alike = self._named.get(program.module.name.rstrip("_"), [])
        fitting = [one for one in alike if one.arguments == _arguments(program)] or alike
        total = program.total()
        if total.endless or total.cost.contraction is None:
            return None
        if not fitting or any(one.products != fitting[0].products for one in fitting):
            return None
        return _compared(total.products, fitting[0].products)


def _compared(executed: Mapping[float, float], defined: Mapping[float, float]) -> Shares:
    """Defined work per executed by the size of a product. What both do is the same; what only the
    program does stands for what only the function does.

    >>> _compared({8.0: 2, 320.0: 1}, {8.0: 2, 10.0: 1})
    {8.0: 1.0, 320.0: 0.03125}
    """
    common = {flops: min(n, defined.get(flops, 0.0)) for flops, n in executed.items() if flops}
    more = sum(flops * (executed[flops] - n) for flops, n in common.items())
    wanted = sum(flops * (n - common.get(flops, 0.0)) for flops, n in defined.items())
    rest = wanted / more if more else 1.0
    return {
        flops: (n + (executed[flops] - n) * rest) / executed[flops] for flops, n in common.items()
    }


NO_FUNCTIONS = Functions(())


def _arguments(program: Program) -> Sizes:
    entry = program.module.computations.get(program.module.entry)
    given = entry.instructions.values() if entry is not None else ()
    found = sorted((i for i in given if i.opcode == "parameter"), key=lambda i: i.parameter)
    return tuple((i.shape.dims, i.shape.format) for i in found)


def _products(jaxprs: Sequence[Sequence[Any]]) -> Mapping[float, float] | None:
    """The products of the outermost of a function's jaxprs, which is the last."""
    made: list[Any] = []
    try:
        for equations in jaxprs:
            made.append(SimpleNamespace(eqns=[_equation(one, made) for one in equations]))
        found = algorithm_of(made[-1])
        return None if found.contraction_flops is None else dict(found.products)
    except (UncountableError, IndexError, KeyError, TypeError, ValueError, RecursionError):
        trace_ignored("the products of a function could not be counted")
        return None


def _equation(plain: Sequence[Any], made: Sequence[Any]) -> Any:
    name, inputs, outputs, numbers, inner = plain
    params: dict[str, Any] = dict(numbers)
    if name == "conv_general_dilated":
        params["dimension_numbers"] = _Axes(*numbers["dimension_numbers"])
    if "mesh" in numbers:
        params["mesh"] = SimpleNamespace(size=numbers["mesh"])
    if "grid" in numbers:
        params["grid_mapping"] = SimpleNamespace(grid=numbers["grid"])
    for key, places in inner.items():
        jaxprs = [made[n] for n in places]
        params[key] = jaxprs if key == "branches" else jaxprs[0]
    values = [
        [SimpleNamespace(shape=tuple(dims), dtype=dtype) for dims, dtype in group]
        for group in (inputs, outputs)
    ]
    primitive = SimpleNamespace(name=name)
    return SimpleNamespace(primitive=primitive, params=params, invars=values[0], outvars=values[1])


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
        eager = {name for one in passes for name in one.payload.get("eager", ())}
        return [
            JaxStep(**(vars(step) | {"kernels": _told_eager(step, eager)}), functions=functions)
            if isinstance(step, XlaStep)
            else step
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

    def waits(self, steps: Sequence[TimedStep]) -> list[Wait]:
        """The lines that read arrays or wait for them."""
        return accounts.waits_of(steps)

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


def _told_eager(step: XlaStep, names: set[str]) -> dict[int, Kernel]:
    """A step's kernels; of programs of these names they are ops that run one by one."""
    return {
        place: replace(kernel, is_eager=True)
        if kernel.linked is not None and kernel.linked[0].module.name.rstrip("_") in names
        else kernel
        for place, kernel in step.kernels.items()
    }


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
