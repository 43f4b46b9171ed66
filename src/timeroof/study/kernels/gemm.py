"""A matrix product m×k by k×n; in int8 with torch._int_mm, whose results are int32."""

from __future__ import annotations

import math

from timeroof.study.case import FLOATS, Kernel, Parameter, Setting, Workload, like_forward

_SIZES = (128, 256, 512, 1024, 2048)


def _prepare(given: Setting) -> Workload:
    import torch

    m, n, k = given.sizes("m", "n", "k")
    if given.precision == "int8":

        def whole(*shape: int) -> torch.Tensor:
            return torch.randint(-128, 128, shape, dtype=torch.int8, device=given.device)

        return Workload(lambda: (whole(m, k), whole(k, n)), torch._int_mm)
    return Workload(lambda: (given.random(m, k), given.random(k, n)), torch.mm)


KERNEL = Kernel(
    name="gemm",
    parameters=tuple(Parameter(name, 512, _SIZES, (512, 1024)) for name in "mnk"),
    prepare=_prepare,
    # 2 m n k; the gradient of either factor as much again.
    contraction=lambda p, name: like_forward(2.0 * math.prod(int(p[n]) for n in "mnk"), name),
    precisions=(*FLOATS, "int8"),
)
