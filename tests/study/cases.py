"""Single cases, as tests want them."""

from __future__ import annotations

from collections.abc import Mapping

from timeroof.core.errors import UsageError
from timeroof.study.case import Case, Value
from timeroof.study.grid import all_cores, grid_cases
from timeroof.study.kernels import kernel as find_kernel


def one_case(
    kernel: str,
    pass_name: str = "forward",
    *,
    params: Mapping[str, Value] | None = None,
    precision: str = "fp32",
    cache: str = "warm",
    threads: int | None = None,
    variant: str = "eager",
) -> Case:
    """The base case with some parameters changed."""
    if pass_name not in find_kernel(kernel).passes:
        raise UsageError(f"{kernel} has no pass {pass_name!r}")
    sweeps = {name: [value] for name, value in (params or {}).items()}
    return grid_cases(
        kernel, sweeps=sweeps, passes=[pass_name], precisions=[precision], caches=[cache],
        threads=[threads or all_cores()], variants=[variant],
    )[0]  # fmt: skip
