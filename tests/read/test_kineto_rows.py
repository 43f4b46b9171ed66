"""Kernels of small invented traces, linked to launches, ops, modules and phases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import timeroof
from tests.kineto_events import ENGINE, STREAM, document, event, kernel, launch, op
from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.core.run_file import SavedRun, load_run, save_run
from timeroof.read.formats import ReadOptions, format_named
from timeroof.read.open import open_input

MM = {
    "Input Dims": [[4, 8], [8, 2]],
    "Input type": ["float", "float"],
    "Input Strides": [[8, 1], [2, 1]],
    "Concrete Inputs": ["", ""],
}


def read_text(folder: Path, text: bytes | str, companions: tuple[Path, ...] = ()) -> Profile:
    path = folder / "file"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    found = open_input(path)
    assert format_named("kineto").sniff(found)
    return format_named("kineto").read(
        found, ReadOptions(companions=tuple(open_input(c) for c in companions))
    )


def read(folder: Path, events: list[dict[str, Any]], **top: Any) -> Profile:
    return read_text(folder, json.dumps(document(events, **top)))


def row(profile: Profile, **wanted: object) -> Mapping[str, Any]:
    found = profile.kernels
    for column, value in wanted.items():
        found = found.filter(pl.col(column) == value)
    assert found.height == 1, found
    return found.row(0, named=True)


TRAINING = [
    event("user_annotation", "ProfilerStep#4", 0, 400),
    event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 0, 30),
    event("python_function", "nn.Module: Net_0", 30, 60),
    event("python_function", "nn.Module: Linear_1", 35, 40),
    event("python_function", "train.py(3): step", 30, 300),
    op("aten::linear", 40, 30, **{"Sequence number": 5}),
    op("aten::mm", 45, 20, **{**MM, "Sequence number": 5}),
    launch(1, 50),
    kernel("sgemm", 60, 10, 1, grid=(2, 1, 1)),
    op(
        "autograd::engine::evaluate_function: MmBackward0",
        100,
        40,
        ENGINE,
        **{"Sequence number": 5},
    ),
    op("MmBackward0", 105, 30, ENGINE, **{"Sequence number": 5}),
    op("aten::mm", 110, 20, ENGINE, **MM),
    launch(2, 115, tid=ENGINE),
    launch(3, 118, tid=ENGINE),
    kernel("sgemm_back", 120, 8, 2),
    kernel("splitk", 130, 2, 3),
    event("user_annotation", "Optimizer.step#SGD.step", 200, 50),
    op("aten::add_", 210, 20, **{"Input Dims": [[16]], "Input type": ["c10::Half"]}),
    launch(4, 215),
    kernel("add_half", 220, 5, 4),
    event("cuda_runtime", "cudaMemcpyAsync", 300, 5, correlation=5),
    event(
        "gpu_memcpy",
        "Memcpy HtoD (Pinned -> Device)",
        310,
        4,
        STREAM,
        0,
        stream=STREAM,
        device=0,
        correlation=5,
        bytes=64,
    ),
    event(
        "gpu_memset",
        "Memset (Device)",
        320,
        1,
        STREAM,
        0,
        stream=STREAM,
        device=0,
        correlation=99,
        bytes=32,
    ),
    kernel("sgemm", 330, 10, 77, grid=(2, 1, 1)),
    kernel("sgemm", 350, 10, 78, grid=(9, 1, 1)),
]


def test_a_kernel_has_its_op_shapes_module_and_phase(tmp_path: Path) -> None:
    forward = row(read(tmp_path, TRAINING), **{"name": "sgemm", "label.link": "launch"})
    assert forward["op"] == "aten::mm"
    assert forward["label.outer_op"] == "aten::linear"
    assert forward["module"] == "Net_0/Linear_1"
    assert forward["phase"] == "forward"
    assert (forward["shape"], forward["dtype"]) == ([[4, 8], [8, 2]], "fp32")
    assert json.loads(forward["label.input_dims"]) == MM["Input Dims"]
    assert json.loads(forward["label.input_types"]) == MM["Input type"]
    assert json.loads(forward["label.input_strides"]) == MM["Input Strides"]
    assert json.loads(forward["label.concrete_inputs"]) == MM["Concrete Inputs"]
    assert (forward["device"], forward["stream"], forward["rank"]) == ("Toy GPU", "7", 3)
    assert forward["time_s"] == pytest.approx(10e-6)
    assert forward["origin.time"] == "measured"


def test_backward_takes_the_module_of_its_forward_op(tmp_path: Path) -> None:
    backward = row(read(tmp_path, TRAINING), name="sgemm_back")
    assert (backward["phase"], backward["module"]) == ("backward", "Net_0/Linear_1")


def test_an_op_with_two_kernels_is_counted_once(tmp_path: Path) -> None:
    profile = read(tmp_path, TRAINING)
    assert row(profile, name="sgemm_back")["label.op_calls"] == "1"
    assert row(profile, name="splitk")["label.op_calls"] == "0"


def test_two_kernels_of_one_name_share_their_op(tmp_path: Path) -> None:
    profile = read(
        tmp_path,
        [
            op("aten::x", 0, 20, **MM),
            launch(1, 1),
            launch(2, 4),
            kernel("half", 30, 5, 1),
            kernel("half", 40, 6, 2),
        ],
    )
    assert row(profile, name="half")["label.op_calls"] == "1"
    assert row(profile, name="half")["calls"] == 2
    assert row(profile, name="half")["samples"] == pytest.approx([5e-6, 6e-6])
    assert row(profile, name="half")["time_spread"] == pytest.approx(0.5 / 5.5)


def test_kernels_without_a_launch_borrow_by_name_and_grid(tmp_path: Path) -> None:
    profile = read(tmp_path, TRAINING)
    inferred = row(profile, **{"name": "sgemm", "label.link": "inferred"})
    assert (inferred["op"], inferred["shape"], inferred["calls"]) == (
        "aten::mm",
        [[4, 8], [8, 2]],
        1,
    )
    assert inferred["label.inferred"] == "op"
    other_grid = row(profile, **{"name": "sgemm", "label.link": "none"})
    assert (other_grid["op"], other_grid["shape"]) == (None, None)
    assert any("2 of 6 kernels have no launch" in n for n in profile.notes)


def test_phases_of_the_optimizer(tmp_path: Path) -> None:
    added = row(read(tmp_path, TRAINING), name="add_half")
    assert (added["phase"], added["dtype"]) == ("optimizer", "fp16")


def test_copies_and_memsets_have_bytes(tmp_path: Path) -> None:
    profile = read(tmp_path, TRAINING)
    copy, memset = row(profile, kind="copy"), row(profile, kind="memset")
    assert (copy["byte/dram"], copy["link/pcie"]) == (64.0, 64.0)
    assert (memset["byte/dram"], memset["link/pcie"]) == (32.0, 0.0)
    assert row(profile, name="add_half")["byte/dram"] is None


def test_steps_timeline_and_device(tmp_path: Path) -> None:
    profile = read(tmp_path, TRAINING)
    assert profile.device == "Toy GPU"
    assert profile.steps is not None
    assert (profile.steps.count, profile.steps.profiled_s) == (1, pytest.approx(400e-6))
    assert profile.timeline is not None
    assert profile.timeline["start_s"].to_list()[:2] == pytest.approx([0, 60e-6])
    ids = set(profile.kernels["id"].to_list())
    assert set(profile.timeline["kernel"].to_list()) <= ids


def test_idle_adds_up_to_the_window(tmp_path: Path) -> None:
    profile = read(tmp_path, TRAINING)
    assert profile.wall_s == pytest.approx(300e-6)
    assert profile.kernel_s == pytest.approx(50e-6)
    assert sum(profile.idle_by_cause.values()) == pytest.approx(250e-6)
    assert profile.kernels["idle_before_s"].sum() == pytest.approx(250e-6)


@pytest.mark.parametrize(
    ("extra", "cause"),
    [
        ([launch(2, 50), kernel("b", 60, 5, 2)], "launch-starved"),
        ([launch(2, 5), kernel("b", 60, 5, 2)], "device"),
        ([launch(2, 5), kernel("b", 60, 5, 2, stream=8)], "other-stream"),
        ([kernel("b", 60, 5, 2)], "unknown"),
        (
            [launch(9, 8, 15, name="cudaStreamSynchronize"), launch(2, 50), kernel("b", 60, 5, 2)],
            "host-sync",
        ),
        (
            [
                event("user_annotation", "enumerate(DataLoader)#x", 21, 25),
                launch(2, 50),
                kernel("b", 60, 5, 2),
            ],
            "data",
        ),
        (
            [
                event("overhead", "Activity Buffer Request", 21, 35),
                launch(2, 50),
                kernel("b", 60, 5, 2),
            ],
            "profiler",
        ),
    ],
)
def test_causes_of_idle(tmp_path: Path, extra: list[dict[str, Any]], cause: str) -> None:
    profile = read(tmp_path, [launch(1, 0), kernel("a", 10, 10, 1), *extra])
    assert profile.idle_by_cause == {cause: pytest.approx(40e-6)}
    assert row(profile, name="b")["label.idle_cause"] == cause


def test_overlapping_streams_are_a_union(tmp_path: Path) -> None:
    profile = read(
        tmp_path,
        [
            launch(1, 0),
            launch(2, 1),
            launch(3, 2),
            kernel("a", 10, 30, 1),
            kernel("b", 20, 10, 2, stream=8),
            kernel("c", 35, 10, 3, stream=8),
        ],
    )
    assert profile.kernel_s == pytest.approx(35e-6)
    assert profile.idle_by_cause == {}


def test_launch_delay(tmp_path: Path) -> None:
    profile = read(
        tmp_path, [launch(1, 0), launch(2, 5), kernel("a", 10, 30, 1), kernel("b", 40, 10, 2)]
    )
    later = row(profile, name="b")
    assert float(later["label.launch_delay_s"]) == pytest.approx(35e-6)


def test_a_replayed_graph_is_one_launch_and_keeps_kernel_names(tmp_path: Path) -> None:
    profile = read(
        tmp_path,
        [
            op("aten::somewhere", 0, 10, **MM),
            launch(1, 2, name="cudaGraphLaunch"),
            kernel("k1", 20, 5, 1),
            kernel("k2", 26, 5, 1),
        ],
    )
    assert profile.kernels["launches"].sum() == pytest.approx(1)
    assert set(profile.kernels["name"]) == {"k1", "k2"}
    assert profile.kernels["op"].to_list() == [None, None]
    assert any("replayed from graphs" in n for n in profile.notes)


def test_external_ids_link_where_they_are_no_correlations(tmp_path: Path) -> None:
    linked = [
        op("aten::mm", 0, 5, **{**MM, "External id": 12}),
        kernel("k", 20, 5, 1, **{"External id": 12}),
    ]
    assert row(read(tmp_path, linked), name="k")["op"] == "aten::mm"
    copied = [
        op("aten::mm", 0, 5, **{**MM, "External id": 1}),
        kernel("k", 20, 5, 1, **{"External id": 1}),
    ]
    assert row(read(tmp_path, copied), name="k")["op"] is None


def test_collectives_have_bytes_and_group(tmp_path: Path) -> None:
    message = {"Collective name": "allreduce", "In msg nelems": 100, "Out msg nelems": 100, "dtype": "Float", "Group size": 4,
               "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3]"}  # fmt: skip
    profile = read(
        tmp_path,
        [launch(1, 0), kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5, 10, 1, **message)],
        deviceProperties=[{"id": 0, "name": "NVIDIA Toy"}],
    )
    found = row(profile, kind="collective")
    assert (found["label.collective"], found["label.group_size"], found["label.group"]) == (
        "allreduce",
        "4",
        "0 [0, 1, 2, 3]",
    )
    assert found["label.message_bytes"] == "400"
    assert found["link/nvlink"] == 600.0


def test_counter_ranges_give_amounts_and_no_time(tmp_path: Path) -> None:
    counters = {
        f"smsp__sass_thread_inst_executed_op_f{w}_pred_on.sum": n
        for w, n in (("add", 1), ("mul", 2), ("fma", 3))
    }
    profile = read(tmp_path, [event("cuda_profiler_range", "k", 0, 1e6, 0, 0, **counters)] * 2)
    found = row(profile, name="k")
    assert (found["flop/fp32"], found["time_s"], found["calls"]) == (18.0, None, 2)
    assert any("replays" in n for n in profile.notes)


def test_no_device_name_is_said(tmp_path: Path) -> None:
    profile = read(tmp_path, [kernel("k", 0, 1, 1)], deviceProperties=[])
    assert profile.device is None
    assert any("names no device" in n for n in profile.notes)


def test_times_as_text_and_display_unit_ns(tmp_path: Path) -> None:
    profile = read(tmp_path, [kernel("k", "10.5", "2.5", 1)], displayTimeUnit="ns")  # type: ignore[arg-type]
    assert profile.kernels["time_s"].to_list() == pytest.approx([2.5e-6])


def test_save_and_load_is_the_identity(tmp_path: Path) -> None:
    profile = read(tmp_path, TRAINING)
    save_run(SavedRun(profile=profile, machine=None), tmp_path / "a.troof")
    again = load_run(tmp_path / "a.troof").profile
    assert again.kernels.equals(profile.kernels)
    assert (again.wall_s, again.idle_by_cause, again.steps) == (
        profile.wall_s,
        profile.idle_by_cause,
        profile.steps,
    )


def test_nothing_to_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no event with a duration"):
        read(tmp_path, [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}])


def test_shapes_under_the_name_of_pytorch_1_8(tmp_path: Path) -> None:
    """Categories with capitals and "Input dims"."""
    older = op(
        "aten::mm", 0, 5, **{"Input dims": [[64, 32], [32, 16]], "Input type": ["float"] * 2}
    )
    call = launch(1, 1)
    work = kernel("volta_sgemm_128x64_nn", 20, 5, 1)
    for event_, cat in ((older, "Operator"), (call, "Runtime"), (work, "Kernel")):
        event_["cat"] = cat
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document([older, call, work])))
    row = timeroof.load(path).rows.row(0, named=True)
    assert (row["op"], row["total_flops"]) == ("aten::mm", 2 * 64 * 32 * 16)
