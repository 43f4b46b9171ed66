"""Pooling over images: the largest or the mean of every window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from timeroof.study.kernel import (
    Kernel,
    Parameter,
    Setting,
    Workload,
    function_passes,
    no_contraction,
)
from timeroof.study.kernels.conv2d import LAYOUTS

if TYPE_CHECKING:
    from timeroof.study.case import Value


def _prepare(given: Setting) -> Workload:
    import torch

    shape = [given.size(n) for n in ("batch", "channels", "size", "size")]
    last = given.word("layout") == "channels_last"
    layout = torch.channels_last if last else torch.contiguous_format
    kind = torch.nn.MaxPool2d if given.word("mode") == "max" else torch.nn.AvgPool2d
    return Workload(
        lambda: (given.random(*shape).contiguous(memory_format=layout),),
        kind(given.size("kernel"), stride=given.size("stride")),
    )


def _refuse(params: Mapping[str, Value]) -> str | None:
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
    passes=function_passes(),
    prepare=_prepare,
    contraction=no_contraction,
    refuse=_refuse,
)
