"""A step of the Adam optimizer over several tensors: a loop over them, one op for all, or fused."""

from __future__ import annotations

from typing import Any

from timeroof.study import case as k
from timeroof.study.case import OPTIMIZER, Kernel, Parameter, Setting, Workload

_FLAGS = {"eager": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def _prepare(given: Setting) -> Workload:
    import torch

    flags: Any = _FLAGS.get(given.variant, {"foreach": False})
    weights = tuple(
        torch.nn.Parameter(given.random(given.size("elements")))
        for _ in range(given.size("tensors"))
    )
    return Workload(
        lambda: tuple(weights),
        lambda *tensors: tensors,
        weights,
        make_optimizer=lambda tensors: torch.optim.Adam(tensors, **flags),
    )


KERNEL = Kernel(
    name="adam",
    parameters=(
        Parameter("elements", 1 << 16,
                  tuple(1 << p for p in range(10, 21, 2)), (1 << 12, 1 << 16)),
        Parameter("tensors", 16, (1, 4, 16, 64), (4, 16)),
    ),
    prepare=_prepare,
    passes={
        OPTIMIZER: "one step of torch.optim.Adam over all tensors, gradients given, states ready"
    },
    precisions=k.PLAIN_FLOATS,
    variants=("eager", "foreach", "fused", *k.COMPILED),
    default_passes=(OPTIMIZER,),
)  # fmt: skip
