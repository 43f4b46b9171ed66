"""One word for what a row does, from its op, its kernel's algorithm or its name."""

from __future__ import annotations

import polars as pl
import pytest

from timeroof.api.reports import analyze
from timeroof.core.op_family import family_of
from timeroof.core.profile import Profile, Source
from timeroof.work.recorded import with_recorded_work


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("aten::addmm", "product"),
        ("aten::bmm", "batched product"),
        ("aten::_convolution", "convolution"),
        ("aten::convert_element", None),
        ("aten::_scaled_dot_product_attention", "attention"),
        ("aten::native_batch_norm_backward", "batch norm"),
        ("aten::threshold_backward", "elementwise"),
        ("aten::_foreach_add_", "optimizer"),
        ("aten::cat", "layout"),
        ("aten::clone", "copy"),
    ],
)
def test_names_of_ops(name: str, family: str | None) -> None:
    assert family_of(name) == family


def test_a_kernel_tells_what_its_op_does_not() -> None:
    rows = [
        {"name": "nchwToNhwcKernel", "op": "aten::conv2d", "time_s": 4.0},
        {"name": "volta_scudnn_128x64_relu_interior_nn_v1", "time_s": 3.0},
        {"name": "splitKreduce_kernel", "op": "aten::mm", "time_s": 2.0},
        {"name": "mystery", "time_s": 1.0},
    ]
    profile = with_recorded_work(Profile.of(rows, Source(tool="t")), None)
    found = analyze(profile, None).rows
    assert found["op_family"].to_list() == ["layout", "convolution", "product", None]
    assert found["algorithm"].to_list()[:2] == ["layout", "implicit-gemm"]
    assert found["library"].to_list()[1] == "cudnn"
    assert found.schema["tensor_core"] == pl.Boolean


def test_an_op_has_no_algorithm_of_a_kernel() -> None:
    profile = Profile.of([{"name": "aten::gemm", "kind": "op", "time_s": 1.0}], Source(tool="t"))
    kept = with_recorded_work(profile, None).kernels
    assert kept["algorithm"].to_list() == kept["library"].to_list() == [None]
