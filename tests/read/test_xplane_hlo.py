"""FLOPs, bytes, module and line of recorded XLA programs, from the HLO in their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import timeroof
from tests.hlo_messages import computation, contracted, hlo, instruction, module, parameter, shape
from tests.read import test_xplane as made
from tests.recorded_data import DATA
from timeroof.read.xla.space import planes
from timeroof.work.hlo import CONTAINERS, FREE
from timeroof.work.hlo.buffers import Buffers
from timeroof.work.hlo.cost import Program
from timeroof.work.hlo.proto import Instruction, read_hlo
from timeroof.work.locality.accesses import Accesses
from timeroof.work.locality.ideal import ideal_traffic

RECORDED = DATA / "xla" / "mi300x_jax_conv3d_8gpu.xplane.pb"


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded files are not here")
def test_a_recorded_convolution_is_known() -> None:
    report = timeroof.load(RECORDED)
    rows = report.profile.kernels
    assert report.totals.known_time_share is not None
    assert report.totals.known_time_share > 0.97
    conv = rows.filter(pl.col("op") == "cudnn-conv.1")
    # Five executions on each of eight devices; two kernels share each.
    assert conv["calls"].sum() == 79 or conv["calls"].sum() == 80
    assert conv["contraction_flops"].sum() / 40 == pytest.approx(32_715_571_200)
    assert conv["byte/dram"].sum() / 40 == pytest.approx(579_072_000)
    assert set(conv["label.source"]) == {"generate_conv_trace.py:23"}
    assert set(rows.filter(pl.col("name").str.contains("copyBuffer"))["kind"]) == {"copy"}


def program() -> bytes:
    return hlo(
        module(
            1,
            computation(
                1, 3, parameter(1, 0, shape(4, 8)), parameter(2, 1, shape(8, 16)),
                instruction(
                    3, "dot.1", "dot", shape(4, 16), (1, 2), contracted(1, 0),
                    op_name="jit(f)/transpose(jvp(Net))/head/dot_general",
                ),
            ),
        )
    )  # fmt: skip


def metadata(name: str, data: bytes) -> bytes:
    """The plane with the compiled programs."""
    stat = made.field(5, made.field(1, 1) + made.field(6, data))
    entry = made.field(1, 1) + made.field(2, made.field(1, 1) + made.field(2, name) + stat)
    names = made.field(1, 1) + made.field(2, made.field(1, 1) + made.field(2, "hlo_proto"))
    return made.field(
        1, made.field(2, "/host:metadata") + made.field(5, names) + made.field(4, entry)
    )


def test_kernels_of_one_instruction_share_its_cost(tmp_path: Path) -> None:
    stats = {"hlo_op": "dot.1", "hlo_module": "jit_f"}
    events = [
        made.event(kernel, at, took, **stats)
        for at, kernel, took in ((0, 1, 1000), (2000, 2, 3000), (9000, 1, 1000), (11000, 2, 3000))
    ]
    device = made.plane("/device:GPU:0", ["prepare", "gemm"], [made.line("Stream #7", 5, events)])
    (tmp_path / "x").write_bytes(device + metadata("jit_f(7)", program()))
    rows = timeroof.load(tmp_path / "x").profile.kernels
    flops = dict(rows.select("name", "contraction_flops").iter_rows())
    assert flops == {"gemm": pytest.approx(2 * 1024 * 0.75), "prepare": pytest.approx(2 * 1024 / 4)}
    assert set(rows["module"]) == {"Net.head"}
    assert set(rows["phase"]) == {"backward"}


def test_a_cached_program_is_found_by_its_name_and_instructions(tmp_path: Path) -> None:
    host = made.plane("/host:CPU", ["dot"], [
        made.line("t", 5, [made.event(1, 0, 1000, hlo_op="dot.1", hlo_module="jit_f")])
    ])  # fmt: skip
    (tmp_path / "x").write_bytes(host + metadata("jit_f(99)", program()))
    rows = timeroof.load(tmp_path / "x").profile.kernels
    assert rows["contraction_flops"].to_list() == [1024]


def test_two_programs_of_one_name_that_differ_leave_the_work_unknown(tmp_path: Path) -> None:
    other = hlo(module(1, computation(1, 2, parameter(1, 0, shape(4)), instruction(2, "dot.1", "negate", shape(4), (1,)))))  # fmt: skip
    host = made.plane("/host:CPU", ["dot"], [
        made.line("t", 5, [made.event(1, 0, 1000, hlo_op="dot.1", hlo_module="jit_f")])
    ])  # fmt: skip
    (tmp_path / "x").write_bytes(
        host + metadata("jit_f(1)", program()) + metadata("jit_f(2)", other)
    )
    rows = timeroof.load(tmp_path / "x").profile.kernels
    assert "contraction_flops" not in rows.columns or rows["contraction_flops"].to_list() == [None]


def test_a_damaged_program_is_one_note(tmp_path: Path) -> None:
    host = made.plane("/host:CPU", ["dot"], [
        made.line("t", 5, [made.event(1, 0, 1000, hlo_op="dot.1", hlo_module="jit_f")])
    ])  # fmt: skip
    (tmp_path / "x").write_bytes(host + metadata("jit_f(1)", program()[:-4]))
    notes = [note.code for note in timeroof.load(tmp_path / "x").notes]
    assert "broken-hlo" in notes


def test_copies_on_a_stream_of_copies_are_copies(tmp_path: Path) -> None:
    events = [made.event(1, 0, 1000)]
    line = made.line("Stream #8(MemcpyOther)", 5, events)
    (tmp_path / "x").write_bytes(made.plane("/device:GPU:0", ["MemOther"], [line]))
    assert timeroof.load(tmp_path / "x").profile.kernels["kind"].to_list() == ["copy"]


def traced(folder: Path, function: Any, *args: Any, times: int = 3) -> timeroof.Report:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    run = jax.jit(function)
    jax.block_until_ready(run(*args))
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with jax.profiler.trace(str(folder), profiler_options=options):
        for _ in range(times):
            jax.block_until_ready(run(*args))
    return timeroof.load(next(folder.rglob("*.xplane.pb")))


def recorded_program(folder: Path, name: str) -> Program:
    for plane in planes(next(folder.rglob("*.xplane.pb")).read_bytes()):
        for stats in plane.event_stats.values():
            found = [read_hlo(data) for data in stats.values() if isinstance(data, bytes)]
            named = [one for one in found if one.name == name]
            if named:
                return Program(named[0])
    raise AssertionError(f"{name} is not in the file")


@pytest.mark.slow
def test_a_recorded_jax_program_on_a_cpu_is_known(tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="JAX is not installed")
    from tests.work.hlo.test_against_xla import LSTM, convolve, gradients, jnp, lstm

    given = (jnp.ones((6, 32)), jnp.ones((8, 32)), jnp.ones((16, 4, 6)))
    report = traced(tmp_path / "lstm", lstm, *given)
    assert report.totals.known_time_share == 1.0
    assert report.totals.contraction_flops == 3 * LSTM
    buffers = Buffers(recorded_program(tmp_path / "lstm", "jit_lstm"))
    moved = ideal_traffic(accesses_of_run(buffers), None).total_bytes
    assert buffers.unresolved == 0
    # Weights and inputs enter, results leave; loop counters are a few bytes more.
    crossing = sum(a.nbytes for a in given) + 16 * 4 * 8 * 4
    assert crossing <= moved <= crossing + 64
    sources = report.profile.kernels["label.source"].drop_nulls().to_list()
    assert any(source.startswith("test_against_xla.py:") for source in sources)
    x, w, g = jnp.ones((2, 28, 28, 16)), jnp.ones((3, 3, 16, 8)), jnp.ones((2, 26, 26, 8))
    conv = traced(tmp_path / "conv", gradients(convolve()), x, w, g)
    assert conv.totals.contraction_flops == 3 * 2 * 2 * 2 * 26 * 26 * 8 * 16 * 9
    assert {"backward"} <= set(conv.profile.kernels["phase"].drop_nulls())
    # Thunks that hand their work to a pool end where it ends: little is left idle within a step.
    assert conv.totals.kernel_s is not None
    assert conv.totals.kernel_s > 0


def accesses_of_run(buffers: Buffers) -> Accesses:
    """The accesses of one run of a program, in the order of its schedule, loops unrolled."""
    counts: dict[int, int] = {}
    listed = []
    for one in _run(buffers.program, buffers.program.module.entry):
        counts[one.id] = counts.get(one.id, -1) + 1
        listed.append(buffers.ranges(one, counts[one.id]))
    return Accesses.of(listed, buffers.lasting())


def _run(program: Program, computation: int) -> Iterator[Instruction]:
    """Instructions with work of their own as they run."""
    if computation not in program.module.computations:
        return
    for one in program.module.ordered(computation):
        if one.opcode == "while":
            for _ in range(one.trip_count or 1):
                for called in reversed(one.called):
                    yield from _run(program, called)
        elif one.opcode in CONTAINERS:
            for called in one.called[:1]:
                yield from _run(program, called)
        elif one.opcode not in FREE:
            yield one
