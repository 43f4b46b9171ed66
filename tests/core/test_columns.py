"""A column of the rows is one definition: rows, JSON, schema, CSV and the page's list follow."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl
import pytest

from tests.conftest import make_machine
from timeroof.api.reports import Report, analyze
from timeroof.core import columns
from timeroof.core.columns import Column
from timeroof.core.profile import Profile, Source
from timeroof.core.report import report_json_schema
from timeroof.views.page.payload import page_payload
from timeroof.views.render import csv_bytes

ROWS: list[dict[str, Any]] = [
    {"name": "gemm", "time_s": 4.0, "flop/fp32": 200.0, "byte/dram": 20.0, "idle_before_s": 1.0},
    {"name": "copy", "kind": "copy", "time_s": 2.0, "byte/dram": 10.0},
    {"name": "odd", "time_s": 1.0, "flop/fp32": None, "byte/dram": None},
]


def report(rows: list[dict[str, Any]] = ROWS) -> Report:
    return analyze(Profile.of(rows, Source(tool="test")), make_machine())


def row(found: Report, name: str) -> dict[str, Any]:
    return found.rows.row(by_predicate=pl.col("name") == name, named=True)


def test_a_new_column_is_one_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = Column(
        "twice_s", pl.Float64, "twice", "Twice the time.", "s",
        source="derived", derive=lambda _: pl.col("time_s") * 2,
    )  # fmt: skip
    monkeypatch.setattr(columns, "COLUMNS", (*columns.COLUMNS, twice))
    found = report()
    assert found.rows["twice_s"].to_list() == [8.0, 4.0, 2.0]
    document = msgspec.json.decode(found.to_json())
    assert [k["twice_s"] for k in document["kernels"]] == [8.0, 4.0, 2.0]
    fields = report_json_schema()["$defs"]["KernelRow"]["properties"]
    assert {"type": "number"} in fields["twice_s"]["anyOf"]
    header, first = csv_bytes(found.rows).decode().splitlines()[:2]
    assert dict(zip(header.split(","), first.split(","), strict=True))["twice_s"] == "8.0"
    payload = page_payload([found], ["r"], "t")
    assert payload["runs"][0]["columns"]["twice_s"] == {"v": [8, 4, 2]}
    assert payload["fields"][-1]["name"] == "twice_s"
    assert columns.column_list()[-1] == {
        "name": "twice_s", "unit": "s", "title": "twice", "doc": "Twice the time.", "prefix": None,
    }  # fmt: skip


def test_every_column_is_in_the_rows_and_documented() -> None:
    found = report()
    for column in columns.COLUMNS:
        assert column.doc.endswith("."), column.name
        if column.prefix is None:
            assert found.rows.schema[column.name] == column.dtype, column.name
    names = [c.name for c in columns.COLUMNS]
    assert len(names) == len(set(names))


def test_derived_columns_follow_from_the_others() -> None:
    found = report()
    gemm, copy, odd = (row(found, name) for name in ("gemm", "copy", "odd"))
    assert (gemm["total_flops"], copy["total_flops"], odd["total_flops"]) == (200.0, 0.0, None)
    assert (gemm["achieved_flop_per_s"], gemm["achieved_byte_per_s"]) == (50.0, 5.0)
    assert (odd["achieved_flop_per_s"], odd["achieved_byte_per_s"]) == (None, None)
    assert gemm["elapsed_s"] == 5.0
    assert [gemm["limit"], odd["limit"]] == ["compute", "unknown"]
    assert gemm["group"] == gemm["short_name"]


def test_padding_is_in_the_flops_and_in_no_coordinate_rate_or_intensity() -> None:
    half = {"padding_flops": 100.0}
    padded = row(report([ROWS[0] | half]), "gemm")
    plain = row(report([ROWS[0] | {"flop/fp32": 100.0}]), "gemm")
    assert padded["total_flops"] == 200.0
    for column in ("compute_at_roof_s", "ai", "achieved_flop_per_s", "bound_s", "compute_time_s"):
        assert padded[column] == plain[column], column


def test_totals_say_which_share_of_the_time_knows_its_flops_and_its_bytes() -> None:
    bytes_only = {"name": "norm", "time_s": 3.0, "flop/fp32": None, "byte/dram": 5.0}
    known = report([*ROWS, bytes_only]).totals.known
    assert known == {"flops": pytest.approx(0.6), "bytes": pytest.approx(0.9)}
    nothing = report([{"name": "k", "time_s": None}]).totals.known
    assert nothing == {"flops": None, "bytes": None}
