"""Parquet files that would end the process are refused by their footers."""

from __future__ import annotations

import io

import polars as pl
import pytest

from timeroof.core.errors import InputError
from timeroof.core.parquet import parquet_table, refuse_traps


def written(**columns: pl.Series) -> bytes:
    held = io.BytesIO()
    pl.DataFrame(columns).write_parquet(held)
    return held.getvalue()


def nested(levels: int) -> pl.Series:
    value: object = 7
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return pl.Series([value])


@pytest.mark.parametrize("levels", [20, 100, 400])
def test_columns_of_many_levels_are_refused_before_polars_sees_them(levels: int) -> None:
    with pytest.raises(InputError, match="levels"):
        parquet_table(written(name=nested(levels)), "x")


def test_shapes_and_plain_columns_of_any_number_are_read() -> None:
    columns = {f"c{i}": pl.Series([i]) for i in range(3000)}
    data = written(shape=pl.Series([[[1, 2]]]), samples=pl.Series([[1.0]]), **columns)
    assert parquet_table(data, "x").width == 3002


def test_rows_are_counted_before_they_are_unpacked() -> None:
    data = written(name=pl.Series(["k"]).extend_constant("k", 10_000))
    assert len(data) < 2000
    with pytest.raises(InputError, match="more than 5000 rows"):
        refuse_traps(io.BytesIO(data), "x", max_rows=5000)


def test_a_footer_that_is_cut_or_changed_is_damaged_or_passed() -> None:
    data = written(name=pl.Series(["k"]), time_s=pl.Series([1.0]))
    for place in range(len(data)):
        for changed in (data[:place], data[:place] + b"\xff" + data[place + 1 :]):
            try:
                refuse_traps(io.BytesIO(changed), "x")
            except InputError as error:
                assert error.where == "x"  # noqa: PT017
