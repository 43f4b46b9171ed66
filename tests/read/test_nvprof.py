"""nvprof: units of 1024, copies and their bytes, idle between activities, inferred times."""

from __future__ import annotations

from pathlib import Path

import pytest

from timeroof.core.errors import InputError
from timeroof.read.load import read_files

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "read"


def test_seconds_of_a_trace_add_up() -> None:
    for name in ("nvprof_trace.csv", "nvprof_trace.txt"):
        profile = read_files([GOLDEN / name])
        kernels = profile.kernels
        assert profile.wall_s == pytest.approx(
            kernels["time_s"].sum() + kernels["idle_before_s"].sum()
        )
        assert profile.kernel_s == pytest.approx(kernels["time_s"].sum())


def test_overlapping_streams_count_once(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(
        '"Start","Duration","Device","Stream","Name"\ns,s,,,\n'
        '0,2,"P100 (0)","7","a"\n1,2,"P100 (0)","8","b"\n5,1,"P100 (0)","7","a"\n'
    )
    profile = read_files([path])
    assert (profile.wall_s, profile.kernel_s) == (6.0, 4.0)
    assert sorted(profile.kernels["idle_before_s"].to_list()) == [0.0, 2.0]


def test_a_copy_on_the_device_reads_and_writes(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(
        '"Start","Duration","Size","Device","Stream","Name"\nms,us,MB,,,\n'
        '0,1,1,"P100 (0)","7","[CUDA memcpy DtoD]"\n1,1,1,"P100 (0)","7","[CUDA memcpy HtoD]"\n'
        '2,1,1,"P100 (0)","7","[CUDA memset]"\n'
    )
    rows = {r["name"]: r for r in read_files([path]).kernels.to_dicts()}
    size = 2**20
    assert rows["[CUDA memcpy DtoD]"]["byte/dram"] == 2 * size
    assert rows["[CUDA memcpy HtoD]"]["byte/dram"] == size
    assert rows["[CUDA memset]"]["byte/dram"] == size
    assert [rows[n]["link/pcie"] for n in rows] == [
        size if "HtoD" in name else 0.0 for name in rows
    ]


def test_a_summary_whose_units_are_lost_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text('"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\nx,%,parsec,,,,,\n')
    with pytest.raises(InputError, match="unit 'parsec'"):
        read_files([path])


def test_metrics_without_times_are_refused_by_name(tmp_path: Path) -> None:
    text = (GOLDEN / "nvprof_metrics.txt").read_text()
    kept = [line for line in text.split("\n") if "throughput" not in line]
    path = tmp_path / "x"
    path.write_text("\n".join(kept))
    with pytest.raises(InputError, match="has metrics but no times: dram_read_bytes"):
        read_files([path])


def test_tensor_flops_are_unknown_where_the_unit_worked(tmp_path: Path) -> None:
    text = (GOLDEN / "nvprof_metrics.txt").read_text()
    path = tmp_path / "x"
    path.write_text(
        text.replace("Idle (0)    Idle (0)    Idle (0)", "Idle (0)    High (7)     Low (1)")
    )
    profile = read_files([path])
    assert profile.kernels["flop/fp16-tensor"].to_list() == [None]
    assert any("does not count tensor FLOPs" in note for note in profile.notes)
