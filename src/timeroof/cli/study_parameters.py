"""Options of `timeroof study` that are the parameters of its kernels, and how they are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timeroof.core.errors import UsageError

if TYPE_CHECKING:
    from timeroof.study.case import Value

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
