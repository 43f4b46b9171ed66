"""Every micro-kernel does its work: the checksums say so, and a deleted one is caught."""

from __future__ import annotations

import ctypes
import os
from dataclasses import replace

import numpy as np
import pytest

from timeroof.probe.cpu import compute, compute as ir_compute, ir, ir as jit, streams as ir_memory
from timeroof.probe.cpu.bandwidth import (
    Setup,
    measure_point,
    ring_order,
    sample_faults,
    sample_walk,
)
from timeroof.probe.cpu.streams import PATTERNS, Stream, compiled_stream
from timeroof.probe.cpu.threads import Region, Team, Work, regions
from timeroof.probe.cpu.topology import read_features
from timeroof.probe.sampling import Plan, ProbeError, recorded

FEATURES = read_features(jit.architecture(), jit.host_features())
TINY = Plan(sample_s=1e-5, least=2, most=2)
KINDS = [(precision, width) for precision in compute.PRECISIONS for width in FEATURES.widths_bits]


@pytest.mark.parametrize("fma", {FEATURES.fma, False})
@pytest.mark.parametrize(("precision", "width"), KINDS)
def test_compute_kernels_count_every_step(precision: str, width: int, fma: bool) -> None:
    features = replace(FEATURES, fma=fma)
    with Team([None, None]) as team:
        figure = compute.measure_flops(team, precision, width, features, TINY)
    assert figure.rate_per_s > 0


def test_a_compute_kernel_that_skips_work_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "_ONE", {"fp64": ctypes.c_double(0.5)})
    with Team([None]) as team, pytest.raises(ProbeError, match="fp64 128-bit"):
        compute.measure_flops(team, "fp64", 128, FEATURES, TINY)


def test_the_clock_chain_counts_its_adds() -> None:
    with Team([None]) as team:
        assert compute.measure_clock(team, TINY).rate_per_s > 0


@pytest.mark.parametrize("width", FEATURES.widths_bits)
@pytest.mark.parametrize("name", PATTERNS)
def test_streams_leave_what_they_must(name: str, width: int) -> None:
    with Team([None, None]) as team:
        setup = Setup(team, regions(team, 1 << 16), FEATURES, TINY)
        point = measure_point(setup, PATTERNS[name], 40_000, width)
    assert 0.9 * 40_000 < point.size_bytes <= 40_000
    assert point.figure.rate_per_s > 0


@pytest.mark.parametrize("name", [n for n in PATTERNS if n != "read"])
@pytest.mark.parametrize("blocks", [3, 1 << 15])
def test_a_stream_that_stops_early_is_caught(name: str, blocks: int) -> None:
    pattern = PATTERNS[name]
    with Team([None]) as team:
        region = regions(team, pattern.arrays * (blocks + 8) * ir_memory.BLOCK_BYTES)[0]
        stream = Stream(pattern, region, blocks)
        stream.fill()
        region.array(0, blocks * 64)[:] = 1.25
        kernel = compiled_stream(pattern, FEATURES.widths_bits[0], FEATURES)
        work = stream.work
        team.run(kernel, [Work(work.a, work.b, work.c, blocks - 1)], 1)
    with pytest.raises(ProbeError, match="wrong result"):
        stream.check(1)


def test_a_read_that_skips_a_block_is_caught() -> None:
    with Team([None]) as team:
        stream = Stream(PATTERNS["read"], regions(team, 1 << 16)[0], 4)
        stream.fill()
        kernel = compiled_stream(PATTERNS["read"], FEATURES.widths_bits[0], FEATURES)
        whole = team.run(kernel, [stream.work], 5)
        short = team.run(kernel, [Work(stream.work.a, 0, 0, 3)], 5)
    stream.check_sum(whole.checksums[0], 5)
    with pytest.raises(ProbeError):
        stream.check_sum(short.checksums[0], 5)


def test_streams_work_without_fma_too() -> None:
    text = ir.module(ir_memory.stream_kernel("triad", 128, fma=False))
    assert "llvm.fma" not in text
    kernel = jit.compile_ir(text)
    with Team([None]) as team:
        stream = Stream(PATTERNS["triad"], regions(team, 1 << 16)[0], 4)
        stream.fill()
        team.run(kernel, [stream.work], 2)
        stream.check(2)


