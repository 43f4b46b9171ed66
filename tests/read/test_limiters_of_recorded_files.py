"""On recorded traces no limiter claims what is not known."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.recorded_data import files, needs_recorded_data, place
from timeroof.api.reports import load
from timeroof.core.errors import InputError
from timeroof.model.bounds import amounts_known, launch_cost_s

pytestmark = needs_recorded_data


@pytest.mark.parametrize("path", files("kineto/*.json.gz"), ids=place)
def test_no_limiter_without_knowledge_and_no_launching_of_long_kernels(path: Path) -> None:
    try:
        report = load(path)
    except InputError:
        return
    cost_s = launch_cost_s(report.machine)
    rows = report.rows.filter(pl.col("limiter") != "unknown", pl.col("time_s") > 0)
    if cost_s is not None:
        launching = rows.filter(pl.col("limiter") == "launch", pl.col("launches") > 0)
        per_launch = launching["time_s"] / launching["launches"]
        assert (per_launch <= 2 * cost_s * (1 + 1e-9)).all()
    unknown = rows.filter(~amounts_known(report.profile.amount_columns))
    assert (unknown["bound_s"] >= 0.9 * unknown["elapsed_s"]).all()
    # A second kernel of an op is not counted as one that does nothing.
    if {"label.op_calls", "byte/dram"} <= set(rows.columns):
        second = report.rows.filter(pl.col("label.op_calls") == "0")
        assert (second["byte/dram"].is_null() | (second["byte/dram"] > 0)).all()
    # Gains add up, and no second comes back twice.
    gains = [finding.gain_s for finding in report.findings if finding.gain_s is not None]
    assert gains == sorted(gains, reverse=True)
    assert sum(gains) <= (report.totals.ladder.measured_s or 0.0) * (1 + 1e-9)
