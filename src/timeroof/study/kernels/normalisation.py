"""The kernels `layernorm` (with weight and bias) and `softmax`, over the last dimension."""

from __future__ import annotations

from timeroof.study.case import LAYER_PASSES, Kernel, Parameter, Setting, Workload

_PARAMETERS = (
    Parameter("rows", 4096, (256, 1024, 4096, 16384), (1024, 4096)),
    Parameter("columns", 1024, (256, 1024, 4096), (256, 1024)),
)


def _layernorm(given: Setting) -> Workload:
    import torch

    layer = given.place(torch.nn.LayerNorm(given.size("columns")))
    return Workload.of(layer, lambda: (given.random(*given.sizes("rows", "columns")),))


def _softmax(given: Setting) -> Workload:
    import torch

    shape = given.sizes("rows", "columns")
    return Workload(lambda: (given.random(*shape),), lambda x: torch.softmax(x, -1))


KERNELS = (
    Kernel("layernorm", _PARAMETERS, _layernorm, LAYER_PASSES),
    Kernel("softmax", _PARAMETERS, _softmax),
)
