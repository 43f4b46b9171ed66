"""An inner product: every sample of a batch by a matrix of weights, with a bias."""

from __future__ import annotations

import math

from timeroof.study.case import LAYER_PASSES, Kernel, Parameter, Setting, Workload, like_forward


def _prepare(given: Setting) -> Workload:
    import torch

    inputs, outputs = given.sizes("inputs", "outputs")
    layer = given.place(torch.nn.Linear(inputs, outputs))
    return Workload.of(layer, lambda: (given.random(*given.sizes("batch", "inputs")),))


KERNEL = Kernel(
    name="linear",
    parameters=(
        Parameter("batch", 256, (1, 16, 64, 256), (16, 256)),
        Parameter("inputs", 4096, (1024, 4096), ()),
        Parameter("outputs", 1000, (1000, 4096), ()),
    ),
    prepare=_prepare,
    passes=LAYER_PASSES,
    # 2 m n k; the gradients of inputs and weights as much again.
    contraction=lambda p, name: like_forward(
        2.0 * math.prod(int(p[n]) for n in ("batch", "inputs", "outputs")), name
    ),
)
