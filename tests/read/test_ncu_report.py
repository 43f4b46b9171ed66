"""Binary Nsight Compute reports: through NVIDIA's package where it is, else with a stand-in."""

from __future__ import annotations

import inspect
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from timeroof.core.errors import InputError
from timeroof.read.load import plan_of, read_files
from timeroof.read.open import open_input

METRICS: dict[str, tuple[object, str]] = {
    "gpu__time_duration.sum": (1500, "ns"),
    "dram__bytes_read.sum": (100, "byte"),
    "dram__bytes_write.sum": (28, "byte"),
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": (1.0, "inst"),
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": (2.0, "inst"),
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": (3.0, "inst"),
    "device__attribute_display_name": ("NVIDIA H100 80GB HBM3", ""),
    "device__attribute_compute_capability_major": (9, ""),
    "device__attribute_compute_capability_minor": (0, ""),
    "launch__grid_dim_x": (8, ""),
    "launch__grid_dim_y": (1, ""),
    "launch__grid_dim_z": (1, ""),
    "launch__stream_id": (7, ""),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": (51.5, "%"),
}


class Metric:
    def __init__(self, value: object, unit: str) -> None:
        self._value, self._unit = value, unit

    def value(self) -> object:
        return self._value

    def unit(self) -> str:
        return self._unit


class Action:
    NameBase_DEMANGLED = 1

    def name(self, _base: int) -> str:
        return "void gemm<float>(float*)"

    def metric_names(self) -> tuple[str, ...]:
        return tuple(METRICS)

    def metric_by_name(self, name: str) -> Metric | None:
        return Metric(*METRICS[name]) if name in METRICS else None


class Range:
    def num_actions(self) -> int:
        return 2

    def action_by_idx(self, _index: int) -> Action:
        return Action()


class Report:
    def num_ranges(self) -> int:
        return 1

    def range_by_idx(self, _index: int) -> Range:
        return Range()


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """A package in the place of NVIDIA's, whose `load_report` has this body."""

    def make(body: str) -> None:
        folder = tmp_path / "packages"
        folder.mkdir()
        parts = [inspect.getsource(part) for part in (Metric, Action, Range, Report)]
        begin = f"from __future__ import annotations\nMETRICS = {METRICS!r}\n"
        text = "\n".join([begin, *parts, f"def load_report(path):\n    {body}\n"])
        (folder / "ncu_report.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(folder))
        monkeypatch.syspath_prepend(folder)

    return make


# A report as Nsight Compute lays it out: a file header, then blocks of a header and sized
# messages, all protocol buffers. Written by hand, with invented numbers.


def varint(number: int) -> bytes:
    more, low = divmod(number, 128)
    return bytes([low | 128]) + varint(more) if more else bytes([low])


def number_field(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def bytes_field(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def sized(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def metric_value(value: object) -> bytes:
    if isinstance(value, str):
        return bytes_field(1, value)
    if isinstance(value, int):
        return number_field(5, value)
    return varint(3 << 3 | 1) + struct.pack("<d", value)


def written_report(kernels: list[str]) -> bytes:
    names = list(METRICS)
    size = number_field(1, 8) + number_field(2, 1) + number_field(3, 1)
    results = b""
    for index, kernel in enumerate(kernels):
        result = b"".join(number_field(f, v) for f, v in ((1, 1), (2, index), (3, 1), (4, 1)))
        result += b"".join(bytes_field(f, kernel) for f in (5, 6, 7))
        result += number_field(8, 3) + b"".join(bytes_field(f, size) for f in (9, 10, 11))
        for place, (value, _) in enumerate(METRICS.values()):
            metric = number_field(1, place) + bytes_field(2, metric_value(value))
            result += bytes_field(13, metric)
        results += sized(result + bytes_field(15, number_field(1, 0)) + number_field(23, 7))
    strings = b"".join(bytes_field(1, name) for name in names)
    process = number_field(1, 42) + bytes_field(2, "127.0.0.1") + bytes_field(3, "python")
    block = number_field(1, 0) + number_field(2, len(kernels)) + bytes_field(4, strings)
    block += number_field(5, len(results)) + bytes_field(6, process)
    return b"NVR\0" + sized(number_field(1, 11)) + sized(block) + results


def test_nvidias_package_opens_a_report(tmp_path: Path) -> None:
    pytest.importorskip("ncu_report")
    path = tmp_path / "anything"
    path.write_bytes(written_report(["void gemm<float>(float*)", "relu", "relu"]))
    profile = read_files([path])
    assert dict(zip(profile.kernels["name"], profile.kernels["calls"], strict=True)) == {
        "void gemm<float>(float*)": 1.0,
        "relu": 2.0,
    }
    assert profile.kernels["time_s"].sum() == pytest.approx(4.5e-6)
    assert profile.kernels["flop/fp32"].sum() == 27
    assert profile.device == "NVIDIA H100 80GB HBM3"


def test_nvidias_package_and_damaged_reports(tmp_path: Path) -> None:
    pytest.importorskip("ncu_report")
    whole = written_report(["gemm", "relu"])
    path = tmp_path / "x"
    for seed in range(8):
        chance = random.Random(seed)
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(4, len(data))] = chance.randrange(256)
        path.write_bytes(bytes(data[: chance.randrange(8, len(data))]))
        try:
            read_files([path])
        except InputError as error:
            message = error.message
            assert str(path) in message


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "anything"
    path.write_bytes(b"NVR\x00\x02\x00\x00\x00\x08\x01")
    return path


def test_launches_of_a_report(stand_in: Callable[[str], None], report: Path) -> None:
    stand_in("print(path); return Report()")
    assert plan_of(open_input(report)).jobs[0].format.name == "ncu-report"
    profile = read_files([report])
    row = profile.kernels.row(0, named=True)
    assert (row["calls"], row["flop/fp32"], row["byte/dram"]) == (2.0, 18.0, 256.0)
    assert row["time_s"] == pytest.approx(3e-6)
    assert row["label.grid"] == "(8, 1, 1)"
    assert profile.device == "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise RuntimeError('Failed to load report')", "Failed to load report"),
        ("raise OSError('no such file')", "no such file"),
        ("import os; os.abort()", "NVIDIA's package ends with SIGABRT"),
        ("import os; os._exit(3)", "NVIDIA's package ends with exit code 3"),
    ],
)
def test_a_broken_report_is_refused(
    body: str, words: str, stand_in: Callable[[str], None], report: Path
) -> None:
    stand_in(body)
    with pytest.raises(InputError, match=f"no whole Nsight Compute report .*{words}"):
        read_files([report])


def test_without_the_package_the_message_says_how_to_get_it(
    stand_in: Callable[[str], None], report: Path
) -> None:
    stand_in("return None\nraise ImportError('gone')")
    with pytest.raises(InputError, match=r"not here \(gone\); pip install ncu-report, or export"):
        read_files([report])
