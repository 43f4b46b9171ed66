"""Bytes of ops that write into a given tensor, of fused kernels in place, and of parts taken."""

from __future__ import annotations

import pytest

from timeroof.work import call_from_kineto, count

N = 1000


def bytes_of(op: str, dims: list[list[int]], types: list[str] | None = None) -> float | None:
    types = types or ["float" if d else "Scalar" for d in dims]
    return count(call_from_kineto(op, {"Input Dims": dims, "Input type": types})).bytes


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("aten::clamp_min", [[N], []]),
        ("aten::mul", [[N], [N]]),
        ("aten::add", [[N], [N], []]),
        ("aten::sqrt", [[N]]),
        ("aten::threshold_backward", [[N], [N], []]),
        ("aten::div", [[N], [N]]),
        ("aten::addcmul", [[N], [N], [N], []]),
    ],
)
def test_an_out_argument_is_written_and_not_read(op: str, arguments: list[list[int]]) -> None:
    plain = bytes_of(op, arguments)
    assert plain == 4 * N * (1 + sum(map(len, arguments)))
    assert bytes_of(op, [*arguments, [N]]) == plain


def test_an_out_argument_of_another_format_is_written_in_it() -> None:
    types = ["float", "float", "c10::Half"]
    assert bytes_of("aten::mul", [[N], [N], [N]], types) == (4 + 4 + 2) * N


def test_a_scalar_of_no_dimension_is_no_out_argument() -> None:
    # What DistributedDataParallel does to its gradients: a tensor times a number into a bucket.
    assert bytes_of("aten::mul", [[N], [], [N]], ["float", "double", "float"]) == 8 * N + 8


@pytest.mark.parametrize(
    ("kernel", "buffers", "expected"),
    [
        # A bias and an activation upon a convolution's result: read and written in place.
        ("triton_poi_fused_convolution_relu_0", [[N], [10], []], 2 * N + 10),
        ("triton_poi_fused_relu_1", [[N], [N], []], 2 * N),
        # A fill computes nothing from what was there.
        ("triton_poi_fused_zeros_2", [[N], []], N),
        # A hundred of a thousand elements.
        ("triton_poi_fused_mul_slice_3", [[N], [100], []], 200),
        ("triton_poi_fused_embedding_4", [[N], [10], [10], []], 30),
    ],
)
def test_buffers_of_fused_kernels(kernel: str, buffers: list[list[int]], expected: int) -> None:
    assert bytes_of(kernel, buffers) == 4 * expected
