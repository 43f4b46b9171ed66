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


def test_a_limit_bounds_it() -> None:
    told = forecast("ncu", "Hopper", CollectOptions(expected_kernels=10**6, max_kernels=10))
    assert told.kernels == 10
    assert told.high_s is not None
    assert told.high_s < 60


def test_unknown_kernels_are_told_per_kernel() -> None:
    told = forecast("ncu", "Ada", CollectOptions())
    assert told.low_s is None
    assert "for each kernel" in told.text


def test_application_replay_runs_the_program_per_pass() -> None:
    told = forecast("ncu", "Ampere", CollectOptions(replay="application", clean_s=1.0))
    assert told.runs == told.passes > 1


def test_other_tools() -> None:
    assert forecast("rocprofv3", "gfx942", CollectOptions(clean_s=2.0)).runs == 3
    told = forecast("perf", "Zen", CollectOptions(subtract=True, rounds=3, clean_s=1.0))
    assert (told.runs, told.low_s) == (6, 6.0)
