"""Launch costs of frameworks: who is measured, where they stand, what a limiter makes of them."""

from __future__ import annotations

import msgspec
import polars as pl
import pytest

from tests.conftest import make_machine
from timeroof.core.machine import Ceiling, launch_variant
from timeroof.core.profile import Profile, Source
from timeroof.model.bounds import op_cost_s
from timeroof.model.judge import judge
from timeroof.probe import launch
from timeroof.probe.cpu.threads import pages_at
from timeroof.views.machine import launch_lines

COSTS = {"op": 5e-6, "call": 8e-6, "kernel": 1e-6}


def machine(**more: float):
    variants = {"torch zero_, C++ loop": 1e7, "torch add, python loop": 1e6, **more}
    launch = Ceiling(resource="launch", rate=1e7, origin="measured", variants=variants)
    work = [
        Ceiling(resource=r, rate=v, origin="measured")
        for r, v in (("flop/fp32", 1e12), ("byte/dram", 1e11))
    ]
    return make_machine(ceilings=[launch, *work], launching="synchronous")


def test_frameworks_that_are_installed_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"jax": "1.0", "tensorflow": None}
    monkeypatch.setattr(launch, "version", there.get)
    asked: list[str] = []

    def costs(name: str) -> dict[str, float]:
        asked.append(name)
        return COSTS

    first, notes = launch.with_frameworks(machine(), costs)
    second, _ = launch.with_frameworks(first, costs)
    assert (asked, notes, second) == (["jax"], [], first)
    assert first.software["jax"] == "1.0"
    there["jax"] = "2.0"
    launch.with_frameworks(first, costs)
    assert asked == ["jax", "jax"]
    ceiling = first.roofs()["launch"]
    assert ceiling.rate == 1e7
    assert ceiling.variants[launch_variant("jax", "call")] == pytest.approx(1 / 8e-6)


def test_what_cannot_be_measured_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "version", {"jax": None, "tensorflow": "2"}.get)
    found, notes = launch.with_frameworks(machine(), lambda name: None)
    assert found == machine()
    assert notes == ["The launch cost of tensorflow could not be measured."]


def test_the_cost_of_an_op_is_that_of_its_framework() -> None:
    here = machine(**{launch_variant("jax", "op"): 1 / 5e-6})
    assert op_cost_s(here) == pytest.approx(1e-6)
    assert op_cost_s(here, "jax") == pytest.approx(5e-6)
    # Nobody measured it: what is usual.
    assert op_cost_s(here, "tensorflow") == pytest.approx(1e-5)


@pytest.mark.parametrize(
    ("framework", "variant", "time_s", "limiter"),
    [
        ("torch", "eager", 1.5e-6, "launch"),
        ("torch", "eager", 9e-6, "latency"),
        ("jax", "eager", 9e-6, "launch"),
        ("jax", "eager", 12e-6, "latency"),
        ("jax", "compiled", 17e-6, "launch"),
        ("jax", "compiled", 30e-6, "latency"),
    ],
)
def test_a_small_op_is_launch_bound_by_the_cost_of_its_framework(
    framework: str, variant: str, time_s: float, limiter: str
) -> None:
    here = machine(**{launch_variant("jax", what): 1 / s for what, s in COSTS.items()})
    row = {
        "name": "x", "time_s": time_s, "launches": 1.0, "flop/fp32": 10.0, "byte/dram": 10.0,
        "label.framework": framework, "label.variant": variant,
    }  # fmt: skip
    found = judge(Profile.of(pl.DataFrame([row]), Source(tool="test")), here).table
    assert found["limiter"].to_list() == [limiter]


def test_costs_are_said_per_op_call_and_kernel() -> None:
    here = machine(**{launch_variant("jax", what): 1 / s for what, s in COSTS.items()})
    assert launch_lines(here) == [
        "Launch cost in torch: 1.0 µs per op from Python, 100 ns per op in a loop without Python.",
        "Launch cost in jax: 5.0 µs per op from Python, 8.0 µs per call of a compiled function, 1.0 µs"
        " per kernel inside.",
    ]
    assert msgspec.json.decode(msgspec.json.encode(here))["ceilings"][0]["variants"]


def test_pages_are_those_that_the_system_gave() -> None:
    text = "10000-50000 rw-p 0 00:00 0\nRss: 256 kB\nAnonHugePages:  {} kB\n"
    said = [pages_at(text.format(kb), 0x20000, 1 << 18) for kb in (256, 64, 0)]
    assert said == ["huge (2 MB)", "both huge (2 MB) and 4 kB", "4 kB"]
    assert pages_at("nonsense", 1, 1) is None


@pytest.mark.slow
def test_jax_is_measured_in_a_process_of_its_own() -> None:
    pytest.importorskip("jax")
    found = launch.measured_costs("jax")
    assert found is not None
    assert set(found) == {"op", "call", "kernel"}
    assert 0 < found["op"] < 1e-2