def test_the_walk_visits_every_line_and_ends_where_it_must() -> None:
    order = ring_order(1000)
    assert sorted(order.tolist()) == list(range(1000))
    with Team([None]) as team:
        region = regions(team, 1 << 17)[0]
        samples = sample_walk(team, region, 64_000, TINY)
    assert samples.best_s > 0


def test_fresh_pages_are_counted() -> None:
    with Team([None]) as team:
        samples = sample_faults(team, size_bytes=1 << 21, samples=2)
    assert len(samples.times_s) == 2
    assert samples.best_s > 0


def test_regions_are_private_and_aligned() -> None:
    region = Region(1 << 16, huge=False)
    assert region.address % (2 << 20) == 0
    array = region.array(0, 8, np.uint64)
    assert not array.any()
    del region
    array[:] = 7
    assert array.sum() == 56


def test_threads_are_pinned_and_errors_come_back() -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this system cannot pin threads")
    cpu = min(os.sched_getaffinity(0))
    with Team([cpu]) as team:
        assert team.call(lambda _: os.sched_getaffinity(0)) == [{cpu}]
        assert team.pinned
        with pytest.raises(ZeroDivisionError):
            team.call(lambda index: 1 // index)
        assert team.call(lambda index: index) == [0]
    with Team([None]) as team:
        team.call(lambda index: index)
        assert not team.pinned


def test_probe_errors_are_recorded_once() -> None:
    errors: list[str] = []
    for _ in range(2):
        with recorded(errors):
            raise ProbeError("wrong")
    assert errors == ["wrong"]


ARM = "aarch64-unknown-linux-gnu"


@pytest.mark.parametrize(
    ("width", "cpu", "instruction"),
    [(128, "neoverse-n1", "fmla\tv"), (512, "a64fx", "z")],
)
def test_arm_gets_its_own_vector_instructions(width: int, cpu: str, instruction: str) -> None:
    kernel = ir_compute.compute_kernel("fp64", width // 64, fma=True, chains=24)
    text = ir.module(kernel, attributes=ir.width_attributes(width, "aarch64"))
    code = _assembly(text, ARM, cpu)
    body = code.split("kernel:")[1].split("now:")[0]
    # One instruction per chain in the loop, and no spills to the stack.
    assert sum("fmla" in line or "fmad" in line for line in body.splitlines()) == 24
    assert instruction in body


@pytest.mark.parametrize("name", PATTERNS)
def test_arm_streams_compile(name: str) -> None:
    code = _assembly(ir.module(ir_memory.stream_kernel(name, 128)), ARM, "neoverse-v2")
    assert ("stnp" in code) == name.endswith("-nt")


@pytest.mark.parametrize(("cpu", "register"), [("haswell", "ymm"), ("skylake-avx512", "zmm")])
def test_x86_vectors_stay_whole(cpu: str, register: str) -> None:
    width = {"ymm": 256, "zmm": 512}[register]
    kernel = ir_compute.compute_kernel("fp32", width // 32, fma=True, chains=12)
    text = ir.module(kernel, attributes=ir.width_attributes(width, "x86_64"))
    body = _assembly(text, "x86_64-unknown-linux-gnu", cpu).split("kernel:")[1]
    lines = [line for line in body.splitlines() if "vfmadd" in line]
    assert len(lines) == 12
    assert all(register in line for line in lines)


def test_other_systems_get_their_own_clock() -> None:
    kernel = ir_compute.chain_kernel()
    assert "QueryPerformanceCounter" in ir.module(kernel, platform="win32")
    assert "@clock_gettime(i32 6" in ir.module(kernel, platform="darwin")


def _assembly(text: str, triple: str, cpu: str) -> str:
    try:
        llvm = jit._binding()
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3)
        return str(machine.emit_assembly(llvm.parse_assembly(text)))
    except RuntimeError as error:
        pytest.skip(f"this llvmlite does not build for {triple}: {error}")
