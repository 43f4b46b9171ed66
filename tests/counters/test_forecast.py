"""The slow-down is told before it starts."""

from __future__ import annotations

from timeroof.counters import CollectOptions
from timeroof.counters.options import find_set, forecast, select


def told(tool: str, chip: str, options: CollectOptions) -> str:
    return forecast(tool, select(find_set(tool, chip), lambda _: True, ""), options)


def test_the_paper_way_is_one_run_per_metric() -> None:
    paper = CollectOptions(metrics_per_run=1, expected_kernels=633, clean_s=10)
    text = told("ncu", "Volta", paper)
    assert "15 times, about 15 passes over every kernel of 633: about" in text
    assert "10 s clean" in text


def test_unknown_kernels_have_no_seconds() -> None:
    assert told("ncu", "Ada", CollectOptions()).endswith("passes over every kernel")


def test_other_tools() -> None:
    assert "3 times: about 9.0 s" in told("rocprofv3", "gfx942", CollectOptions(clean_s=2.0))
    perf = CollectOptions(subtract=True, rounds=3, clean_s=1.0)
    assert "6 times: about 6.0 s" in told("perf", "Zen", perf)
