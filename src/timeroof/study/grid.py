"""Cases from a kernel's grid: one parameter at a time around the base case."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TypedDict, Unpack, cast

import msgspec

from timeroof.core.errors import UsageError
from timeroof.core.machine import Machine
from timeroof.study.case import PASSES, Cache, Case, Kernel, Parameter, Value
from timeroof.study.kernels import kernel as find_kernel, kernels
from timeroof.study.kernels.conv2d import LAYOUTS

PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "bf16-autocast", "fp16-autocast", "int8")
CACHES = ("warm", "cold")
FRAMEWORKS = ("torch", "jax", "tensorflow")
# Ways of running that only some frameworks have, whatever the kernel.
FRAMEWORK_VARIANTS = {
    "jax": ("eager", "compiled"),
    "tensorflow": ("eager", "graph", "xla", "session"),
}
# How a framework is run first, and its other ways of running the same work, where several
# frameworks are compared. Compiling takes torch longer than a quick study has.
MAIN_VARIANT = {"torch": "eager", "jax": "compiled", "tensorflow": "graph"}
_OTHER_VARIANTS = {"torch": ("cell-loop", "compile"), **FRAMEWORK_VARIANTS}
_SLOW_TO_MAKE = ("compile",)
# The layout of images that a framework's own layers have.
OWN_LAYOUT = {"tensorflow": "channels_last"}
_COMPILED = {"torch": "compile", "jax": "compiled", "tensorflow": "xla"}
# Variants that PyTorch does not have.
_ELSEWHERE = ("xla", "session")
LARGEST = 1 << 40


def all_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def grid_cases(  # noqa: PLR0913
    kernel: str, *, sweeps: Mapping[str, Sequence[Value]] | None = None,
    passes: Sequence[str] | None = None, precisions: Sequence[str] = ("fp32",),
    caches: Sequence[str] = ("warm",), threads: Sequence[int] | None = None,
    variants: Sequence[str] = (), quick: bool = False, framework: str = "torch",
    device: str = "cpu",
) -> list[Case]:  # fmt: skip
    """The cases of a kernel's grid, each once, the base case first.

    Without `sweeps` every parameter takes the kernel's own values. Given ones are the only
    ones that move; a single value moves the base case. Passes that the kernel does not have
    are left out; precisions and variants that it does not have become unsupported cases.

    >>> cases = grid_cases("conv2d", sweeps={"batch": [1, 8]}, passes=["forward"])
    >>> [c.params["batch"] for c in cases]
    [1, 8]
    """
    found = find_kernel(kernel)
    check_choice("framework", [framework], FRAMEWORKS)
    check_choice("pass", passes or (), PASSES)
    check_choice("precision", precisions, PRECISIONS)
    check_choice("cache", caches, CACHES)
    check_choice("variant", variants, variant_names())
    variants = variants_for(framework, variants, found)
    points = _points(found, sweeps, quick=quick, framework=framework)
    wanted = [p for p in (passes or found.default_passes) if p in found.passes]
    axes = product(wanted, precisions, threads or (all_cores(),), caches, variants, points)
    made = [
        Case(
            kernel=kernel, params=params, pass_name=name, precision=precision,
            cache=cast("Cache", cache), threads=count, variant=variant, framework=framework,
            device=device,
        )
        for name, precision, count, cache, variant, params in axes
    ]  # fmt: skip
    return unique(made)


def turns(cases: Iterable[Case]) -> list[list[Case]]:
    """Cases that may be compared with one another, together: they are measured in turns.

    >>> [len(turn) for turn in turns(grid_cases("gemm", sweeps={"m": [8, 16]}))]
    [2, 2]
    """
    held: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        place = (case.framework, case.device, case.kernel, case.pass_name, case.threads)
        held.setdefault(place, []).append(case)
    return list(held.values())


class Grid(TypedDict, total=False):
    """What a grid is made of."""

    sweeps: Mapping[str, Sequence[Value]] | None
    passes: Sequence[str] | None
    precisions: Sequence[str]
    caches: Sequence[str]
    threads: Sequence[int] | None
    variants: Sequence[str]
    quick: bool
    framework: str
    device: str


class Axes(TypedDict, total=False):
    """What else of a grid a factor's design moves."""

    precisions: Sequence[str]
    caches: Sequence[str]
    variants: Sequence[str]
    quick: bool


class DesignOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The choices of a user that the design of a factor respects."""

    kernels: list[str] = []
    framework: str = "torch"
    device: str = "cpu"
    # All cores that the study may use.
    threads: int = 1
    precisions: list[str] = []
    quick: bool = False
    # The machine that the cases run on, for its cache sizes and units.
    machine: Machine | None = None

    def cases(
        self, kernel: str, sweeps: Mapping[str, Sequence[Value]] | None = {}, **axes: Unpack[Axes]
    ) -> list[Case]:
        """Forward passes of a kernel's grid; by default its base case alone."""
        return grid_cases(
            kernel, sweeps=sweeps, passes=("forward",), threads=(self.threads,),
            framework=self.framework, device=self.device, **axes,
        )  # fmt: skip


