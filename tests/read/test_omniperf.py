"""Workload folders of Omniperf / rocprof-compute."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from timeroof.core.errors import InputError
from timeroof.read.formats import ReadOptions, format_named, sniffed
from timeroof.read.open import open_input

COUNTERS = """\
Dispatch_ID,Kernel_Name,GPU_ID,Grid_Size,Workgroup_Size,SQ_WAVES,FETCH_SIZE,WRITE_SIZE,Start_Timestamp,End_Timestamp
0,a.kd,0,64,64,1,1,1,1000,1900
1,b.kd,0,64,64,1,1,1,2000,2900
2,a.kd,0,64,64,1,3,1,3000,3900
"""
TIMES = """\
Dispatch_ID,Kernel_Name,GPU_ID,Grid_Size,Workgroup_Size,Start_Timestamp,End_Timestamp
0,b.kd,0,64,64,100,150
1,a.kd,0,64,64,200,300
2,a.kd,0,64,64,400,520
"""
SYSTEM = """\
workload_name,command,version,gpu_model,gpu_arch,cu_per_gpu
w,./app,3,MI300X_A1,gfx942,304
"""
ROOFLINE = """\
device,HBMBw,HBMBwLow,L2Bw,L1Bw,FP32Flops,MFMABF16Flops,MFMAF4Flops
0,4000,1,25000,32000,120000,500000,0
1,4200,1,25000,32000,120000,500000,0
"""


def write_workload(folder: Path, **changes: str) -> Path:
    tables = {"x": COUNTERS, "y": TIMES, "z": SYSTEM, "r": ROOFLINE} | changes
    folder.mkdir(parents=True)
    for name, text in tables.items():
        if text:
            (folder / name).write_text(text)
    (folder / "log.txt").write_text("hello\n")
    return folder


def test_times_are_of_the_run_without_counters(tmp_path: Path) -> None:
    found = open_input(write_workload(tmp_path / "w"))
    assert sniffed(found) is format_named("omniperf")
    profile = format_named("omniperf").read(found, ReadOptions())
    rows = {r["name"]: r for r in profile.kernels.iter_rows(named=True)}
    assert rows["a"]["time_s"] == pytest.approx(220e-9)
    assert rows["b"]["time_s"] == pytest.approx(50e-9)
    assert rows["a"]["byte/dram"] == 1024 * 6
    assert profile.device == "MI300X_A1"
    assert profile.source.tool == "rocprof-compute"


def test_without_a_clean_run_the_counted_times_stay(tmp_path: Path) -> None:
    found = open_input(write_workload(tmp_path / "w", y=""))
    profile = format_named("omniperf").read(found, ReadOptions())
    assert profile.kernels["time_s"].sum() == pytest.approx(2700e-9)


def test_a_zipped_folder_reads_the_same(tmp_path: Path) -> None:
    folder = write_workload(tmp_path / "w")
    with zipfile.ZipFile(tmp_path / "w.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, path.name)
    found = open_input(tmp_path / "w.zip")
    plain = format_named("omniperf").read(open_input(folder), ReadOptions())
    assert sniffed(found) is format_named("omniperf")
    assert format_named("omniperf").read(found, ReadOptions()).kernels.equals(plain.kernels)


@pytest.mark.parametrize(("text", "says"), [(SYSTEM, "description"), (ROOFLINE, "ceilings")])
def test_tables_without_kernels_are_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x").write_text(text)
    found = open_input(tmp_path / "x")
    assert sniffed(found) is format_named("omniperf")
    with pytest.raises(InputError, match=says):
        format_named("omniperf").read(found, ReadOptions())


def test_several_workloads_are_refused(tmp_path: Path) -> None:
    write_workload(tmp_path / "all" / "one")
    write_workload(tmp_path / "all" / "two")
    with pytest.raises(InputError, match="several workloads"):
        format_named("omniperf").read(open_input(tmp_path / "all"), ReadOptions())
