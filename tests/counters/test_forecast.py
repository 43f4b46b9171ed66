"""The slow-down is told before it starts."""

from __future__ import annotations

import pytest

from timeroof.counters import CollectOptions, forecast


def test_the_paper_way_is_one_run_per_metric() -> None:
    told = forecast(
        "ncu", "Volta", CollectOptions(metrics_per_run=1, expected_kernels=633, clean_s=10)
    )
    assert (told.runs, told.passes) == (15, 15)
    assert told.low_s == pytest.approx(15 * 633 * 0.02 + 150)
    assert "15 times" in told.text
    assert "10 s clean" in told.text


def test_unknown_kernels_are_told_per_kernel() -> None:
    told = forecast("ncu", "Ada", CollectOptions())
    assert told.low_s is None
    assert "for each kernel" in told.text


def test_other_tools() -> None:
    assert forecast("rocprofv3", "gfx942", CollectOptions(clean_s=2.0)).runs == 3
    told = forecast("perf", "Zen", CollectOptions(subtract=True, rounds=3, clean_s=1.0))
    assert (told.runs, told.low_s) == (6, 6.0)
