"""Nsight Systems' SQLite export: databases of our own in the schemas of several versions."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
import pytest
import zstandard

import timeroof
from tests.recorded_data import DATA, needs_recorded_data
from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.core.run_file import SavedRun, load_run, save_run
from timeroof.read.formats import ReadOptions, format_named, sniffed
from timeroof.read.open import open_input

PROCESS = 7 << 24
THREAD = PROCESS + 5
NAMES = {
    1: "void gemm<float>(float*)",
    2: "gemm",
    3: "void add<float, 4>(float*)",
    4: "add",
    10: "cudaLaunchKernel_v7000",
    11: "cudaStreamSynchronize_v3020",
    12: "cudaGraphLaunch_v10000",
    20: "aten::mm, op_id = 3, sizes = [[2, 3], [3, 4]]",
}
KERNEL_COLUMNS = (
    "start, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName,"
    " gridX, gridY, gridZ, blockX, blockY, blockZ"
)


def write_export(path: Path, *, minimal: bool = False) -> Path:
    """Three kernels, two copies and a memset; launches, a wait, ranges and a device."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", NAMES.items())
        database.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({KERNEL_COLUMNS})")
        kernels = [
            (1000, 2000, 0, 7, 1, PROCESS, 1, 2, 8, 1, 1, 128, 1, 1),
            (2100, 2400, 0, 7, 2, PROCESS, 3, 4, 4, 1, 1, 64, 1, 1),
            (5000, 5300, 0, 7, 3, PROCESS, 3, 4, 4, 1, 1, 64, 1, 1),
        ]
        database.executemany(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({','.join('?' * 14)})", kernels
        )
        if not minimal:
            _write_rest(database)
    database.close()
    return path


def _write_rest(database: sqlite3.Connection) -> None:
    database.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, streamId,"
        " correlationId, globalPid, bytes, copyKind)"
    )
    database.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?,?,?,?,?,?,?,?)",
        [(6000, 6500, 0, 8, 4, PROCESS, 100, 1), (7000, 7100, 0, 7, 5, PROCESS, 50, 8)],
    )
    database.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, streamId,"
        " correlationId, globalPid, bytes)"
    )
    database.execute(
        f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (8000, 8010, 0, 7, 6, {PROCESS}, 16)"
    )
    database.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId)"
    )
    calls = [
        (100, 200, 1, 10),  # long before: gemm starts the window
        (300, 400, 2, 10),  # in time: the device's own gap of 100
        (2000, 2600, 90, 11),  # the host waits for the second kernel …
        (4000, 4100, 3, 10),  # … and only then launches the third
        (500, 600, 4, 10),  # in time, on another stream
        (6900, 6950, 5, 10),  # late, without a wait
    ]
    database.executemany(
        f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,{THREAD},?,?)", calls
    )
    database.execute("CREATE TABLE NVTX_EVENTS (start, end, eventType, globalTid, text, textId)")
    ranges = [(50, 4500, 59, "step 17", None), (60, 450, 59, "forward", None)]
    ranges += [(90, 250, 59, None, 20), (3900, 4200, 59, "autograd backward", None)]
    database.executemany(f"INSERT INTO NVTX_EVENTS VALUES (?,?,?,{THREAD},?,?)", ranges)
    database.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, cuDevice INTEGER)")
    database.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100-SXM4-40GB', 0)")
    database.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
    database.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2025.1')")


def read(path: Path) -> Profile:
    found = open_input(path)
    assert sniffed(found) is format_named("nsys-sqlite")
    return format_named("nsys-sqlite").read(found, ReadOptions())


def row(profile: Profile, **where: str) -> dict[str, object]:
    rows = profile.kernels.filter([pl.col(c) == v for c, v in where.items()])
    assert rows.height == 1, rows
    return rows.row(0, named=True)


def test_kernels_copies_and_memsets_have_their_totals(tmp_path: Path) -> None:
    profile = read(write_export(tmp_path / "a"))
    assert profile.device == "NVIDIA A100-SXM4-40GB"
    assert profile.source.version == "2025.1"
    by_kind = profile.kernels.group_by("kind").agg(pl.col("calls").sum(), pl.col("time_s").sum())
    totals = {k: (c, round(t * 1e9, 3)) for k, c, t in by_kind.iter_rows()}
    assert totals == {"kernel": (3, 1600), "copy": (2, 600), "memset": (1, 10)}
    gemm = row(profile, short_name="gemm")
    assert (gemm["name"], gemm["label.grid"], gemm["byte/dram"]) == (NAMES[1], "8x1x1", None)


def test_copies_use_the_link_or_the_memory(tmp_path: Path) -> None:
    profile = read(write_export(tmp_path / "a"))
    to_device, inside = row(profile, name="Memcpy HtoD"), row(profile, name="Memcpy DtoD")
    assert (to_device["link/pcie"], to_device["byte/dram"]) == (100, 100)
    assert (inside["link/pcie"], inside["byte/dram"]) == (0, 100)
    assert row(profile, kind="memset")["byte/dram"] == 16
    assert row(profile, short_name="gemm")["link/pcie"] == 0


def test_ranges_give_op_shape_module_and_phase(tmp_path: Path) -> None:
    profile = read(write_export(tmp_path / "a"))
    gemm = row(profile, short_name="gemm")
    assert (gemm["op"], gemm["shape"]) == ("aten::mm", [[2, 3], [3, 4]])
    assert (gemm["module"], gemm["phase"]) == ("step/forward", "forward")
    assert row(profile, short_name="add", phase="backward")["module"] == "step/autograd backward"
    assert profile.steps is not None
    assert profile.steps.count == 1


