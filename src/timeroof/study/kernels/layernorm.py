"""Layer normalisation over the last dimension, with weight and bias."""

from __future__ import annotations

from timeroof.study.kernel import (
    Kernel,
    Parameter,
    Setting,
    Workload,
    layer_passes,
    no_contraction,
)


def _prepare(given: Setting) -> Workload:
    import torch

    rows, columns = given.size("rows"), given.size("columns")
    layer = given.place(torch.nn.LayerNorm(columns))
    return Workload(lambda: (given.random(rows, columns),), layer, tuple(layer.parameters()))


KERNEL = Kernel(
    name="layernorm",
    title="layer normalisation",
    parameters=(
        Parameter("rows", "rows", 4096, (256, 1024, 4096, 16384), (1024, 4096)),
        Parameter("columns", "columns", 1024, (256, 1024, 4096), (256, 1024)),
    ),
    passes=layer_passes(),
    prepare=_prepare,
    contraction=no_contraction,
)
