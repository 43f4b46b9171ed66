"""Which cases `timeroof study` is asked for: the kernels' grids and the factors' experiments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timeroof.core.errors import UsageError

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.study.case import Case, Value

# Options of `timeroof study` that are the parameters of its kernels, and how they are read.


# Longer headings are cut at 80 columns.
PANEL = "Parameters of the kernels (comma-separated values)"


def with_parameters(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command an option for every parameter of every kernel.

    The function takes them as keyword arguments of its `**parameters`.
    """
    signature = inspect.signature(function, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    more = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None,
                typer.Option(
                    f"--{name.replace('_', '-')}", metavar="LIST", help=text, rich_help_panel=PANEL
                ),
            ],
        )
        for name, text in _texts().items()
    ]
    every = [*own, *more]
    function.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in every}
    return function


def _texts() -> dict[str, str]:
    """Every parameter with its help: what it is, and which kernels have it at which base value."""
    from timeroof.study.kernels import kernels

    users: dict[str, dict[str, list[str]]] = {}
    for kernel in kernels().values():
        for parameter in kernel.parameters:
            entry = f"{kernel.name} {parameter.base}"
            if parameter.choices:
                entry = f"{kernel.name} {'|'.join(parameter.choices)}"
            users.setdefault(parameter.name, {}).setdefault(parameter.title, []).append(entry)
    return {
        name: "; ".join(f"{title}: {', '.join(names)}" for title, names in titles.items())
        for name, titles in users.items()
    }


def given_sweeps(
    kernels: Sequence[str], parameters: Mapping[str, str | None], *, quick: bool
) -> dict[str, dict[str, list[Value]] | None]:
    """The sweeps of every kernel; None where nothing is given for it.

    Where only single values are given they move the base case, and the other parameters keep
    their own sweeps. Where a parameter has several values, only such are swept.
    """
    from timeroof.study.grid import check_value, own_sweeps
    from timeroof.study.kernels import kernel as find_kernel

    given = {
        name: words(text, f"--{name.replace('_', '-')}")
        for name, text in parameters.items()
        if text is not None
    }
    found = [find_kernel(name) for name in kernels]
    for name in given:
        if not any(k.parameter(name) for k in found):
            known = {p.option: None for k in found for p in k.parameters}
            raise UsageError(
                f"{' and '.join(k.name for k in found) or 'no kernel'} "
                f"{'has' if len(found) == 1 else 'have'} no parameter"
                f" --{name.replace('_', '-')}",
                advice=f"use {', '.join(known)}" if known else "name a kernel",
            )
    sweeps: dict[str, dict[str, list[Value]] | None] = {}
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
    names: list[str], parameters: dict[str, str | None], choices: dict[str, Any], factors: list[str]
) -> dict[str, Any]:
    """Refuse what cannot be before anything is measured; the sweeps by kernel."""
    from timeroof.study.factors import FACTOR_NAMES
    from timeroof.study.grid import FRAMEWORKS, check_choice
    from timeroof.study.kernels import kernel_names

    if not names and not factors:
        raise UsageError("no kernel is named", advice=f"name some of {', '.join(kernel_names())}")
    check_choice("framework", [choices["framework"]], FRAMEWORKS)
    check_choice("factor", factors, (*FACTOR_NAMES, "all"))
    _check_fits(names, choices)
    return given_sweeps(names, parameters, quick=choices["quick"])


def own_cases(names: list[str], sweeps: dict[str, Any], choices: dict[str, Any]) -> list[Case]:
    """The cases of the kernels' own grids."""
    from timeroof.study.grid import grid_cases, missing_pass

    found: list[Case] = []
    passes = _passes(choices)
    threads = thread_counts(choices["threads"])
    for name in names:
        found += [missing_pass(name, p, choices["device"]) for p in _lacking(name, passes)]
        found += grid_cases(
            name,
            sweeps=sweeps[name],
            passes=passes,
            precisions=words(choices["precision"], "--precision"),
            caches=words(choices["cache"], "--cache"),
            threads=threads,
            variants=words(choices["variant"], "--variant"),
            quick=choices["quick"],
            framework=choices["framework"],
            device=choices["device"],
        )
    return found


def _passes(choices: dict[str, Any]) -> list[str] | None:

    return None if choices["passes"] is None else words(choices["passes"], "--pass")


def _lacking(name: str, passes: list[str] | None) -> list[str]:
    """Passes that are asked for, that another kernel has and this one has not."""
    from timeroof.study.kernels import kernel

    return [p for p in passes or () if p not in kernel(name).passes]


def _check_fits(names: list[str], choices: dict[str, Any]) -> None:
    """Refuse a pass, precision or variant that no named kernel has, and say which there are."""
    from timeroof.study.grid import CACHES, PRECISIONS, check_choice, variant_names
    from timeroof.study.kernel import PASSES
    from timeroof.study.kernels import kernel

    check_choice("cache", words(choices["cache"], "--cache"), CACHES)
    found = [kernel(name) for name in names]
    wanted: dict[str, tuple[list[str], Sequence[str], dict[str, list[str]]]] = {
        "pass": (_passes(choices) or [], PASSES, {k.name: list(k.passes) for k in found}),
        "precision": (
            words(choices["precision"], "--precision"),
            PRECISIONS,
            {k.name: list(k.precisions) for k in found},
        ),
        "variant": (
            words(choices["variant"], "--variant"),
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
    names: list[str], choices: dict[str, Any], factors: list[str], machine: Machine | None
) -> list[Case]:
    """The cases of the factors' experiments."""
    if not factors:
        return []
    from timeroof.study.case import DesignOptions
    from timeroof.study.factors import designs
    from timeroof.study.grid import all_cores

    options = DesignOptions(
        kernels=names,
        framework=choices["framework"],
        device=choices["device"],
        threads=all_cores(),
        precisions=words(choices["precision"], "--precision"),
        passes=_passes(choices) or [],
        quick=choices["quick"],
        machine=machine,
    )
    return designs(factors, options)
