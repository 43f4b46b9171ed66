"""A two-dimensional convolution, by default a layer of ResNet50 as the paper took it."""

from __future__ import annotations

from timeroof.study import kernel as k
from timeroof.study.kernel import Kernel, Parameter, Params, Setting, Workload

LAYOUTS = ("contiguous", "channels_last")


def _prepare(given: Setting) -> Workload:
    import torch

    shape = given.sizes("batch", "channels", "size", "size")
    layout = given.memory_format
    channels, filters, side, stride = given.sizes("channels", "filters", "kernel", "stride")
    layer = given.place(torch.nn.Conv2d(channels, filters, side, stride))
    layer = layer.to(memory_format=layout)  # type: ignore[call-overload]
    return Workload.of(layer, lambda: (given.random(*shape).contiguous(memory_format=layout),))


def _contraction(params: Params, pass_name: str) -> float:
    """2 N K C R S P Q, no padding; each gradient as much again."""
    n, filters, c, r, size, stride = (
        int(params[p]) for p in ("batch", "filters", "channels", "kernel", "size", "stride")
    )
    side = (size - r) // stride + 1
    return k.like_forward(2.0 * n * filters * c * r * r * side * side, pass_name)


def too_large(params: Params) -> str | None:
    """Why a kernel does not fit into its input."""
    if int(params["kernel"]) > int(params["size"]):
        return f"a kernel of {params['kernel']} does not fit into an input of {params['size']}"
    return None


KERNEL = Kernel(
    name="conv2d",
    parameters=(
        Parameter("batch", 16, (16, 32, 64), (16, 32)),
        Parameter("filters", 64, (64, 128, 256, 512), (64, 128)),
        Parameter("kernel", 3, (3, 7, 9), (3, 7)),
        Parameter("stride", 2, (1, 2, 3), (1, 2, 3)),
        Parameter("channels", 64),
        Parameter("size", 112),
        Parameter("layout", "contiguous", choices=LAYOUTS),
    ),
    prepare=_prepare,
    passes=k.LAYER_PASSES,
    contraction=_contraction,
    variants=(*k.COMMON_VARIANTS, "cudnn-benchmark"),
    refuse=too_large,
)
