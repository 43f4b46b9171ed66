"""Our numbers for the paper against the authors' printed tables and a reading of their pictures."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from timeroof.core.profile import LABEL
from timeroof.paper import sweep
from timeroof.paper.build import _unit, build_paper, paper_roofs
from timeroof.views.pictures.charts import chart_points

KEYS = {
    "op": "operator",
    "phase": "pass",
    "framework": "framework",
    "precision": "precision",
    "batch": "batch",
    "filters": "filters",
    "kernel": "filter_h",
    "stride": "stride",
    "time_steps": "time_steps",
    "features": "features",
    "hidden": "hidden",
}

# digitised.csv states its own error: the largest seen against the printed tables.
BYTES_ERROR, FLOPS_ERROR, TIME_ERROR = 0.014, 0.020, 0.010
# One marker hidden under others (TF2 FP16, 16 time steps) was read 1.52 % off the authors' own
# printed intensity: the reading is off there, not the table.
HIDDEN_ERROR = 0.016


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    return build_paper().rows


def test_every_printed_row(rows: pl.DataFrame, shared_data: Path) -> None:
    printed = pl.read_csv(shared_data / "paper" / "printed_tables.csv", infer_schema_length=None)
    printed = printed.with_columns(pl.col(c).cast(pl.String) for c in KEYS.values())
    ours = [c if c in ("op", "phase") else f"{LABEL}{c}" for c in KEYS]
    both = rows.join(
        printed, left_on=ours, right_on=list(KEYS.values()), nulls_equal=True, suffix="_printed"
    )
    assert both.height == 264
    for name in ("compute_time_s", "bandwidth_time_s", "overhead_time_s"):
        assert (both[name] / both[f"{name}_printed"] - 1).abs().max() < 1e-3
    assert (both["paper_class"] == both["bound"]).all()
    assert (both["byte/dram"] / both["hbm_bytes"] - 1).abs().max() < 1e-3


def test_the_points_we_draw_are_those_in_the_pictures(
    rows: pl.DataFrame, shared_data: Path
) -> None:
    read = pl.read_csv(shared_data / "paper" / "digitised.csv", infer_schema_length=None)
    from timeroof.machines.catalogue import find_machine

    machine = find_machine("v100-paper")
    roofs = paper_roofs(machine)
    compared = 0
    for point in read.filter(pl.col("parameter") != "overhead_box").iter_rows(named=True):
        op, chart, _ = point["figure"].split("_")
        parameter = _parameter(point)
        value = int(str(point["value"]).split("x", maxsplit=1)[0])
        part = sweep(rows, op, "forward", parameter).filter(
            (pl.col("value") == value)
            & (pl.col(f"{LABEL}framework") == point["framework"])
            & (pl.col(f"{LABEL}precision") == point["precision"])
        )
        assert part.height == 1, point
        unit = _unit(part.row(0, named=True), "o")
        [((bytes_, flops), (x, y))] = chart_points([unit], roofs)
        if chart == "time":
            assert point["gbytes"] == pytest.approx(bytes_ / 1e9, rel=BYTES_ERROR)
            assert point["gflops"] == pytest.approx(flops / 1e9, rel=FLOPS_ERROR)
            drawn_s = max(x / roofs.bytes_per_s, y / roofs.flops_per_s)
            assert point["runtime_s"] == pytest.approx(drawn_s, rel=TIME_ERROR)
        else:
            assert point["ai"] == pytest.approx(flops / bytes_, rel=_intensity_error(point))
            rate = flops / unit.time_s / 1e9
            assert point["gflops_per_s"] == pytest.approx(rate, rel=FLOPS_ERROR)
        compared += 1
    assert compared == 246


def test_overhead_boxes_are_those_in_the_pictures(rows: pl.DataFrame, shared_data: Path) -> None:
    read = pl.read_csv(shared_data / "paper" / "digitised.csv", infer_schema_length=None)
    for box in read.filter(pl.col("parameter") == "overhead_box").iter_rows(named=True):
        op, _, figure_parameter = box["figure"].split("_")
        part = sweep(rows, op, "forward", _short(figure_parameter)).filter(
            pl.col(f"{LABEL}framework") == box["framework"]
        )
        assert min((part["launches"] - box["launches"]).abs()) < 0.15


def _parameter(point: dict[str, str]) -> str:
    return _short(point["figure"].split("_")[2])


def _short(word: str) -> str:
    return {"timesteps": "time_steps"}.get(word, word)


def _intensity_error(point: dict[str, str]) -> float:
    return HIDDEN_ERROR if point["note"].startswith("overlapped") else BYTES_ERROR
