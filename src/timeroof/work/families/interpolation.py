"""Resizing images. Per result: nearest 0, linear 3, bilinear 9, trilinear 21, bicubic 39.

A linear blend of two neighbours is 3 FLOPs (two products, a sum); bilinear blends 3 pairs
and trilinear 7; bicubic blends 5 rows of 4 (7 FLOPs) and needs 4 more for its position.
"""

from __future__ import annotations

from timeroof.work.call import Arg, Call, Tensor, UncountableError, integers, tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula

_FLOPS = {
    "nearest": 0,
    "_nearest_exact": 0,
    "linear": 3,
    "bilinear": 9,
    "trilinear": 21,
    "bicubic": 39,
}
_NAMES = [
    f"{kind}{dims}"
    for kind, dims in (
        ("nearest", "1d"), ("nearest", "2d"), ("nearest", "3d"), ("linear", "1d"),
        ("bilinear", "2d"), ("trilinear", "3d"), ("bicubic", "2d"),
    )
]  # fmt: skip
_FORWARD = [f"aten::upsample_{n}" for n in _NAMES] + [
    f"aten::_upsample_{n}" for n in (
        "nearest_exact1d", "nearest_exact2d", "nearest_exact3d", "bilinear2d_aa", "bicubic2d_aa",
    )
]  # fmt: skip


def _per_result(op: str) -> int:
    kinds = ("trilinear", "bilinear", "bicubic", "linear", "nearest")
    return _FLOPS[next(k for k in kinds if k in op)]


@formula(*_FORWARD)
def upsample(call: Call, x: Arg, output_size: Arg = None, a: Arg = None, b: Arg = None) -> Cost:
    """The new size is given, or scale factors in one of the later places."""
    found = tensor(x, "the input")
    spatial = len(found.shape) - 2
    if isinstance(output_size, tuple) and output_size:
        sizes = integers(output_size, "the output size", spatial)
    else:
        sizes = _scaled(found, (a, b))
    out = Tensor((*found.shape[:2], *sizes), found.dtype)
    return cost([found], [out], other=_per_result(call.op) * out.count)


def _scaled(x: Tensor, places: tuple[Arg, ...]) -> tuple[int, ...]:
    factors = next((v for v in places if isinstance(v, tuple) and v), None)
    if factors is None:
        raise UncountableError("the output size is not recorded")
    pairs = zip(x.shape[2:], factors, strict=True)
    return tuple(int(n * f) for n, f in pairs if isinstance(f, int | float))


@formula(*(f"{name}_backward" for name in _FORWARD))
def upsample_backward(call: Call, grad: Arg, output_size: Arg, input_size: Arg) -> Cost:
    """Every gradient spread back over the neighbours it came from."""
    g = tensor(grad, "the gradient")
    out = Tensor(integers(input_size, "the input size"), g.dtype)
    return cost([g], [out], other=max(_per_result(call.op), 1) * g.count)


@formula("aten::grid_sampler_2d", "aten::grid_sampler_3d", "aten::cudnn_grid_sampler")
def grid_sampler(call: Call, x: Arg, grid: Arg) -> Cost:
    """Bilinear samples at given places."""
    found, places = tensor(x, "the input"), tensor(grid, "the grid")
    out = Tensor((*found.shape[:2], *places.shape[1:-1]), found.dtype)
    return cost([found, places], [out], other=(_FLOPS["bilinear"] + 8) * out.count)


@formula("aten::grid_sampler", "aten::affine_grid_generator", composite=True)
def grid_sampler_op(call: Call, x: Arg, grid: Arg = None) -> Cost:
    """The ops above."""
    return grid_sampler(call, x, grid)


@formula("aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward")
def grid_sampler_backward(grad: Arg, x: Arg, grid: Arg) -> Cost:
    """Gradients for the input and for the places."""
    g, found, places = (
        tensor(grad, "the gradient"),
        tensor(x, "the input"),
        tensor(grid, "the grid"),
    )
    return cost([g, found, places], [found, places], other=34 * g.count)


@formula("torchvision::roi_align", "torchvision::ps_roi_align")
def roi_align(x: Arg, rois: Arg, scale: Arg, height: Arg, width: Arg, ratio: Arg = 2) -> Cost:
    """Bilinear samples per region and cell, averaged."""
    found, regions = tensor(x, "the input"), tensor(rois, "the regions")
    cells = integers((height, width), "the size")
    samples = ratio * ratio if isinstance(ratio, int) and ratio > 0 else 4
    out = Tensor((regions.shape[0], found.shape[1], *cells), found.dtype)
    flops = out.count * samples * (_FLOPS["bilinear"] + 1)
    return cost([found, regions], [out], other=flops, origin="modelled")
