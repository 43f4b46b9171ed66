"""One element-wise op over vectors: a sum of two, or a function of one."""

from __future__ import annotations

from timeroof.study.kernel import (
    Kernel,
    Parameter,
    Setting,
    Workload,
    function_passes,
    no_contraction,
)

OPS = ("add", "mul", "relu", "gelu", "sigmoid", "tanh")
_OF_TWO = ("add", "mul")


def _prepare(given: Setting) -> Workload:
    import torch

    name = given.word("op")
    count = 2 if name in _OF_TWO else 1
    home = torch.nn.functional if name in ("relu", "gelu") else torch
    return Workload(
        lambda: tuple(given.random(given.size("elements")) for _ in range(count)),
        getattr(home, name),
    )


KERNEL = Kernel(
    name="elementwise",
    title="element-wise op",
    parameters=(
        Parameter("elements", "elements", 1 << 20, tuple(1 << p for p in range(12, 25, 2)),
                  (1 << 16, 1 << 20, 1 << 24)),
        Parameter("op", "op", "add", OPS, ("add", "gelu"), choices=OPS),
    ),
    passes=function_passes(),
    prepare=_prepare,
    contraction=no_contraction,
)  # fmt: skip
