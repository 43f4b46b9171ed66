"""A two-dimensional convolution, by default a layer of ResNet50 as the paper took it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from timeroof.study import kernel as k
from timeroof.study.kernel import Kernel, Parameter, Params, Setting, Workload

if TYPE_CHECKING:
    import torch

LAYOUTS = ("contiguous", "channels_last")
IM2COL = "im2col"


def _prepare(given: Setting) -> Workload:
    import torch

    shape = given.sizes("batch", "channels", "size", "size")
    layout = given.memory_format
    channels, filters, side, stride = given.sizes("channels", "filters", "kernel", "stride")
    layer = cast("torch.nn.Conv2d", given.place(torch.nn.Conv2d(channels, filters, side, stride)))
    layer = layer.to(memory_format=layout)  # type: ignore[call-overload]

    def inputs() -> tuple[torch.Tensor]:
        return (given.random(*shape).contiguous(memory_format=layout),)

    if given.variant == IM2COL:
        return Workload(inputs, partial(_im2col, layer), tuple(layer.parameters()))
    return Workload.of(layer, inputs)


def _im2col(layer: torch.nn.Conv2d, images: torch.Tensor) -> torch.Tensor:
    """The same convolution by the textbook's algorithm: unfold every patch, then multiply."""
    import torch

    columns = torch.nn.functional.unfold(images, layer.kernel_size, stride=layer.stride)
    found: torch.Tensor = layer.weight.flatten(1) @ columns
    if layer.bias is not None:
        found = found + layer.bias[:, None]
    side = (images.shape[-1] - layer.kernel_size[0]) // layer.stride[0] + 1
    return found.reshape(*found.shape[:2], side, side)


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
    variants=(*k.COMMON_VARIANTS, IM2COL, "cudnn-benchmark"),
    refuse=too_large,
)
