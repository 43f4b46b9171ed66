"""Traces without a device: ops by self time, other tools' traces, XLA's devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kineto_events import event, op
from tests.read.test_kineto_rows import MM, read, read_text, row


def test_every_second_is_in_one_row(tmp_path: Path) -> None:
    profile = read(
        tmp_path,
        [
            op("aten::linear", 0, 100),
            op("aten::t", 5, 5),
            op("aten::addmm", 10, 80, **MM),
            op("aten::relu", 150, 10, **MM),
            event("user_annotation", "enumerate(DataLoader)#x", 110, 30),
        ],
    )
    assert set(profile.kernels["kind"]) == {"op"}
    assert row(profile, name="aten::linear")["time_s"] == pytest.approx(15e-6)
    assert row(profile, name="aten::linear")["label.child_ops"] == "aten::addmm aten::t"
    assert row(profile, name="aten::addmm")["shape"] == [[4, 8], [8, 2]]
    assert profile.kernels["time_s"].sum() == pytest.approx(110e-6)
    assert profile.kernel_s == pytest.approx(110e-6)
    assert profile.wall_s == pytest.approx(160e-6)
    assert profile.idle_by_cause == {
        "unknown": pytest.approx(20e-6),
        "data": pytest.approx(30e-6),
    }
    assert profile.device is None


def test_ops_that_overlap_without_nesting_share_no_second(tmp_path: Path) -> None:
    profile = read(tmp_path, [op("a", 0, 10), op("b", 5, 10), op("c", 5, 10, 200)])
    assert row(profile, name="a")["time_s"] == pytest.approx(5e-6)
    assert row(profile, name="b")["time_s"] == pytest.approx(10e-6)
    assert row(profile, name="c")["time_s"] == pytest.approx(10e-6)
    assert profile.kernel_s == pytest.approx(15e-6)


def test_an_annotation_between_two_ops_does_not_part_them(tmp_path: Path) -> None:
    profile = read(
        tmp_path, [op("outer", 0, 20), event("user_annotation", "x", 2, 16), op("inner", 4, 10)]
    )
    assert row(profile, name="outer")["label.child_ops"] == "inner"


def _x(name: str, pid: int, tid: int, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def _m(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


XLA = [
    _m("process_name", 1, 0, "/device:GPU:0"),
    _m("thread_name", 1, 1, "Stream #13(Compute)"),
    _m("thread_name", 1, 2, "XLA Modules"),
    _m("process_name", 9, 0, "/host:CPU"),
    _x("loop_fusion", 1, 1, 0, 10, hlo_op="fusion.1", hlo_module="jit_f", tf_op="jit(f)/add"),
    _x("loop_fusion", 1, 1, 20, 10, hlo_op="fusion.1", hlo_module="jit_f", tf_op="jit(f)/add"),
    _x("MemcpyD2H", 1, 1, 40, 5),
    _x("jit_f", 1, 2, 0, 45),
    _x("python", 9, 1, 0, 100),
]


def test_xla_streams_are_kernels_and_told_once(tmp_path: Path) -> None:
    text = json.dumps({"displayTimeUnit": "ns", "metadata": {}, "traceEvents": XLA})
    profile = read_text(tmp_path, text)
    fusion = row(profile, name="loop_fusion")
    assert (fusion["kind"], fusion["op"], fusion["calls"]) == ("kernel", "jit(f)/add", 2)
    assert fusion["label.hlo_module"] == "jit_f"
    assert fusion["idle_before_s"] == pytest.approx(10e-6)
    assert row(profile, name="MemcpyD2H")["kind"] == "copy"
    assert len(profile) == 2
    assert (profile.wall_s, profile.kernel_s) == (pytest.approx(45e-6), pytest.approx(25e-6))


def test_any_list_of_events_is_read_by_self_time(tmp_path: Path) -> None:
    text = json.dumps(
        [_x("outer", 1, 1, 0, 10), _x("inner", 1, 1, 2, 4), {"ph": "B", "name": "b", "ts": 1}]
    )
    profile = read_text(tmp_path, text)
    assert row(profile, name="outer")["time_s"] == pytest.approx(6e-6)
    assert any("begin and end events" in n for n in profile.notes)
