"""XLA's xplane.pb, encoded here by a few lines of protobuf."""

from __future__ import annotations

from pathlib import Path

import pytest

import timeroof
from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.core.run_file import SavedRun, load_run, save_run
from timeroof.core.wire import BrokenMessageError, fields, read_varint, signed
from timeroof.read.formats import ReadOptions, format_named, sniffed
from timeroof.read.open import open_input


def varint(value: int) -> bytes:
    value %= 1 << 64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


STATS = ("hlo_op", "hlo_module", "correlation_id", "kernel_details", "tf_op", "memcpy_details",
         "device_vendor", "core_count", "memory_size", "compute_cap_major", "compute_cap_minor",
         "flops", "bytes_accessed", "device_type_string")  # fmt: skip


def stat(name: str, value: int | str) -> bytes:
    number = STATS.index(name) + 1
    return field(1, number) + field(5 if isinstance(value, str) else 4, value)


def event(key: int, offset_ps: int, duration_ps: int, **stats: int | str) -> bytes:
    body = field(1, key) + field(2, offset_ps) + field(3, duration_ps)
    return body + b"".join(field(4, stat(n, v)) for n, v in stats.items())


def line(name: str, timestamp_ns: int, events: list[bytes]) -> bytes:
    body = field(1, 9) + field(2, name) + field(3, timestamp_ns)
    return body + b"".join(field(4, e) for e in events)


def plane(name: str, names: list[str], lines: list[bytes], **stats: int | str) -> bytes:
    body = field(1, 1) + field(2, name)
    body += b"".join(field(3, one) for one in lines)
    for number, text in enumerate(names, 1):
        body += field(4, field(1, number) + field(2, field(1, number) + field(2, text)))
    for number, text in enumerate(STATS, 1):
        body += field(5, field(1, number) + field(2, field(1, number) + field(2, text)))
    return field(1, body + b"".join(field(6, stat(n, v)) for n, v in stats.items()))


def make_space() -> bytes:
    device = plane(
        "/device:GPU:0",
        ["fusion.kd", "MemcpyH2D"],
        [
            line(
                "Stream #7(Kernel)",
                1000,
                [
                    event(
                        1, 5_000, 2_500, hlo_op="fusion.1", hlo_module="jit_f", correlation_id=3,
                        kernel_details=" grid:8,1,1 block:256,1,1", tf_op="jit(f)/transpose(jvp(f))",
                    ),
                    event(1, 20_000, 500, hlo_op="fusion.1", hlo_module="jit_f", correlation_id=4),
                    event(2, 30_000, 1_000, memcpy_details="kind:x size:64 dest:0"),
                ],
            ),
            line("XLA Ops", 1000, [event(1, 5_000, 99_000, hlo_op="fusion.1")]),
        ],
        device_vendor="AMD", core_count=304, memory_size=206141652992,
        compute_cap_major=9, compute_cap_minor=4,
    )  # fmt: skip
    calls = [event(1, 0, 1_000, correlation_id=3), event(1, 15_000, 1_000, correlation_id=4)]
    host = plane("/host:CPU", ["hipModuleLaunchKernel"], [line("Host Threads/1", 1000, calls)])
    return device + host


def read(path: Path) -> Profile:
    found = open_input(path)
    assert sniffed(found) is format_named("xplane")
    return format_named("xplane").read(found, ReadOptions())


