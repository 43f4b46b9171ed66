"""Forward convolutions of the paper against its own counters (V100, Nsight Compute)."""

from __future__ import annotations

import csv

import pytest

from tests.oracles.winograd import reduced_flops
from tests.recorded_data import DATA
from timeroof.work import Call, Cost, Tensor, count

TABLE = DATA / "paper" / "printed_tables.csv"
pytestmark = pytest.mark.skipif(not TABLE.is_file(), reason="the paper's tables are not here")


def rows() -> list[dict[str, str]]:
    if not TABLE.is_file():
        return []
    with TABLE.open(newline="") as file:
        found = [r for r in csv.DictReader(file) if r["operator"] == "conv2d"]
    return [r for r in found if r["pass"] == "forward"]


def cost(row: dict[str, str]) -> Cost:
    dtype = row["precision"].lower()
    batch, filters, kernel, stride = (
        int(row[k]) for k in ("batch", "filters", "filter_h", "stride")
    )
    if row["framework"] == "PT":
        x, w = Tensor((batch, 64, 112, 112), dtype), Tensor((filters, 64, kernel, kernel), dtype)
        bias = Tensor((filters,), dtype)
        return count(Call.of("aten::conv2d", x, w, bias, [stride] * 2, [0, 0], [1, 1], 1))
    x, w = Tensor((batch, 112, 112, 64), dtype), Tensor((kernel, kernel, 64, filters), dtype)
    return count(Call.of("tf::Conv2D", x, w, [1, stride, stride, 1], "SAME", "NHWC"))


def is_reduced(row: dict[str, str]) -> bool:
    return row["precision"] == "FP32" and row["stride"] == "1"


def name(row: dict[str, str]) -> str:
    keys = ("framework", "precision", "batch", "filters", "filter_h", "stride")
    return "-".join(row[k] for k in keys)


@pytest.mark.parametrize("row", rows(), ids=name)
def test_flops_within_three_percent_of_the_counters(row: dict[str, str]) -> None:
    measured, ours = float(row["total_flop"]), cost(row).flops
    if is_reduced(row):
        assert measured < 0.5 * ours
    else:
        assert measured == pytest.approx(ours, rel=0.03)


@pytest.mark.parametrize("row", rows(), ids=name)
def test_compulsory_bytes_never_above_the_counters(row: dict[str, str]) -> None:
    assert cost(row).bytes <= 1.02 * float(row["hbm_bytes"])


@pytest.mark.parametrize("row", [r for r in rows() if is_reduced(r)], ids=name)
def test_reduced_work_rows_are_winograd(row: dict[str, str]) -> None:
    side = 110 if row["framework"] == "PT" else 112
    batch, filters = int(row["batch"]), int(row["filters"])
    found = reduced_flops(
        (batch, 64, 112, 112), (filters, 64, 3, 3), (batch, filters, side, side), (1, 1), (1, 1)
    )
    assert float(row["total_flop"]) == pytest.approx(found["winograd-2x2"], rel=0.08)


def test_there_are_sixty_rows() -> None:
    assert len(rows()) == 60
