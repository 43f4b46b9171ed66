"""Which cases `timeroof study` is asked for: the kernels' grids and the factors' experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timeroof.errors import UsageError

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
    return given_sweeps(names, parameters, quick=choices["quick"])


def own_cases(names: list[str], sweeps: dict[str, Any], choices: dict[str, Any]) -> list[Case]:
    """The cases of the kernels' own grids."""
    from timeroof.cli.study_parameters import thread_counts, words
    from timeroof.study.grid import grid_cases

    found: list[Case] = []
    for name in names:
        found += grid_cases(
            name,
            sweeps=sweeps[name],
            passes=words(choices["passes"]) if choices["passes"] else None,
            precisions=words(choices["precision"]),
            caches=words(choices["cache"]),
            threads=thread_counts(choices["threads"]),
            variants=words(choices["variant"]),
            quick=choices["quick"],
            framework=choices["framework"],
            device=choices["device"],
        )
    if names and not found:
        raise UsageError(
            f"{' and '.join(names)}: no pass {choices['passes']!r}",
            advice="leave --pass out, or see docs/studies.md for the passes of every kernel",
        )
    return found


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
        precisions=words(choices["precision"]),
        passes=words(choices["passes"]) if choices["passes"] else [],
        quick=choices["quick"],
        machine=machine,
    )
    return designs(factors, options)
