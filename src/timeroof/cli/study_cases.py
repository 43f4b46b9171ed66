"""Which cases `timeroof study` is asked for: the kernels' grids and the factors' experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timeroof.cli.options import PlainCommand
from timeroof.core.errors import UsageError

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.study.case import Case, Value

Sweeps = dict[str, "dict[str, list[Value]] | None"]


@dataclass(frozen=True)
class Choices:
    """What the command line says besides kernels and their parameters."""

    framework: str
    device: str
    precision: str
    passes: str | None
    cache: str
    threads: str
    variant: str
    quick: bool


class StudyCommand(PlainCommand):
    """Parameters of kernels are given with `--set`; one that is typed as an option is told so."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse parameters that are typed as options, with the words to type instead."""
        _refuse_options(args)
        return super().parse_args(ctx, args)


def _refuse_options(args: Sequence[str]) -> None:
    from timeroof.study.kernels import kernels

    known = {p.name for k in kernels().values() for p in k.parameters}
    for place, word in enumerate(args):
        typed, is_joined, values = word.partition("=")
        name = typed.removeprefix("--").replace("-", "_")
        if not typed.startswith("--") or name not in known:
            continue
        if not is_joined:
            values = next(iter(args[place + 1 : place + 2]), "")
        text = f"{name}={values}" if values and not values.startswith("-") else f"{name}=…"
        raise UsageError(f"{typed} is a parameter of kernels", advice=f"write --set {text}")


def parameter_lines(names: Sequence[str]) -> list[str]:
    """The parameters of kernels, of all where none is named: base values, and what is swept."""
    from timeroof.study.kernels import kernel, kernel_names

    lines = []
    for name in names or kernel_names():
        for parameter in kernel(name).parameters:
            values = parameter.choices or parameter.full or (parameter.base,)
            shown = f"{parameter.name}={','.join(map(str, values))}"
            lines.append(f"{name:12} {shown:40} base {parameter.base}")
    return lines


def parse_sets(texts: Sequence[str]) -> dict[str, list[str]]:
    """Values by parameter, as `--set` gives them; one name cannot be given twice.

    >>> parse_sets(["batch=1,8", "time-steps=16"])
    {'batch': ['1', '8'], 'time_steps': ['16']}
    """
    given: dict[str, list[str]] = {}
    for text in texts:
        typed, equals, values = text.partition("=")
        name = typed.strip().replace("-", "_")
        if not name or not equals:
            raise UsageError(
                f"--set {text!r} does not name a parameter and its values",
                advice="write for example --set batch=1,8; --set list prints all parameters",
            )
        if name in given:
            raise UsageError(
                f"--set {name} is given twice", advice=f"write --set {name}=V,V with all values"
            )
        given[name] = words(values, f"--set {name}")
    return given


def given_sweeps(
    kernels: Sequence[str], given: Mapping[str, Sequence[str]], *, quick: bool
) -> Sweeps:
    """The sweeps of every kernel; None where nothing is given for it.

    Where only single values are given they move the base case, and the other parameters keep
    their own sweeps. Where a parameter has several values, only such are swept.
    """
    from timeroof.study.grid import check_value, own_sweeps
    from timeroof.study.kernels import kernel as find_kernel

    found = [find_kernel(name) for name in kernels]
    for name in given:
        if not any(k.parameter(name) for k in found):
            known = dict.fromkeys(p.name for k in found for p in k.parameters)
            has = "has" if len(found) == 1 else "have"
            raise UsageError(
                f"{' and '.join(k.name for k in found)} {has} no parameter {name!r}"
                if found
                else f"--set {name} needs a kernel that has it",
                advice=f"use {', '.join(known)}" if known else "name a kernel",
            )
    sweeps: Sweeps = {}
    for kernel in found:
        own: dict[str, list[Value]] = {
            p.name: [check_value(p, v) for v in given[p.name]]
            for p in kernel.parameters
            if p.name in given
        }
        if own and all(len(values) == 1 for values in own.values()):
            rest = own_sweeps(kernel, quick=quick)
            own = {n: list(v) for n, v in rest.items() if n not in own} | own
        sweeps[kernel.name] = own or None
    return sweeps


def words(text: str, option: str = "the list") -> list[str]:
    """A list as it is typed.

    >>> words("16, 32,64")
    ['16', '32', '64']
    """
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found:
        raise UsageError(
            f"{option} has no value in {text!r}",
            advice="give one or more with commas, or leave the option out",
        )
    return list(dict.fromkeys(found))


