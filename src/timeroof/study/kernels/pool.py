"""Pooling over images: the largest or the mean of every window."""

from __future__ import annotations

from timeroof.study.case import Kernel, Parameter, Setting, Workload
from timeroof.study.kernels.conv2d import LAYOUTS, too_large


def _prepare(given: Setting) -> Workload:
    import torch

    shape, layout = given.sizes("batch", "channels", "size", "size"), given.memory_format
    kind = torch.nn.MaxPool2d if given.params["mode"] == "max" else torch.nn.AvgPool2d
    return Workload(
        lambda: (given.random(*shape).contiguous(memory_format=layout),),
        kind(given.size("kernel"), given.size("stride")),
    )


KERNEL = Kernel(
    name="pool",
    parameters=(
        Parameter("batch", 16, (16, 32, 64), (16, 32)),
        Parameter("channels", 64, (32, 64, 128), ()),
        Parameter("size", 112, (28, 56, 112), ()),
        Parameter("kernel", 3, (2, 3, 5), (2, 3)),
        Parameter("stride", 2, (1, 2, 3), ()),
        Parameter("mode", "max", ("max", "mean"), ("max", "mean"), choices=("max", "mean")),
        Parameter("layout", "contiguous", choices=LAYOUTS),
    ),
    prepare=_prepare,
    refuse=too_large,
)
