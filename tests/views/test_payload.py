"""The page's data on plain values: columns, escaping, hostile names, sizes."""

from __future__ import annotations

import base64
import json
import math
from array import array
from typing import Any

import polars as pl
import pytest

from tests.conftest import make_machine
from tests.views.samples import HOSTILE_NAMES, hostile_report, large_report, step_report
from timeroof.api.reports import analyze
from timeroof.core.profile import Profile, Source
from timeroof.views.page.page import script_safe_json
from timeroof.views.page.payload import WORDS_BUDGET, column, page_payload, run_payload, shortened
from timeroof.views.style import clip, plain_line, plain_lines


def values(encoded: dict[str, Any], rows: int) -> list[Any]:
    """A column as the page's script reads it."""
    if "c" in encoded:
        return [encoded["c"]] * rows
    if "v" in encoded:
        return list(encoded["v"])
    if "f" in encoded:
        data = encoded["f"]
        floats = array("f", data if isinstance(data, bytes) else base64.b64decode(data))
        return [None if math.isnan(value) else value for value in floats]
    return [None if code < 0 else encoded["d"][code] for code in encoded["i"]]


@pytest.mark.parametrize(
    "series",
    [
        pl.Series([1.5, None, 0.0, 1e-12, 3.0]),
        pl.Series([1.0, 2.0, 3e12]),
        pl.Series([None, None], dtype=pl.Float64),
        pl.Series(["a", None, "b", "a"]),
        pl.Series([7, 8, None]),
        pl.Series([], dtype=pl.String),
        pl.Series([], dtype=pl.Float64),
        pl.Series([0.1]),
    ],
)
def test_a_column_says_what_the_table_says(series: pl.Series) -> None:
    found = values(column(series), len(series))
    exact = [pytest.approx(v, rel=1e-6) if isinstance(v, float) else v for v in series]
    assert found == exact


def test_numbers_keep_seven_digits_and_counts_are_whole() -> None:
    assert values(column(pl.Series([1.23456789, 2.0])), 2) == pytest.approx(
        [1.2345679, 2], rel=1e-7
    )
    counts = column(pl.Series([1.0, 210.0, None]))["v"]
    assert counts == [1, 210, None]
    assert all(isinstance(v, int) for v in counts if v is not None)


def test_zero_and_unknown_stay_apart() -> None:
    encoded = column(pl.Series([0.0, None, 1.0]))
    assert values(encoded, 3) == [0, None, 1]


def test_words_that_are_cut_alike_stay_different() -> None:
    names = ["x" * 5000 + "a" + "y" * 5000, "x" * 5000 + "b" + "y" * 5000]
    encoded = column(pl.Series([*names, names[0]]))
    assert encoded["d"][0] == encoded["d"][1]
    assert encoded["i"] == [0, 1, 0]


def test_long_names_share_a_budget() -> None:
    words = [f"{k:06}" + "n" * 100_000 for k in range(5_000)]
    assert sum(map(len, shortened(words))) < 1.1 * WORDS_BUDGET


def test_data_cannot_leave_its_script() -> None:
    text = script_safe_json([*HOSTILE_NAMES, "</script><!--<script>"])
    assert b"</" not in text
    assert b"<!" not in text
    assert json.loads(text) == [*HOSTILE_NAMES, "</script><!--<script>"]


def test_names_are_shown_as_plain_text() -> None:
    shown = [plain_line(name) for name in HOSTILE_NAMES]
    assert all(text.isprintable() for text in shown)
    assert plain_line("Kernel<ä, 中文>") == "Kernel<ä, 中文>"
    assert len(plain_line("z" + "\u0301" * 400)) == 4
    assert plain_lines("a\nb\x07") == "a\nb\ufffd"
    assert len(clip("x" * 100_000, 200)) == 201


def test_the_payload_has_every_row_and_the_bounds_follow_from_it() -> None:
    report = step_report()
    run = run_payload(report, "r")
    rows, verdicts = report.profile.kernels, report.verdicts.table
    assert run["rows"] == rows.height
    assert values(run["columns"]["name"], rows.height) == rows["name"].to_list()
    for resource in report.verdicts.resources:
        name = "launches" if resource == "launch" else resource
        rate = run["roofs"][resource][0]
        found = values(run["columns"][name], rows.height)
        expected = verdicts[f"bound.{resource}"].to_list()
        for amount, bound in zip(found, expected, strict=True):
            assert (amount is None) == (bound is None)
            assert bound is None or amount / rate == pytest.approx(bound, rel=1e-5, abs=1e-15)
    assert run["pair"] == ["flop/bf16-tensor", "byte/dram"]
    assert sum(values(run["columns"]["time_s"], rows.height)) == pytest.approx(
        sum(report.totals.by_limiter.values()), rel=1e-5
    )


def test_columns_of_zeros_are_known_zeros() -> None:
    rows = [{"name": "k", "time_s": 1.0, "flop/fp32": 0.0, "byte/dram": 4.0}]
    run = run_payload(analyze(Profile.of(rows, Source(tool="t")), make_machine()), "r")
    assert run["columns"]["flop/fp32"] == {"c": 0.0}
    assert "flop/fp32" in run["amounts"]


def test_without_a_machine_there_are_no_roofs() -> None:
    rows = [{"name": "k", "time_s": 1.0, "flop/fp32": 1.0, "byte/dram": 4.0}]
    run = run_payload(analyze(Profile.of(rows, Source(tool="t"))), "r")
    assert run["roofs"] == {}
    assert run["pair"] == [None, None]
    assert run["machine"] is None


def test_five_thousand_rows_are_small() -> None:
    report = large_report(5_000)
    data = script_safe_json(page_payload([report], ["r"], "t"))
    assert len(data) < 2_500_000


def test_hostile_names_stay_small_and_in_place() -> None:
    report = hostile_report()
    run = run_payload(report, "x" * 100_000)
    assert len(run["name"]) < 100
    assert len(script_safe_json(run)) < 300_000
    names = values(run["columns"]["name"], run["rows"])
    assert names[0] == HOSTILE_NAMES[0]
    assert all(name.isprintable() for name in names)