def thread_counts(text: str | None) -> list[int]:
    """Numbers of threads; `all` is one per core.

    >>> thread_counts("1")
    [1]
    """
    from timeroof.study.grid import all_cores

    counts, most = [], all_cores()
    for word in words("all" if text is None else text, "--threads"):
        number = most if word == "all" else _count(word)
        if not 1 <= number <= most:
            raise UsageError(
                f"--threads cannot be {word[:40]!r}",
                advice=f"use numbers from 1 to {most}, the cores that this process may use, or all",
            )
        counts.append(number)
    return list(dict.fromkeys(counts))


def _count(word: str) -> int:
    """A typed number, 0 where it is none."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else 0


def checked_sweeps(
    names: list[str], sets: list[str], choices: Choices, factors: list[str]
) -> Sweeps:
    """Refuse what cannot be before anything is measured; the sweeps by kernel."""
    from timeroof.study.factors import FACTOR_NAMES
    from timeroof.study.grid import FRAMEWORKS, check_choice
    from timeroof.study.kernels import kernel_names

    if not names and not factors:
        raise UsageError("no kernel is named", advice=f"name some of {', '.join(kernel_names())}")
    check_choice("framework", [choices.framework], FRAMEWORKS)
    check_choice("factor", factors, (*FACTOR_NAMES, "all"))
    _check_fits(names, choices)
    return given_sweeps(names, parse_sets(sets), quick=choices.quick)


def own_cases(names: list[str], sweeps: Sweeps, choices: Choices) -> list[Case]:
    """The cases of the kernels' own grids."""
    from timeroof.study.grid import grid_cases, missing_pass

    found: list[Case] = []
    passes = _passes(choices)
    threads = thread_counts(choices.threads)
    for name in names:
        found += [missing_pass(name, p, choices.device) for p in _lacking(name, passes)]
        found += grid_cases(
            name,
            sweeps=sweeps[name],
            passes=passes,
            precisions=words(choices.precision, "--precision"),
            caches=words(choices.cache, "--cache"),
            threads=threads,
            variants=words(choices.variant, "--variant"),
            quick=choices.quick,
            framework=choices.framework,
            device=choices.device,
        )
    return found


def _passes(choices: Choices) -> list[str] | None:
    return None if choices.passes is None else words(choices.passes, "--pass")


def _lacking(name: str, passes: list[str] | None) -> list[str]:
    """Passes that are asked for, that another kernel has and this one has not."""
    from timeroof.study.kernels import kernel

    return [p for p in passes or () if p not in kernel(name).passes]


def _check_fits(names: list[str], choices: Choices) -> None:
    """Refuse a pass, precision or variant that no named kernel has, and say which there are."""
    from timeroof.study.grid import CACHES, PRECISIONS, check_choice, variant_names
    from timeroof.study.kernel import PASSES
    from timeroof.study.kernels import kernel

    check_choice("cache", words(choices.cache, "--cache"), CACHES)
    found = [kernel(name) for name in names]
    wanted: dict[str, tuple[list[str], Sequence[str], dict[str, list[str]]]] = {
        "pass": (_passes(choices) or [], PASSES, {k.name: list(k.passes) for k in found}),
        "precision": (
            words(choices.precision, "--precision"),
            PRECISIONS,
            {k.name: list(k.precisions) for k in found},
        ),
        "variant": (
            words(choices.variant, "--variant"),
            variant_names(),
            {k.name: list(k.variants) for k in found},
        ),
    }
    for what, (values, known, there) in wanted.items():
        check_choice(what, values, known)
        for value in values:
            if there and not any(value in have for have in there.values()):
                has = "has" if len(there) == 1 else "have"
                raise UsageError(
                    f"{' and '.join(there)} {has} no {what} {value!r}",
                    advice="; ".join(f"{n} has {', '.join(have)}" for n, have in there.items()),
                )


def designed_cases(
    names: list[str], choices: Choices, factors: list[str], machine: Machine | None
) -> list[Case]:
    """The cases of the factors' experiments."""
    if not factors:
        return []
    from timeroof.study.case import DesignOptions
    from timeroof.study.factors import designs
    from timeroof.study.grid import all_cores

    options = DesignOptions(
        kernels=names,
        framework=choices.framework,
        device=choices.device,
        threads=all_cores(),
        precisions=words(choices.precision, "--precision"),
        passes=_passes(choices) or [],
        quick=choices.quick,
        machine=machine,
    )
    return designs(factors, options)
