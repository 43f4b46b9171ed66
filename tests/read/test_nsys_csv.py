"""What `nsys stats` prints as CSV."""

from __future__ import annotations

from pathlib import Path

import pytest

from timeroof.core.errors import InputError, as_notes
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


def test_all_that_nsys_stats_prints_is_one_run(tmp_path: Path) -> None:
    """Reports one after the other: calls of the host first, then kernels, copies and their sizes."""
    copies = SUMMARY.splitlines()[0].replace("Instances", "Count").replace("Name", "Operation")
    sizes = "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation"
    printed = [
        CALLS, SUMMARY,
        f"{copies}\n100.0,500,1,500,500,500,500,0,[CUDA memcpy Host-to-Device]\n",
        f"{sizes}\n9.0,1,9.0,9.0,9.0,9.0,0.0,[CUDA memcpy Host-to-Device]\n",
    ]  # fmt: skip
    for between in ("", "\n", "\nProcessing [x.sqlite] with [x.py]...\n"):
        profile = read(tmp_path, between.join(printed))
        assert profile.kernels.select("kind", "calls").rows() == [
            ("kernel", 3.0), ("collective", 2.0), ("copy", 1.0),
        ]  # fmt: skip
        assert profile.kernels["time_s"].sum() == pytest.approx(4.5e-6)


def test_a_summary_in_columns(tmp_path: Path) -> None:
    """What `nsys stats` prints without a format."""
    profile = read(
        tmp_path,
        """
 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Min (ns)  Max (ns)          Name
 --------  ---------------  ---------  --------  --------  --------  -------------------
     75.0            3,000          3   1,000.0       900     1,100  void k<a, b>(int, int)
     25.0            1,000          2     500.0       500       500  ncclDevKernel_AllReduce

""",
    )
    assert profile.kernels.select("name", "calls").rows() == [
        ("void k<a, b>(int, int)", 3.0), ("ncclDevKernel_AllReduce", 2.0),
    ]  # fmt: skip
    assert profile.kernels["time_s"].sum() == pytest.approx(4e-6)


def test_columns_of_older_versions(tmp_path: Path) -> None:
    old = "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n100.0,30,3,10,9,11,k\n"
    assert read(tmp_path, old).kernels.select("calls", "time_s").row(0) == (3.0, 30e-9)
    old = "Start(nsec),Duration(nsec),CorrId,GrdX,Device,Ctx,Strm,Name\n5,30,1,2,NVIDIA L4 (0),1,7,k\n"
    assert read(tmp_path, old).kernel_s == pytest.approx(30e-9)


def test_kernels_beside_the_calls_that_launched_them(tmp_path: Path) -> None:
    """`cuda_kern_exec_trace`: no stream and no device's name."""
    profile = read(
        tmp_path,
        """\
API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),Total Dur (ns),PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name
100,50,150,50,200,300,400,9,9,0,cudaLaunchKernel,   1    1    1,  32    1    1,k
600,50,650,50,700,300,400,9,9,1,cudaLaunchKernel,   1    1    1,  32    1    1,k
""",
    )
    assert profile.device is None
    assert profile.kernel_s == pytest.approx(300e-9)
    assert profile.wall_s == pytest.approx(800e-9)
    assert "no-launches" not in {note.code for note in as_notes(profile.notes)}
