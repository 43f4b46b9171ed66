"""Shapes as lists and as text: every notation is read, and what is written reads back."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, strategies as st

from timeroof.core.profile import Profile, Source
from timeroof.core.shapes import (
    SHAPE,
    parse_shape,
    shape_series,
    shape_text,
    shape_texts,
    shown_shapes,
)

SIZES = st.lists(st.integers(0, 2**63 - 1), max_size=5)


@given(st.lists(SIZES, min_size=1, max_size=6))
def test_what_is_written_reads_back(shape: list[list[int]]) -> None:
    expected = tuple(map(tuple, shape))
    assert parse_shape(shape_text(shape)) == expected
    assert parse_shape(str(shape)) == expected


@given(st.text(alphabet="0123456789x×*[](), ;scalar-", max_size=40))
def test_any_text_is_a_whole_shape_or_none(text: str) -> None:
    shape = parse_shape(text)
    assert shape is None or shape_text(shape) is not None
    assert parse_shape(shape_text(shape)) == shape


@pytest.mark.parametrize(
    "text",
    ["", "[", "2x", "x2", "2x3)", "s0x64", "-1x4", "9" * 30, "[" * 20 + "1" + "]" * 20, "2.5x3",
     "2x3 and 4 more", "n=64", "mb1_ic3oc64"],
)  # fmt: skip
def test_what_is_no_list_of_sizes_is_none(text: str) -> None:
    assert parse_shape(text) is None


@pytest.mark.parametrize("text", ["16x64 (64, 10)", "[16, 64], [64, 10]", "[16x64, 64×10]"])
def test_tensors_may_be_written_in_several_ways(text: str) -> None:
    assert parse_shape(text) == ((16, 64), (64, 10))


def test_a_table_keeps_what_is_not_a_list_as_its_label() -> None:
    rows = [
        {"name": "a", "time_s": 2.0, "shape": "2x3"},
        {"name": "b", "time_s": 1.0, "shape": "?"},
    ]
    kernels = Profile.of(rows, Source(tool="test")).kernels
    assert kernels.schema["shape"] == SHAPE
    assert kernels["shape"].to_list() == [[[2, 3]], None]
    assert kernels["label.shape"].to_list() == [None, "?"]
    assert shown_shapes(kernels).to_list() == ["2x3", "?"]


def test_a_long_list_is_cut_only_where_it_is_shown() -> None:
    shapes = shape_series([((1,),) * 12])
    assert shape_texts(shapes, 8).to_list() == ["1, 1, 1, 1, 1, 1, 1, 1 and 4 more"]
    assert shape_texts(shapes).to_list() == [", ".join(["1"] * 12)]


def test_no_tensor_is_no_shape() -> None:
    frame = pl.DataFrame({"name": ["a"], "time_s": [1.0]}).with_columns(shape_series([()]))
    assert Profile.of(frame, Source(tool="test")).kernels["shape"].to_list() == [None]
