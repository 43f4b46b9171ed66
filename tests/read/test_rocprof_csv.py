"""rocprof v1 and v2 CSV, and counters rewritten in Nsight Compute's form."""

from __future__ import annotations

from pathlib import Path

import pytest

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.formats import ReadOptions, format_named, sniffed
from timeroof.read.open import open_input

V1 = """\
"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr","arch_vgpr","accum_vgpr","sgpr","wave_size","sig","obj","FetchSize","WriteSize","DispatchNs","BeginNs","EndNs","CompleteNs","DurationNs"
0,"body(Body*, float) [clone .kd]",0,0,0,1,1,65536,256,0,0,20,4,16,64,"0x0","0x7f",2.0,1.0,1000,1100,1400,1500,300
1,"body(Body*, float) [clone .kd]",0,0,0,1,1,65536,256,0,0,20,4,16,64,"0x0","0x7f",2.0,3.0,2000,2100,2200,2500,100
"""
V2 = """\
Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,TCC_EA_RDREQ[0],TCC_EA_RDREQ[1],TCC_EA_RDREQ_32B_sum,TCC_EA_WRREQ_sum,TCC_EA_WRREQ_64B_sum

1,2,1,1,1,64,64,"vecCopy(double*, int) (.kd)",4155200000000.25,4155200000100.75,0,1,2,0,1,1
"""
REWRITTEN = """\
\ufeffID,Process ID,Process Name,Host Name,Kernel Name,Kernel Time,Context,Stream,Section Name,Metric Name,Metric Unit,Metric Value
0,1,app,h,Current,t,1,16,m,FetchSize,bytes,1000
0,1,app,h,Current,t,1,16,m,WriteSize,bytes,24
0,1,app,h,Current,t,1,16,m,time,us,2.5
"""


def read(tmp_path: Path, text: str) -> Profile:
    path = tmp_path / "file"
    path.write_text(text)
    found = open_input(path)
    assert sniffed(found) is format_named("rocprof-csv")
    return format_named("rocprof-csv").read(found, ReadOptions())


def test_version_1(tmp_path: Path) -> None:
    row = read(tmp_path, V1).kernels.row(0, named=True)
    assert (row["name"], row["calls"]) == ("body(Body*, float)", 2)
    assert row["time_s"] == pytest.approx(400e-9)
    assert row["byte/dram"] == 1024 * 8


def test_version_2_with_channels_and_fractions(tmp_path: Path) -> None:
    row = read(tmp_path, V2).kernels.row(0, named=True)
    assert row["name"] == "vecCopy(double*, int)"
    assert row["time_s"] == pytest.approx(100.5e-9, rel=1e-4)
    assert row["byte/dram"] == 64 * 3 + 64


def test_durations_alone_are_enough(tmp_path: Path) -> None:
    text = "Index,KernelName,gpu-id,DurationNs\n0,k,0,300\n1,k,0,100\n"
    assert read(tmp_path, text).kernels["time_s"].to_list() == pytest.approx([400e-9])


def test_rounded_timestamps_are_unknown_times(tmp_path: Path) -> None:
    text = V2.replace("4155200000000.25,4155200000100.75", "8.1097E+14,8.1097E+14")
    profile = read(tmp_path, text)
    assert profile.kernels["time_s"].to_list() == [None]
    assert profile.kernels["byte/dram"].to_list() == [256]
    assert any("rounded" in note for note in profile.notes)


def test_counters_without_times_are_kept(tmp_path: Path) -> None:
    text = "Index,KernelName,gpu-id,FETCH_SIZE,WRITE_SIZE\n0,k,0,1,1\n"
    profile = read(tmp_path, text)
    assert profile.kernels.row(0, named=True)["byte/dram"] == 2048
    assert any("no times" in note for note in profile.notes)


def test_names_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without times and without counters"):
        read(tmp_path, "Dispatch_ID,Kernel_Name,GPU_ID\n0,k,0\n")


def test_top_kernels(tmp_path: Path) -> None:
    text = 'Kernel_Name,Count,Sum(ns),Mean(ns)\n"k<1, 2>",3,300.5,100\n'
    row = read(tmp_path, text).kernels.row(0, named=True)
    assert (row["name"], row["calls"]) == ("k<1, 2>", 3)
    assert row["time_s"] == pytest.approx(300.5e-9)


def test_rewritten_counters_keep_their_units(tmp_path: Path) -> None:
    row = read(tmp_path, REWRITTEN).kernels.row(0, named=True)
    assert (row["name"], row["byte/dram"]) == ("Current", 1024)
    assert row["time_s"] == pytest.approx(2.5e-6)
