"""Warnings say who disturbed the measurement and what to do."""

from __future__ import annotations

from pathlib import Path

from timeroof.probe.sampling import Watch, read_cpu_times, spread_warning

from .fake_system import write


def stat(root: Path, user: int, idle: int, stolen: int) -> None:
    write(root, {"proc/stat": f"cpu  {user} 0 0 {idle} 0 0 0 {stolen} 0 0\ncpu0 1 2 3\n"})


def test_a_quiet_machine_gets_no_warning(tmp_path: Path) -> None:
    stat(tmp_path, 0, 0, 0)
    own = iter([0.0, 5.0])
    watch = Watch(tmp_path, own_time=lambda: next(own))
    stat(tmp_path, 505, 500, 0)
    assert watch.warnings() == []


def test_other_programs_and_the_host_are_told(tmp_path: Path) -> None:
    stat(tmp_path, 0, 0, 0)
    own = iter([0.0, 2.0])
    watch = Watch(tmp_path, own_time=lambda: next(own))
    stat(tmp_path, 500, 400, 100)
    others, stolen = watch.warnings()
    assert "Other programs used 30 %" in others
    assert "--fresh" in others
    assert "10 %" in stolen


def test_without_proc_nothing_is_said(tmp_path: Path) -> None:
    assert read_cpu_times(tmp_path) is None
    assert Watch(tmp_path).warnings() == []
    write(tmp_path, {"proc/stat": "cpu 1 2\n"})
    assert read_cpu_times(tmp_path) is None
    write(tmp_path, {"proc/stat": "cpu a b\n"})
    assert read_cpu_times(tmp_path) is None


def test_wide_spreads_are_told_with_the_worst_first() -> None:
    assert spread_warning({"a": 0.01, "b": 0.05}, disturbed=True) is None
    text = spread_warning({"a": 0.01, "b": 0.2, "c": 0.4}, disturbed=True) or ""
    assert text.startswith("2 of 3 ceilings vary by more than 10 %")
    assert "c (40 %)" in text


def test_a_machine_is_called_busy_only_where_somebody_was_seen() -> None:
    busy = spread_warning({"a": 0.2}, disturbed=True) or ""
    quiet = spread_warning({"a": 0.2}, disturbed=False) or ""
    assert "busy" not in busy + quiet
    assert "No other program was seen." in quiet
    assert "No other program" not in busy
