"""rocprofv3's CSV tables, JSON and rocpd database, of invented runs."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import polars as pl
import pytest

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.core.run_file import SavedRun, load_run, save_run
from timeroof.read.formats import Format, ReadOptions, format_named, sniffed
from timeroof.read.open import open_input

KERNELS = """\
"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH","Agent 2",1,0,9,1,8,"void gemm<float, 4>(float*)",11,1763000000000000100,1763000000000000200,64,1,1,256,2,1
"KERNEL_DISPATCH","Agent 2",1,0,9,2,8,"void gemm<float, 4>(float*)",12,1763000000000000300,1763000000000000450,64,1,1,256,2,1
"KERNEL_DISPATCH","Agent 2",1,0,9,3,9,"add.kd",13,1763000000000000500,1763000000000000501,64,1,1,64,1,1
"""
COUNTERS = """\
"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name","Workgroup_Size","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"
1,1,"Agent 2",1,5,5,512,8,"void gemm<float, 4>(float*)",64,"FETCH_SIZE",2.0,100,300
1,1,"Agent 2",1,5,5,512,8,"void gemm<float, 4>(float*)",64,"WRITE_SIZE",1.0,100,300
2,2,"Agent 2",1,5,5,512,8,"void gemm<float, 4>(float*)",64,"FETCH_SIZE",4.0,400,500
2,2,"Agent 2",1,5,5,512,8,"void gemm<float, 4>(float*)",64,"WRITE_SIZE",1.0,400,500
"""
AGENTS = """\
"Node_Id","Logical_Node_Id","Agent_Type","Name","Vendor_Name","Product_Name","Model_Name"
0,0,"CPU","AMD EPYC","CPU","AMD EPYC",""
2,2,"GPU","gfx942","AMD","AMD Instinct MI300X","ip discovery"
"""
CALLS = """\
"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"HIP_RUNTIME_API","hipLaunchKernel",5,9,11,1763000000000000010,1763000000000000020
"HIP_RUNTIME_API","hipLaunchKernel",5,9,12,1763000000000000250,1763000000000000260
"MARKER_CORE_API","backward",5,9,70,1763000000000000240,1763000000000000290
"""
COPIES = """\
"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"MEMORY_COPY","HOST_TO_DEVICE",0,2,14,1763000000000000600,1763000000000000700
"""
STATS = """\
"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"
"gemm",2,250,125.0,99.0,100,150,1.0
"MEMORY_COPY_HOST_TO_DEVICE",1,100,100.0,1.0,100,100,0.0
"""


def read(path: Path, format_: Format) -> Profile:
    found = open_input(path)
    assert sniffed(found) is format_
    return format_.read(found, ReadOptions())


def write_run(folder: Path, **tables: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(tables.values()):
        (folder / f"x{number}").write_text(text)
    return folder


def rows(profile: Profile) -> dict[str, dict[str, object]]:
    return {r["name"]: r for r in profile.kernels.iter_rows(named=True)}


def test_a_kernel_trace_alone(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(KERNELS)
    profile = read(tmp_path / "x", format_named("rocprofv3-csv"))
    found = rows(profile)
    gemm = found["void gemm<float, 4>(float*)"]
    assert (gemm["calls"], gemm["label.grid"]) == (2, "256x2x1")
    assert gemm["time_s"] == pytest.approx(250e-9)
    assert found["add"]["time_s"] == pytest.approx(1e-9)
    assert profile.wall_s == pytest.approx(401e-9)
    assert not profile.amount_columns


def test_a_folder_joins_trace_counters_calls_and_agents(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", k=KERNELS, c=COUNTERS, a=AGENTS, h=CALLS, m=COPIES)
    profile = read(run, format_named("rocprofv3-csv"))
    assert profile.device == "AMD Instinct MI300X"
    found = rows(profile)
    gemms = profile.kernels.filter(pl.col("name").str.contains("gemm"))
    assert gemms["byte/dram"].sum() == 1024 * 8
    assert set(gemms["phase"]) == {None, "backward"}
    assert found["add"]["byte/dram"] is None
    assert found["Memcpy host-to-device"]["link/pcie"] is None
    assert profile.idle_by_cause["launch-starved"] == pytest.approx(100e-9)
    assert any("no bytes for copies" in note for note in profile.notes)


def test_counters_alone_bring_their_own_times(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(COUNTERS)
    profile = read(tmp_path / "x", format_named("rocprofv3-csv"))
    gemm = rows(profile)["void gemm<float, 4>(float*)"]
    assert (gemm["calls"], gemm["byte/dram"]) == (2, 8192)
    assert gemm["time_s"] == pytest.approx(300e-9)
    assert profile.wall_s is None
    assert profile.kernels["idle_before_s"].null_count() == 1


def test_passes_in_folders_are_one_run(tmp_path: Path) -> None:
    write_run(tmp_path / "run" / "pmc_1", k=KERNELS, c=COUNTERS)
    write_run(tmp_path / "run" / "pmc_2", k=KERNELS)
    profile = read(tmp_path / "run", format_named("rocprofv3-csv"))
    assert profile.kernels["calls"].sum() == 3


def test_several_runs_in_a_folder_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "all" / "monday", k=KERNELS)
    write_run(tmp_path / "all" / "tuesday", k=KERNELS)
    with pytest.raises(InputError, match=r"several runs .*monday"):
        read(tmp_path / "all", format_named("rocprofv3-csv"))


def test_statistics(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(STATS)
    found = rows(read(tmp_path / "x", format_named("rocprofv3-csv")))
    assert found["gemm"]["time_s"] == pytest.approx(250e-9)
    assert found["MEMORY_COPY_HOST_TO_DEVICE"]["kind"] == "copy"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (CALLS, "calls of the host and no kernels"),
        (AGENTS, "agents and no kernels"),
        (STATS.split("\n", maxsplit=1)[0] + '\n"hipLaunchKernel",2,250,1,1,1,1,1\n', "host calls"),
    ],
)
def test_tables_without_kernels_are_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(InputError, match=says):
        read(tmp_path / "x", format_named("rocprofv3-csv"))


def make_json() -> dict[str, object]:
    info = {
        "agent_id": {"handle": 77},
        "queue_id": {"handle": 1},
        "kernel_id": 8,
        "dispatch_id": 1,
        "grid_size": {"x": 256, "y": 2, "z": 1},
        "workgroup_size": {"x": 64, "y": 1, "z": 1},
    }
    names = [{"kind": "NONE", "operations": []}, {"kind": "HIP", "operations": ["hipLaunchKernel"]}]
    names.append({"kind": "MEMORY_COPY", "operations": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE"]})
    process = {
        "metadata": {"pid": 1, "command": ["python", "train.py"]},
        "agents": [
            {"id": {"handle": 77}, "type": 2, "node_id": 2, "product_name": "AMD Instinct MI350X"}
        ],
        "counters": [
            {"id": {"handle": 5}, "name": "FETCH_SIZE"},
            {"id": {"handle": 6}, "name": "WRITE_SIZE"},
        ],
        "strings": {"buffer_records": names},
        "kernel_symbols": [
            {"kernel_id": 8, "kernel_name": "g.kd", "formatted_kernel_name": "gemm(float*)"}
        ],
        "buffer_records": {
            "kernel_dispatch": [
                {
                    "start_timestamp": 100,
                    "end_timestamp": 250,
                    "dispatch_info": info,
                    "correlation_id": {"internal": 3},
                },
            ],
            "hip_api": [
                {
                    "kind": 1,
                    "operation": 0,
                    "start_timestamp": 1,
                    "end_timestamp": 9,
                    "correlation_id": {"internal": 3},
                },
            ],
            "memory_copy": [
                {
                    "kind": 2,
                    "operation": 1,
                    "start_timestamp": 300,
                    "end_timestamp": 400,
                    "bytes": 64,
                    "dst_agent_id": {"handle": 77},
                    "src_agent_id": {"handle": 1},
                },
            ],
        },
        "callback_records": {
            "counter_collection": [
                {
                    "dispatch_data": {"dispatch_info": info},
                    "records": [
                        {"counter_id": {"handle": 5}, "value": 1.0},
                        {"counter_id": {"handle": 5}, "value": 2.0},
                        {"counter_id": {"handle": 6}, "value": 1.0},
                    ],
                }
            ]
        },
    }
    return {"rocprofiler-sdk-tool": [process]}


def test_json(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(json.dumps(make_json()))
    profile = read(tmp_path / "x", format_named("rocprofv3-json"))
    assert (profile.device, profile.source.command) == ("AMD Instinct MI350X", "python train.py")
    found = rows(profile)
    assert found["gemm(float*)"]["byte/dram"] == 1024 * 4
    assert found["gemm(float*)"]["time_s"] == pytest.approx(150e-9)
    assert found["Memcpy host-to-device"]["link/pcie"] == 64
    assert profile.wall_s == pytest.approx(300e-9)


def test_a_copy_belongs_to_the_gpu_where_its_operation_has_no_name(tmp_path: Path) -> None:
    """Else it would be a second device, and times per device half of what they are."""
    document = make_json()
    process = document["rocprofiler-sdk-tool"][0]  # type: ignore[index]
    process["strings"] = {}
    process["agents"].append({"id": {"handle": 1}, "type": 1, "node_id": 0, "name": "AMD EPYC"})
    (tmp_path / "x").write_text(json.dumps(document))
    profile = read(tmp_path / "x", format_named("rocprofv3-json"))
    assert profile.kernel_s == pytest.approx(250e-9)
    assert not [n for n in profile.notes if "devices" in str(n)]


def test_json_without_kernels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"rocprofiler-sdk-tool": [{"buffer_records": {}}]}')
    with pytest.raises(InputError, match="no kernel dispatches"):
        read(tmp_path / "x", format_named("rocprofv3-json"))


def write_rocpd(path: Path) -> Path:
    """A database of one process, tables suffixed as rocprofv3 does it."""
    tail = "_00003fdc_92cb"
    tables = {
        "kernel_dispatch": "start,end,agent_id,kernel_id,queue_id,stream_id,event_id,grid_size_x,grid_size_y,grid_size_z,workgroup_size_x,workgroup_size_y,workgroup_size_z",
        "info_kernel_symbol": "id,display_name",
        "info_agent": "id,product_name",
        "event": "id,stack_id,correlation_id,category_id",
        "string": "id,string",
        "region": "start,end,tid,name_id,event_id",
        "info_pmc": "id,name",
        "pmc_event": "event_id,pmc_id,value",
        "memory_copy": "start,end,name_id,dst_agent_id,src_agent_id,size,stream_id,event_id",
        "info_process": "command",
    }
    cells: dict[str, list[tuple[object, ...]]] = {
        "kernel_dispatch": [
            (100, 250, 2, 8, 1, 0, 1, 256, 2, 1, 64, 1, 1),
            (400, 450, 2, 8, 1, 0, 2, 256, 2, 1, 64, 1, 1),
        ],
        "info_kernel_symbol": [(8, "gemm(float*)")],
        "info_agent": [(0, "AMD EPYC"), (2, "AMD Instinct MI300X")],
        "event": [(1, 21, 0, 0), (2, 22, 0, 0), (3, 21, 0, 1), (4, 22, 0, 1), (5, 23, 0, 2)],
        "string": [
            (1, "HIP_RUNTIME_API"),
            (2, "MARKER_CORE_API"),
            (3, "hipLaunchKernel"),
            (4, "optimizer"),
            (5, "MEMORY_COPY_DEVICE_TO_HOST"),
        ],
        "region": [(10, 20, 9, 3, 3), (300, 350, 9, 3, 4), (290, 360, 9, 4, 5)],
        "info_pmc": [(1, "FETCH_SIZE"), (2, "WRITE_SIZE")],
        "pmc_event": [(1, 1, 1.0), (1, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0), (2, 2, 1.0)],
        "memory_copy": [(500, 600, 5, 0, 2, 64, 0, None)],
        "info_process": [("./app",)],
    }
    with sqlite3.connect(path) as database:
        for name, columns in tables.items():
            database.execute(f"CREATE TABLE `rocpd_{name}{tail}` ({columns})")
            marks = ",".join("?" * len(columns.split(",")))
            database.executemany(f"INSERT INTO `rocpd_{name}{tail}` VALUES ({marks})", cells[name])
    database.close()
    return path


def test_rocpd(tmp_path: Path) -> None:
    profile = read(write_rocpd(tmp_path / "x"), format_named("rocpd"))
    assert (profile.device, profile.source.command) == ("AMD Instinct MI300X", "./app")
    gemms = profile.kernels.filter(pl.col("name") == "gemm(float*)")
    assert gemms["byte/dram"].sum() == 1024 * 5
    assert set(gemms["phase"]) == {None, "optimizer"}
    assert gemms["time_s"].sum() == pytest.approx(200e-9)
    copy = rows(profile)["Memcpy device-to-host"]
    assert (copy["kind"], copy["link/pcie"], copy["byte/dram"]) == ("copy", 64, 64)
    assert profile.idle_by_cause["launch-starved"] == pytest.approx(150e-9)


def test_rocpd_reads_no_views(tmp_path: Path) -> None:
    """A view is a program: one that never ends must not be run."""
    path = write_rocpd(tmp_path / "x")
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT * FROM c"
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE VIEW rocpd_kernel_dispatch AS {endless}")
    database.close()
    assert read(path, format_named("rocpd")).kernels["calls"].sum() == 3


def test_saved_runs_are_the_same(tmp_path: Path) -> None:
    profile = read(write_rocpd(tmp_path / "x"), format_named("rocpd"))
    save_run(SavedRun(profile, None), tmp_path / "run.troof")
    assert load_run(tmp_path / "run.troof").profile.kernels.equals(profile.kernels)
