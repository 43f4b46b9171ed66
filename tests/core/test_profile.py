"""Profiles: what is filled in, what is refused."""

from __future__ import annotations

import polars as pl
import pytest

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source


def test_absent_columns_get_their_meaning(source: Source) -> None:
    profile = Profile.of([{"name": "a", "time_s": 1.0, "calls": 3}], source)
    row = profile.kernels.row(0, named=True)
    assert (row["kind"], row["calls"], row["launches"], row["short_name"]) == ("kernel", 3, 3, "a")
    assert row["module"] is None
    assert profile.amount_columns == []
    assert len(profile) == 1


def test_rows_are_sorted_by_time_and_numbered(source: Source) -> None:
    profile = Profile.of({"name": ["a", "b", "c"], "time_s": [1.0, None, 2.0]}, source)
    assert profile.kernels["name"].to_list() == ["c", "a", "b"]
    assert profile.kernels["id"].to_list() == [0, 1, 2]


def test_labels_are_kept(source: Source) -> None:
    profile = Profile.of([{"name": "a", "time_s": 1.0, "label.batch": 16}], source)
    assert profile.kernels["label.batch"][0] == "16"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"name": ["a"]}, "time_s"),
        ({"time_s": [1.0]}, "name"),
        ({"name": ["a", "b"], "time_s": [1.0, -1.0]}, "'time_s' has -1.0 in row 2"),
        ({"name": ["a"], "time_s": [float("nan")]}, "nan"),
        ({"name": ["a"], "time_s": [float("inf")]}, "inf"),
        ({"name": ["a"], "time_s": [1.0], "flop/fp32": [-2.0]}, "'flop/fp32' has -2.0"),
        ({"name": ["a"], "time_s": [1.0], "byte/dram": [float("nan")]}, "byte/dram"),
        ({"name": [None], "time_s": [1.0]}, "no name"),
        ({"name": ["a"], "time_s": [1.0], "kind": ["thing"]}, "thing"),
        ({"name": ["a"], "time_s": [1.0], "phase": ["sideways"]}, "sideways"),
        ({"name": ["a"], "time_s": [1.0], "colour": ["red"]}, "label.colour"),
        ({"name": ["a"], "time_s": ["soon"]}, "type"),
        *(
            ({"name": ["a"], "time_s": [1.0], column: [{"x": 2.0}]}, f"another type ({column!r} is")
            for column in ("defined_flops", "flop/fp32")
        ),
        ({"name": ["a", "b"], "time_s": [1.0, 1.0], "id": [1, 1]}, "repeats"),
        ({"name": ["a"], "time_s": [1.0], "parent": [3]}, "parent"),
        *(
            (
                {"name": ["a", "b"], "time_s": [1.0, 1.0], "shape": [shape, None]},
                "'shape' has a size",
            )
            for shape in ([[2, None]], [None, [2]], [[-1, 2]])
        ),
        *(
            ({"name": ["a", "b"], "time_s": [1.0, 1.0], "samples": [samples, []]}, "'samples' has")
            for samples in ([1.0, None], [float("nan")], [-1.0], [1e300])
        ),
    ],
)
def test_what_cannot_be_true_is_refused(
    table: dict[str, list[object]], words: str, source: Source
) -> None:
    with pytest.raises(InputError) as caught:
        Profile.of(pl.DataFrame(table), source)
    assert words in caught.value.message
    assert caught.value.message.startswith("test: ")


def test_null_is_unknown_and_allowed(source: Source) -> None:
    profile = Profile.of([{"name": "a", "time_s": 1.0, "flop/fp32": None}], source)
    assert profile.kernels["flop/fp32"].dtype == pl.Float64
    assert profile.kernels["flop/fp32"][0] is None


def test_rows_that_state_flops_have_none_of_the_others(source: Source) -> None:
    rows = [
        {"name": "conv", "time_s": 3.0, "flop/fp16-tensor": 9.0},
        {"name": "relu", "time_s": 2.0, "flop/fp32": 1.0},
        {"name": "dark", "time_s": 1.0},
        {"name": "half", "time_s": 0.5, "flop/fp32": 1.0, "flop/fp16-tensor": None},
    ]
    table = Profile.of(rows, source).kernels
    assert table["flop/fp32"].to_list() == [0.0, 1.0, None, 1.0]
    assert table["flop/fp16-tensor"].to_list() == [9.0, 0.0, None, None]


@pytest.mark.parametrize(
    "rows", [[{"name": "a", "time_s": 10**400}], 7, [{"name": "\ud800", "time_s": 1.0}]]
)
def test_rows_that_make_no_table(rows: object, source: Source) -> None:
    with pytest.raises(InputError):
        Profile.of(rows, source)  # type: ignore[arg-type]


def test_absurd_sizes_are_refused(source: Source) -> None:
    with pytest.raises(InputError, match="1e\\+308"):
        Profile.of([{"name": "a", "time_s": 1e308}], source)
