"""A two-dimensional convolution, by default a layer of ResNet50 as the paper took it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from timeroof.study import case as k
from timeroof.study.case import Kernel, Parameter, Params, Setting, Workload

if TYPE_CHECKING:
    import torch

LAYOUTS = ("contiguous", "channels_last")
IM2COL, BLOCKED, WINOGRAD = "im2col", "blocked", "winograd"


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
    if given.variant == WINOGRAD:
        _only_for(given.variant, side == 3 and stride == 1, "3×3 filters with stride 1")
        return Workload(inputs, partial(_winograd, layer), tuple(layer.parameters()))
    if given.variant == BLOCKED:
        return _blocked(layer, inputs, shape)
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


def _only_for(variant: str, fits: bool, what: str) -> None:
    if not fits:
        raise NotImplementedError(f"{variant} is only for {what}")


def _winograd(layer: torch.nn.Conv2d, images: torch.Tensor) -> torch.Tensor:
    """The same convolution by Winograd's F(4×4, 3×3): 36 products for 16 results instead of 144.

    oneDNN has no such form for x86 any more, so its three steps are written out, image by image:
    transform 6×6 tiles, one matrix product per point of a tile, transform back.
    """
    import torch

    into, of_filter, back = (torch.tensor(m).to(images) for m in (_TO_TILE, _OF_FILTER, _FROM_TILE))
    into, back = torch.kron(into, into), torch.kron(back, back)
    filters = torch.einsum("ij,fcjk,lk->ilfc", of_filter, layer.weight, of_filter).flatten(0, 1)
    channels, side = images.shape[1], images.shape[-1] - 2
    count = -(-side // 4)
    padded = torch.nn.functional.pad(images, (0, 4 * count + 2 - images.shape[-1]) * 2)
    # Every image goes to its place at once: at the sizes of Czaja et al. all of them are 5 GB.
    every = images.new_empty(len(images), filters.shape[1], side, side)
    for place, image in enumerate(torch.split(padded, 1)):
        tiles = torch.nn.functional.unfold(image, 6, stride=4).reshape(channels, 36, -1)
        products = filters @ (into @ tiles).transpose(0, 1)
        results = (back @ products.flatten(1)).reshape(4, 4, -1, count, count)
        whole = results.permute(2, 3, 0, 4, 1).reshape(-1, 4 * count, 4 * count)
        result = whole[:, :side, :side]
        every[place] = result if layer.bias is None else result + layer.bias[:, None, None]
    return every


# Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016.
_TO_TILE = [
    [4.0, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0],
    [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1],
]  # fmt: skip
_OF_FILTER = [
    [1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6],
    [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1],
]  # fmt: skip
_FROM_TILE = [
    [1.0, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1],
]  # fmt: skip


def _blocked(
    layer: torch.nn.Conv2d, inputs: Callable[[], tuple[torch.Tensor]], shape: Sequence[int]
) -> Workload:
    """The same convolution with images and weights in the layout that oneDNN chose itself, as a
    network has them between two layers. A 1×1 convolution that changes no value puts the images
    into it; oneDNN's lines of the case tell what it was."""
    import torch

    native: Any = torch._C._nn
    backend: Any = torch.backends.mkldnn
    there = backend.is_available() and layer.weight.device.type == "cpu"
    _only_for(BLOCKED, there, "CPUs with oneDNN")
    unit, none, stride = [1, 1], [0, 0], list(layer.stride)
    same = torch.eye(shape[1], dtype=layer.weight.dtype).reshape(shape[1], shape[1], 1, 1)
    run = torch.mkldnn_convolution
    with torch.no_grad():
        own = layer.weight.detach().to_mkldnn()
        weight = native.mkldnn_reorder_conv2d_weight(own, none, stride, unit, 1, list(shape))
        bias = None if layer.bias is None else layer.bias.detach().to_mkldnn()

    def images() -> tuple[torch.Tensor]:
        with torch.no_grad():
            plain = inputs()[0].contiguous().to_mkldnn()
            return (run(plain, same.to_mkldnn(), None, none, unit, unit, 1),)

    def convolve(blocked: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = run(blocked, weight, bias, none, stride, unit, 1)
        return found

    return Workload(images, convolve, described=lambda: Workload.of(layer, inputs))


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
    variants=(*k.COMMON_VARIANTS, IM2COL, BLOCKED, WINOGRAD, "cudnn-benchmark"),
    refuse=too_large,
)
