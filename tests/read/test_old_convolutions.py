"""Convolutions of traces without values: the gradient with the same number has the result's size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import timeroof
from tests.kineto_events import ENGINE, document, kernel, launch, op
from timeroof.work.call import Tensor, UncountableError
from timeroof.work.families.conv import fitted

X, W, OUT = [8, 3, 224, 224], [64, 3, 7, 7], [8, 64, 112, 112]
FLOPS = 2 * 8 * 64 * 112 * 112 * 3 * 49


def flops(folder: Path, *, trains: bool) -> float | None:
    types = ["float", "float", *[""] * 6]
    dims = [X, W, *[[] for _ in range(6)]]
    args = {"Input Dims": dims, "Input type": types, "Sequence number": 5}
    events = [op("aten::cudnn_convolution", 0, 20, **args), launch(1, 5)]
    events.append(kernel("volta_scudnn_128x64_relu_xregs_large_nn_v1", 40, 500, 1))
    if trains:
        node = {"Input Dims": [OUT], "Input type": ["float"], "Sequence number": 5}
        events.append(op("CudnnConvolutionBackward", 700, 20, ENGINE, **node))
    path = folder / "trace.json"
    path.write_text(json.dumps(document(events)))
    row = timeroof.load(path).rows.row(0, named=True)
    assert row["origin.flops"] == ("inferred" if trains else None)
    found: float | None = row["total_flops"]
    return found


def test_the_gradient_tells_what_the_convolution_did(tmp_path: Path) -> None:
    assert flops(tmp_path, trains=True) == FLOPS
    assert flops(tmp_path, trains=False) is None


@pytest.mark.parametrize(
    ("size", "kernel_size", "result", "stride", "padding"),
    [
        (224, 7, 112, 2, 3),
        (56, 3, 56, 1, 1),
        (56, 1, 28, 2, 0),
        (28, 3, 26, 1, 0),
        (13, 5, 13, 1, 2),
    ],
)
def test_stride_and_padding_follow_from_sizes(
    size: int, kernel_size: int, result: int, stride: int, padding: int
) -> None:
    conv = fitted(
        Tensor((2, 8, size, size), "fp32"),
        Tensor((16, 8, kernel_size, kernel_size), "fp32"),
        Tensor((2, 16, result, result), "fp32"),
    )
    assert (conv.stride, conv.padding) == ((stride,) * 2, (padding,) * 2)
    assert conv.out.shape == (2, 16, result, result)


def test_sizes_that_no_convolution_has_are_unknown() -> None:
    with pytest.raises(UncountableError):
        fitted(Tensor((2, 8, 8, 8)), Tensor((16, 8, 3, 3)), Tensor((2, 16, 99, 99)))
