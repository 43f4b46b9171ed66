"""Launching, products and streams through torch, on device cpu with tiny sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from timeroof.core.machine import Machine, check_machine
from timeroof.probe.cpu import reduced
from timeroof.probe.cpu.reduced import measure_products
from timeroof.probe.cpu.threads import Team
from timeroof.probe.cpu.topology import read_features
from timeroof.probe.launch import LaunchCost, TorchLaunches, launch_ceiling, timed
from timeroof.probe.sampling import Figure, Plan, ProbeError
from timeroof.probe.torch_device import Settings, measure_device
from timeroof.probe.torch_kernels import (
    PATTERNS,
    DeviceTimer,
    check_product,
    check_stream,
    operands,
    product,
    stream,
    tf32,
)

torch: Any = pytest.importorskip("torch")

TINY = Plan(sample_s=1e-5, least=2, most=2)
SMALL = Settings(
    gemm_sizes=(16, 32),
    stream_bytes=1 << 16,
    curve_bytes=(1 << 12, 1 << 14),
    link_bytes=1 << 12,
    cache_bytes=1 << 13,
    plan=TINY,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for one another make tiny ops slow on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_launch_costs_of_torch() -> None:
    launches = TorchLaunches(TINY)
    launches.take()
    launches.take()
    costs = launches.costs()
    assert {cost.python_loop for cost in costs} == {True, False}
    assert all(cost.figure.rate_per_s > 0 for cost in costs)


def test_a_python_loop_is_timed_with_the_given_clock() -> None:
    now = iter([10.0, 14.0])
    calls: list[int] = []
    assert timed(lambda: calls.append(1), lambda: next(now))(4) == 4.0
    assert len(calls) == 4


def test_the_launch_ceiling_is_the_cheapest_op_without_python() -> None:
    costs = [
        LaunchCost("a", Figure(2.5e6, 0.1)),
        LaunchCost("b", Figure(1e7, 0.2), python_loop=True),
        LaunchCost("c", Figure(5e6, 0.5)),
    ]
    ceiling = launch_ceiling(costs)
    assert ceiling is not None
    assert (ceiling.rate, ceiling.spread) == (5e6, 0.5)
    assert set(ceiling.variants) == {"a", "b", "c"}
    assert launch_ceiling(costs[1:2]) is None


@pytest.mark.parametrize("precision", ["fp64", "fp32", "fp16", "bf16", "int8"])
def test_products_are_checked(precision: str) -> None:
    left, right = operands(precision, 32, "cpu")
    result = product(left, right)()
    check_product(result, left, right)
    with pytest.raises(ProbeError, match="matrix product"):
        check_product(result * 0, left, right)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_streams_are_checked(pattern: str) -> None:
    call, moved, size = stream(pattern, 4096, "cpu")
    check_stream(pattern, call)
    loads_and_stores = {"read": 1, "write": 1, "update": 2, "copy": 1, "triad": 1}[pattern]
    assert moved == pytest.approx(size * loads_and_stores)
    with pytest.raises(ProbeError, match="stream"):
        check_stream(pattern, lambda: torch.zeros(4) if pattern != "read" else torch.zeros(()))


def test_a_whole_device() -> None:
    steps: list[tuple[str, float]] = []
    found = measure_device("cpu", SMALL, lambda name, share: steps.append((name, share)))
    resources = {ceiling.resource for ceiling in found.ceilings}
    assert {"flop/fp32", "flop/fp64", "byte/dram", "launch"} <= resources
    assert {"link/host-to-device", "link/device-to-host"} <= resources
    machine = Machine(name="here", device=found.name, ceilings=found.ceilings)
    assert check_machine(machine, "test") is machine
    fp32 = next(c for c in found.ceilings if c.resource == "flop/fp32")
    assert set(fp32.variants) == {"16×16", "32×32"}
    assert {point.pattern for point in found.sweep} == set(PATTERNS)
    assert [name for name, _ in steps] == ["matrix products", "memory", "host links", "launching"]


def test_a_dtype_that_the_device_lacks_becomes_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("not implemented for 'Char'\nmore")

    monkeypatch.setattr(torch, "_int_mm", refuse)
    found = measure_device("cpu", SMALL)
    assert "flop/int8" not in {ceiling.resource for ceiling in found.ceilings}
    assert "not implemented for 'Char'" in " ".join(found.notes)


def test_settings_of_torch_are_put_back() -> None:
    precision = torch.get_float32_matmul_precision()
    with tf32(True):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == precision


def test_the_timer_uses_the_given_clock() -> None:
    ticks = iter(range(100))
    timer = DeviceTimer("cpu", clock=lambda: float(next(ticks)))
    assert timer.run(lambda: None)(5) == 1.0
    assert timer.submit(lambda: None)(5) == 1.0
    assert timer.cold(lambda: None, 64)(5) == 1.0


def test_short_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduced, "SIZES", (32,))
    monkeypatch.setattr(reduced, "PLAN", TINY)
    features = read_features("x86_64", {"avx512bf16", "amx-int8"})
    found = reduced.measure_reduced(features, {"core": (0,), "all": (0,)}, quick=True)
    assert {(c.resource, c.scope) for c in found.ceilings} == {
        ("flop/bf16", "core"),
        ("flop/bf16", "all"),
        ("flop/int8-tensor", "core"),
        ("flop/int8-tensor", "all"),
    }
    assert found.emulated == {"flop/fp16": "flop/fp32", "flop/int8": "flop/int8-tensor"}
    assert "This CPU has no units for FP16." in found.notes[0]


def test_products_side_by_side_leave_torch_as_it_was() -> None:
    threads = torch.get_num_threads()
    with Team([None, None]) as team:
        figure = measure_products(team, "bf16", 32, TINY)
    assert figure.rate_per_s > 0
    assert torch.get_num_threads() == threads
