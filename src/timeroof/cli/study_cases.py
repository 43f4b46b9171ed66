"""Which cases `timeroof study` is asked for: the kernels' grids and the factors' experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from timeroof.core.errors import UsageError

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.study.case import Case


def checked_sweeps(
    names: list[str], parameters: dict[str, str | None], choices: dict[str, Any], factors: list[str]
) -> dict[str, Any]:
    """Refuse what cannot be before anything is measured; the sweeps by kernel."""
    from timeroof.cli.study_parameters import given_sweeps
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
    from timeroof.cli.study_parameters import thread_counts, words
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
    from timeroof.cli.study_parameters import words

    return None if choices["passes"] is None else words(choices["passes"], "--pass")


def _lacking(name: str, passes: list[str] | None) -> list[str]:
    """Passes that are asked for, that another kernel has and this one has not."""
    from timeroof.study.kernels import kernel

    return [p for p in passes or () if p not in kernel(name).passes]


def _check_fits(names: list[str], choices: dict[str, Any]) -> None:
    """Refuse a pass, precision or variant that no named kernel has, and say which there are."""
    from timeroof.cli.study_parameters import words
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
    from timeroof.cli.study_parameters import words
    from timeroof.study.factors import designs
    from timeroof.study.grid import all_cores
    from timeroof.study.options import DesignOptions

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