def test_kernels_of_a_device(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(make_space())
    profile = read(tmp_path / "x")
    rows = {(r["name"], r["phase"]): r for r in profile.kernels.iter_rows(named=True)}
    first = rows["fusion", "backward"]
    assert (first["op"], first["module"], first["label.grid"]) == ("fusion.1", "jit_f", "8x1x1")
    assert first["time_s"] == pytest.approx(2.5e-9)
    copy = rows["MemcpyH2D", None]
    assert (copy["kind"], copy["link/pcie"]) == ("copy", 64)
    assert profile.device == "AMD Instinct MI300X"
    assert profile.kernels["calls"].sum() == 3
    assert profile.wall_s == pytest.approx(26e-9)
    assert profile.idle_by_cause["launch-starved"] == pytest.approx(12.5e-9)


def test_ops_that_nest_count_their_own_time(tmp_path: Path) -> None:
    ops = [
        event(1, 0, 10_000, hlo_op="while"),
        event(2, 1_000, 4_000, hlo_op="dot"),
        event(2, 6_000, 3_000, hlo_op="dot"),
    ]
    (tmp_path / "x").write_bytes(
        plane("/device:TPU:0", ["while", "dot"], [line("XLA Ops", 5, ops), line("Steps", 5, ops)])
    )
    rows = {r["name"]: r["time_s"] for r in read(tmp_path / "x").kernels.iter_rows(named=True)}
    assert rows["while"] == pytest.approx(3e-9)
    assert rows["dot"] == pytest.approx(7e-9)


def test_ops_of_the_host_where_no_device_is(tmp_path: Path) -> None:
    events = [event(1, 0, 10_000, hlo_op="dot.1"), event(2, 20_000, 50_000)]
    (tmp_path / "x").write_bytes(plane("/host:CPU", ["dot", "python"], [line("t", 5, events)]))
    profile = read(tmp_path / "x")
    assert profile.kernels.select("kind", "name", "op").rows() == [("op", "dot", "dot.1")]


def test_a_file_without_work_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(plane("/host:CPU", ["python"], [line("t", 5, [event(1, 0, 1)])]))
    with pytest.raises(InputError, match="neither device events nor XLA ops"):
        read(tmp_path / "x")


def test_tensorflow_without_xla_is_told_what_to_do(tmp_path: Path) -> None:
    events = [event(1, 0, 1), event(2, 2, 1)]
    names = ["python", "ExecutorState::Process"]
    (tmp_path / "x").write_bytes(plane("/host:CPU", names, [line("t", 5, events)]))
    with pytest.raises(InputError) as caught:
        read(tmp_path / "x")
    assert "jit_compile=True" in str(caught.value.advice)


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(make_space()[:-20])
    with pytest.raises(InputError, match="cut or damaged"):
        read(tmp_path / "x")


def test_saved_runs_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(make_space())
    profile = read(tmp_path / "x")
    save_run(SavedRun(profile, None), tmp_path / "run.troof")
    assert load_run(tmp_path / "run.troof").profile.kernels.equals(profile.kernels)


def test_the_wire_format_is_bounded() -> None:
    assert read_varint(b"\xac\x02", 0, 2) == (300, 2)
    assert signed((1 << 64) - 5) == -5
    for broken in (b"\xff" * 11, b"\x0a\xff\x01", b"\x0b", b"\x09\x00"):
        with pytest.raises(BrokenMessageError):
            list(fields(broken, (0, len(broken))))


def tpu_core(number: int) -> bytes:
    """A core of a TPU without its program: a product of 100 µs, 80 µs of a collective, a copy."""
    names = ["%fusion.3 = bf16[1024,1024]{1,0} fusion(bf16[1024,1024] %a)",
             "%all-reduce.2 = f32[1000] all-reduce(%x)", "%copy.1 = bf16[10] copy(%all-reduce.2)"]  # fmt: skip
    us = 1_000_000
    ops = [event(1, 0, 100 * us, flops=2 * 1024**3, bytes_accessed=6 * 2**20),
           event(2, 120 * us, 80 * us), event(3, 210 * us, 40 * us)]  # fmt: skip
    lines = [line("XLA Ops", 1000, ops), line("Steps", 1000, [event(1, 0, 250 * us)])]
    return plane(f"/device:TPU:{number}", names, lines, device_type_string="TPU v5 lite")


@pytest.mark.parametrize("cores", [1, 2])
def test_a_tpu_without_its_program_communicates_and_gains_what_one_core_gains(
    cores: int, tmp_path: Path
) -> None:
    sparse = plane("/device:TPU:0 SparseCore 0", ["x"], [line("Sparse Core Ops", 0, [])])
    (tmp_path / "x").write_bytes(b"".join(map(tpu_core, range(cores))) + sparse)
    report = timeroof.load(tmp_path / "x")
    totals = report.totals
    assert report.machine is not None
    assert report.machine.name == "tpu-v5e"
    assert totals.by_class["communication"] == pytest.approx(80e-6)
    assert totals.by_class["compute"] == pytest.approx(100e-6)
    gains = {f.code: f.gain_s for f in report.findings if f.gain_s is not None}
    assert gains["TR107"] == pytest.approx(80e-6)
    # 2·1024³ FLOPs at 197 TFLOP/s; each core gains at the same time.
    assert gains["TR304"] == pytest.approx(100e-6 - 2 * 1024**3 / 197e12, rel=1e-3)
