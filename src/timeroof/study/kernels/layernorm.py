"""Layer normalisation over the last dimension, with weight and bias."""

from __future__ import annotations

from timeroof.study.kernel import LAYER_PASSES, Kernel, Parameter, Setting, Workload


def _prepare(given: Setting) -> Workload:
    import torch

    layer = given.place(torch.nn.LayerNorm(given.size("columns")))
    return Workload.of(layer, lambda: (given.random(*given.sizes("rows", "columns")),))


KERNEL = Kernel(
    name="layernorm",
    title="layer normalisation",
    parameters=(
        Parameter("rows", "rows", 4096, (256, 1024, 4096, 16384), (1024, 4096)),
        Parameter("columns", "columns", 1024, (256, 1024, 4096), (256, 1024)),
    ),
    prepare=_prepare,
    passes=LAYER_PASSES,
)
