"""One element-wise op over vectors: a sum of two, or a function of one."""

from __future__ import annotations

from timeroof.study.case import Kernel, Parameter, Setting, Workload

OPS = ("add", "mul", "relu", "gelu", "sigmoid", "tanh")


def _prepare(given: Setting) -> Workload:
    import torch

    name = str(given.params["op"])
    count = 2 if name in ("add", "mul") else 1
    home = torch.nn.functional if name in ("relu", "gelu") else torch
    return Workload(
        lambda: tuple(given.random(given.size("elements")) for _ in range(count)),
        getattr(home, name),
    )


KERNEL = Kernel(
    name="elementwise",
    parameters=(
        Parameter("elements", 1 << 20, tuple(1 << p for p in range(12, 25, 2)),
                  (1 << 16, 1 << 20, 1 << 24)),
        Parameter("op", "add", OPS, ("add", "gelu"), choices=OPS),
    ),
    prepare=_prepare,
)  # fmt: skip