def test_idle_has_causes_that_add_up(tmp_path: Path) -> None:
    profile = read(write_export(tmp_path / "a"))
    causes = {cause: round(s * 1e9, 3) for cause, s in profile.idle_by_cause.items()}
    assert causes == {
        "device": 100,
        "host-sync": 2600,
        "other-stream": 700,
        "launch-starved": 500,
        "unknown": 900,
    }
    assert profile.wall_s == pytest.approx(7010e-9)
    assert profile.kernel_s == pytest.approx(2210e-9)
    assert sum(profile.idle_by_cause.values()) == pytest.approx(7010e-9 - 2210e-9)
    assert profile.kernels["idle_before_s"].sum() == pytest.approx(4800e-9)


def test_timeline_points_to_rows(tmp_path: Path) -> None:
    profile = read(write_export(tmp_path / "a"))
    assert profile.timeline is not None
    assert profile.timeline["start_s"][0] == 0
    names = dict(profile.kernels.select("id", "name").iter_rows())
    assert [names[k] for k in profile.timeline["kernel"]][:2] == [NAMES[1], NAMES[3]]


def test_optional_tables_may_be_absent(tmp_path: Path) -> None:
    profile = read(write_export(tmp_path / "a", minimal=True))
    assert profile.kernels["calls"].sum() == 3
    assert profile.idle_by_cause.keys() == {"unknown"}
    assert any("names no device" in note for note in profile.notes)


def test_kernels_without_a_launch_take_their_op_from_equals(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a")
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
            f" (9000, 9100, 0, 7, 77, {PROCESS}, 1, 2, 8, 1, 1, 128, 1, 1)"
        )
    database.close()
    lent = row(read(path), short_name="gemm", **{"label.inferred": "op"})
    assert lent["op"] == "aten::mm"


def test_nodes_of_a_graph_share_its_launch(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", NAMES.items())
        columns = KERNEL_COLUMNS + ", graphNodeId, graphId"
        database.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({columns})")
        for n, name in enumerate((1, 3, 3)):
            cells = (n * 100, n * 100 + 50, 0, 7, 9, PROCESS, name, None, *[1] * 6, n, 4)
            database.execute(
                f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({','.join('?' * 16)})", cells
            )
    database.close()
    profile = read(path)
    assert profile.kernels["calls"].sum() == 3
    assert profile.kernels["launches"].sum() == 1
    assert set(profile.kernels["label.graph"]) == {"4"}
    assert set(profile.kernels["name"]) == {NAMES[1], NAMES[3]}


def test_several_devices_keep_apart(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a", minimal=True)
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
            f" (1000, 2000, 1, 7, 9, {PROCESS}, 1, 2, 8, 1, 1, 128, 1, 1)"
        )
    database.close()
    profile = read(path)
    assert set(profile.kernels["stream"]) == {"0:7", "1:7"}
    assert profile.kernel_s == pytest.approx((1600e-9 + 1000e-9) / 2)


def test_number_0_of_two_processes_may_be_two_gpus(tmp_path: Path) -> None:
    """Launchers show each rank one GPU (`CUDA_VISIBLE_DEVICES`): all of them call it 0."""
    other = PROCESS + 2**24
    pids = [process // 2**24 % 2**24 for process in (PROCESS, other)]
    path = write_export(tmp_path / "a", minimal=True)
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
            f" (1500, 2500, 0, 7, 1, {other}, 1, 2, 8, 1, 1, 128, 1, 1)"
        )
        database.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, cuDevice INTEGER)")
        database.executemany(
            "INSERT INTO TARGET_INFO_GPU VALUES (?, 'NVIDIA L4', ?)", [(4, 0), (5, 1)]
        )
        database.execute("CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid)")
        places = [(4, 0, pids[0]), (5, 0, pids[1])]
        database.executemany("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?,?,?)", places)
    database.close()
    profile = read(path)
    assert set(profile.kernels["stream"]) == {"4:7", "5:7"}
    assert profile.kernel_s == pytest.approx((1600e-9 + 1000e-9) / 2)
    assert profile.device == "NVIDIA L4"


def test_compressed_and_saved_runs_are_the_same(tmp_path: Path) -> None:
    plain = write_export(tmp_path / "a")
    packed = tmp_path / "b.bin"
    packed.write_bytes(zstandard.compress(plain.read_bytes()))
    profile = read(packed)
    assert profile.kernels.equals(read(plain).kernels)
    save_run(SavedRun(profile, None), tmp_path / "run.troof")
    again = load_run(tmp_path / "run.troof").profile
    assert again.kernels.equals(profile.kernels)
    assert again.timeline is not None
    assert again.timeline.equals(profile.timeline)


def test_an_export_without_kernels_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    database.close()
    with pytest.raises(InputError, match="has no GPU kernels"):
        read(path)


def test_impossible_times_are_left_out_and_said(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a", minimal=True)
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
            f" (9000, 8000, 0, 7, 9, {PROCESS}, 1, 2, 8, 1, 1, 128, 1, 1)"
        )
    database.close()
    profile = read(path)
    assert profile.kernels["calls"].sum() == 3
    assert any("impossible times" in note for note in profile.notes)


@needs_recorded_data
def test_short_names_say_what_a_kernel_does() -> None:
    """Nsight's short name of every element-wise kernel is the same."""
    report = timeroof.load(DATA / "nsys/h100_2gpu_fsdp_1s.sqlite.gz")
    kernels = report.rows.filter(pl.col("kind") == "kernel")
    assert not set(kernels["short_name"]) & {"vectorized_elementwise_kernel", "reduce_kernel"}
