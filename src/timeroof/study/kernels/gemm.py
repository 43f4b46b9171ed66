"""A matrix product m×k by k×n; in int8 with torch._int_mm, whose results are int32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from timeroof.study.kernel import (
    FLOATS,
    Kernel,
    Parameter,
    Setting,
    Workload,
    function_passes,
    times_of_forward,
)

if TYPE_CHECKING:
    from timeroof.study.case import Value

_SIZES = (128, 256, 512, 1024, 2048)


def _prepare(given: Setting) -> Workload:
    import torch

    m, n, k = (given.size(p) for p in "mnk")
    if given.precision == "int8":

        def whole(*shape: int) -> torch.Tensor:
            return torch.randint(-128, 128, shape, dtype=torch.int8, device=given.device)

        product: Any = torch._int_mm
        return Workload(lambda: (whole(m, k), whole(k, n)), product)

    def inputs() -> tuple[torch.Tensor, torch.Tensor]:
        return given.random(m, k), given.random(k, n)

    return Workload(inputs, torch.mm)


def _contraction(params: Mapping[str, Value], pass_name: str) -> float:
    """2 m n k; the gradient of either factor as much again."""
    return times_of_forward(2.0 * int(params["m"]) * int(params["n"]) * int(params["k"]), pass_name)


KERNEL = Kernel(
    name="gemm",
    title="matrix product",
    parameters=tuple(
        Parameter(name, title, 512, _SIZES, (512, 1024))
        for name, title in (("m", "rows m"), ("n", "columns n"), ("k", "inner size k"))
    ),
    passes=function_passes(),
    prepare=_prepare,
    contraction=_contraction,
    precisions=(*FLOATS, "int8"),
)
