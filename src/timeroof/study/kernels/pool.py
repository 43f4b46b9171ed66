"""Pooling over images: the largest or the mean of every window."""

from __future__ import annotations

from timeroof.study.kernel import Kernel, Parameter, Params, Setting, Workload
from timeroof.study.kernels.conv2d import LAYOUTS


def _prepare(given: Setting) -> Workload:
    import torch

    shape, layout = given.sizes("batch", "channels", "size", "size"), given.memory_format
    kind = torch.nn.MaxPool2d if given.params["mode"] == "max" else torch.nn.AvgPool2d
    return Workload(
        lambda: (given.random(*shape).contiguous(memory_format=layout),),
        kind(given.size("kernel"), given.size("stride")),
    )


def _refuse(params: Params) -> str | None:
    if int(params["kernel"]) > int(params["size"]):
        return f"a window of {params['kernel']} does not fit into an input of {params['size']}"
    return None


KERNEL = Kernel(
    name="pool",
    title="pooling",
    parameters=(
        Parameter("batch", "batch size", 16, (16, 32, 64), (16, 32)),
        Parameter("channels", "channels", 64, (32, 64, 128), ()),
        Parameter("size", "input height and width", 112, (28, 56, 112), ()),
        Parameter("kernel", "window size", 3, (2, 3, 5), (2, 3)),
        Parameter("stride", "stride", 2, (1, 2, 3), ()),
        Parameter("mode", "mode", "max", ("max", "mean"), ("max", "mean"), choices=("max", "mean")),
        Parameter("layout", "memory layout", "contiguous", choices=LAYOUTS),
    ),
    prepare=_prepare,
    refuse=_refuse,
)
