"""What `nsys stats` prints as CSV."""

from __future__ import annotations

from pathlib import Path

import pytest

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.formats import ReadOptions, format_named, sniffed
from timeroof.read.open import open_input

SUMMARY = """\
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
75.0,"3,000",3,1000.0,1000.0,900,1100,100.0,"void k<a, b>(int)"
25.0,1000,2,500.0,500.0,500,500,0.0,ncclDevKernel_AllReduce
"""
TRACE = """\
NOTICE: Existing SQLite export found: x.sqlite

Processing [x.sqlite] with [cuda_gpu_trace.py]...
Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,Bytes (MB),Device,Ctx,Strm,Name
100,50,1,2,1,1,64,1,1,24,,NVIDIA A100-SXM4-80GB (0),1,7,"void k<a, b>(int)"
200,50,2,,,,,,,,1.5,NVIDIA A100-SXM4-80GB (0),1,7,[CUDA memcpy Host-to-Device]
300,10,3,,,,,,,,0.5,NVIDIA A100-SXM4-80GB (0),1,7,[CUDA memset]
"""
CALLS = """\
Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
75.0,3000,3,1000.0,1000.0,900,1100,100.0,cudaLaunchKernel
"""


def read(tmp_path: Path, text: str) -> Profile:
    path = tmp_path / "file"
    path.write_text(text)
    found = open_input(path)
    assert sniffed(found) is format_named("nsys-csv")
    return format_named("nsys-csv").read(found, ReadOptions())


def test_a_summary_by_kernel(tmp_path: Path) -> None:
    profile = read(tmp_path, SUMMARY)
    assert profile.kernels.select("kind", "name", "calls").rows() == [
        ("kernel", "void k<a, b>(int)", 3.0),
        ("collective", "ncclDevKernel_AllReduce", 2.0),
    ]
    assert profile.kernels["time_s"].to_list() == pytest.approx([3e-6, 1e-6])


def test_units_of_the_header_count(tmp_path: Path) -> None:
    profile = read(tmp_path, SUMMARY.replace("Total Time (ns)", "Total Time (us)"))
    assert profile.kernels["time_s"].to_list() == pytest.approx([3e-3, 1e-3])


def test_a_trace_behind_a_preamble(tmp_path: Path) -> None:
    profile = read(tmp_path, TRACE)
    assert profile.device == "NVIDIA A100-SXM4-80GB"
    rows = {r["kind"]: r for r in profile.kernels.iter_rows(named=True)}
    assert rows["copy"]["link/pcie"] == 1.5e6
    assert rows["memset"]["byte/dram"] == 0.5e6
    assert rows["kernel"]["label.grid"] == "2x1x1"
    assert rows["copy"]["idle_before_s"] == pytest.approx(50e-9)
    assert profile.wall_s == pytest.approx(210e-9)


def test_calls_of_the_host_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="calls of the host"):
        read(tmp_path, CALLS)
