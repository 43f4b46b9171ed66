"""A two-dimensional convolution, by default a layer of ResNet50 as the paper took it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from timeroof.study.kernel import (
    COMMON_VARIANTS,
    Kernel,
    Parameter,
    Setting,
    Workload,
    layer_passes,
    times_of_forward,
)

if TYPE_CHECKING:
    from timeroof.study.case import Value

LAYOUTS = ("contiguous", "channels_last")


def _prepare(given: Setting) -> Workload:
    import torch

    shape = [given.size(n) for n in ("batch", "channels", "size", "size")]
    layer = given.place(
        torch.nn.Conv2d(
            given.size("channels"), given.size("filters"), given.size("kernel"),
            stride=given.size("stride"),
        )
    )  # fmt: skip
    last = given.word("layout") == "channels_last"
    layout = torch.channels_last if last else torch.contiguous_format
    layer = layer.to(memory_format=layout)

    def inputs() -> tuple[torch.Tensor]:
        return (given.random(*shape).contiguous(memory_format=layout),)

    return Workload(inputs, layer, tuple(layer.parameters()))


def _contraction(params: Mapping[str, Value], pass_name: str) -> float:
    """2 N K C R S P Q, no padding; each gradient as much again."""
    n, k, c, r, size, stride = (
        int(params[p]) for p in ("batch", "filters", "channels", "kernel", "size", "stride")
    )
    side = (size - r) // stride + 1
    return times_of_forward(2.0 * n * k * c * r * r * side * side, pass_name)


def _refuse(params: Mapping[str, Value]) -> str | None:
    if int(params["kernel"]) > int(params["size"]):
        return f"a kernel of {params['kernel']} does not fit into an input of {params['size']}"
    return None


KERNEL = Kernel(
    name="conv2d",
    title="convolution",
    parameters=(
        Parameter("batch", "batch size", 16, (16, 32, 64), (16, 32)),
        Parameter("filters", "filters", 64, (64, 128, 256, 512), (64, 128)),
        Parameter("kernel", "kernel size", 3, (3, 7, 9), (3, 7)),
        Parameter("stride", "stride", 2, (1, 2, 3), (1, 2, 3)),
        Parameter("channels", "input channels", 64),
        Parameter("size", "input height and width", 112),
        Parameter("layout", "memory layout", "contiguous", choices=LAYOUTS),
    ),
    passes=layer_passes(),
    prepare=_prepare,
    contraction=_contraction,
    variants=(*COMMON_VARIANTS, "cudnn-benchmark"),
    refuse=_refuse,
)