def compared_cases(kernel: str, frameworks: Sequence[str], **options: Unpack[Grid]) -> list[Case]:
    """The cases of a kernel where frameworks are compared: every one in its own variants, its main
    one in both layouts. A quick study sweeps the forward pass of the main variant, and takes the
    base case of everything else."""
    quick, given = options.get("quick", False), options.get("sweeps") or {}
    base = {name: values for name, values in given.items() if len(values) == 1}
    layouts = find_kernel(kernel).parameter("layout") is not None and "layout" not in given
    found: list[Case] = []
    for framework in frameworks:
        every = compared_variants(framework, find_kernel(kernel), quick=quick)
        swept: Grid = {**options, "framework": framework, "variants": every}
        if quick:
            alone: Grid = {**swept, "sweeps": base}
            found += grid_cases(kernel, **alone)
            swept = {**swept, "variants": every[:1], "passes": ["forward"]}
        found += grid_cases(kernel, **swept)
        if layouts:
            both: Grid = {**swept, "variants": every[:1], "sweeps": {**base, "layout": LAYOUTS}}
            found += grid_cases(kernel, **both)
    return unique(found)


def compared_variants(framework: str, kernel: Kernel, *, quick: bool) -> list[str]:
    """Ways in which a framework runs a kernel where frameworks are compared, the main one first."""
    others = [v for v in _OTHER_VARIANTS[framework] if not (quick and v in _SLOW_TO_MAKE)]
    there = [v for v in others if framework in FRAMEWORK_VARIANTS or v in kernel.variants]
    return list(dict.fromkeys([MAIN_VARIANT[framework], *there]))


def _points(
    kernel: Kernel, sweeps: Mapping[str, Sequence[Value]] | None, *, quick: bool, framework: str
) -> list[dict[str, Value]]:
    given = own_sweeps(kernel, quick=quick) if sweeps is None else sweeps
    checked = {name: _checked(kernel, name, values) for name, values in given.items()}
    own = OWN_LAYOUT.get(framework)
    base = kernel.base | ({"layout": own} if own and kernel.parameter("layout") else {})
    base |= {name: v[0] for name, v in checked.items() if len(v) == 1}
    swept = {name: values for name, values in checked.items() if len(values) > 1}
    points = [base] if sweeps is None or not swept else []
    points += [base | {name: value} for name, values in swept.items() for value in values]
    for point in points:
        reason = kernel.refuse(point)
        if reason is not None:
            raise UsageError(f"{kernel.name}: {reason}", advice="change one of the two")
    return points


def own_sweeps(kernel: Kernel, *, quick: bool) -> dict[str, tuple[Value, ...]]:
    """The kernel's own values of the parameters that it sweeps."""
    chosen = {p.name: p.quick if quick else p.full for p in kernel.parameters}
    return {name: values for name, values in chosen.items() if len(values) > 1}


def _checked(kernel: Kernel, name: str, values: Sequence[Value]) -> list[Value]:
    parameter = kernel.parameter(name)
    if parameter is None:
        raise UsageError(
            f"{kernel.name} has no parameter {name!r}",
            advice=f"it has {', '.join(p.name for p in kernel.parameters)}",
        )
    return [check_value(parameter, value) for value in dict.fromkeys(values)]


def check_value(parameter: Parameter, value: Value) -> Value:
    """A value that a parameter may have: one of its choices, or a number from 1."""
    if parameter.choices:
        if value not in parameter.choices:
            raise UsageError(
                f"{parameter.name} cannot be {value!r}",
                advice=f"use one of {', '.join(parameter.choices)}",
            )
        return value
    try:
        number = int(value)
    except ValueError:
        number = 0
    if not 1 <= number <= LARGEST:
        raise UsageError(
            f"{parameter.name} cannot be {str(value)[:40]!r}",
            advice=f"use whole numbers from 1 to {LARGEST}",
        )
    return number


def check_choice(what: str, values: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a word that is not known, and say which are."""
    for value in values:
        if value not in known:
            raise UsageError(f"no {what} is called {value!r}", advice=f"use {', '.join(known)}")


def variants_for(framework: str, asked: Sequence[str], kernel: Kernel) -> Sequence[str]:
    """The variants of a framework that were asked for; all of its own where none was.

    PyTorch has kernels' own variants.
    """
    own = FRAMEWORK_VARIANTS.get(framework)
    named = [variant_of(framework, v) for v in asked]
    if own is not None:
        return [v for v in named if v in own] or ([] if asked else own)
    there = [v for v in named if v not in _ELSEWHERE]
    return there or ([] if asked else ["eager"])


def variant_of(framework: str, name: str) -> str:
    """What a framework calls a variant: each has its own word for a function that is compiled.

    >>> variant_of("torch", "compiled"), variant_of("tensorflow", "compiled")
    ('compile', 'xla')
    """
    return _COMPILED.get(framework, name) if name in ("compiled", "compile") else name


def variant_names() -> list[str]:
    """All variants that some kernel or framework has."""
    own = [v for variants in FRAMEWORK_VARIANTS.values() for v in variants]
    return list(dict.fromkeys([*(v for k in kernels().values() for v in k.variants), *own]))


def unique(cases: Iterable[Case]) -> list[Case]:
    """Every case once, in order."""
    return list({case.key("", ""): case for case in cases}.values())
