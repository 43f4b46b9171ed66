"""Causes of a difference: cores are the machine's, parts of a program are not scaled wildly."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from tests.conftest import make_machine
from tests.model.test_compare import report, row, sums_up
from timeroof.api.reports import analyze
from timeroof.core.machine import Machine
from timeroof.core.report import Totals
from timeroof.model.compare.causes import WILD_RATIO, host_between
from timeroof.model.compare.compare import compare
from timeroof.model.compare.notes import judged_scope


def with_cores(cores: int) -> Machine:
    """One core is the plain machine, all of them are as many times as fast."""
    made = make_machine(launching="synchronous")
    core = [msgspec.structs.replace(c, scope="core") for c in made.ceilings]
    every = [msgspec.structs.replace(c, rate=c.rate * cores) for c in made.ceilings]
    return msgspec.structs.replace(made, ceilings=[*core, *every])


@pytest.mark.parametrize("threads", [(1, 2), (2, 1)])
def test_equal_work_on_other_cores_is_the_machine(threads: tuple[int, int]) -> None:
    machine = with_cores(2)
    sides = [report([row(10.0 / n, launches=0.0)], machine, threads=n) for n in threads]
    assert [judged_scope(side) for side in sides] == ["core" if n == 1 else "all" for n in threads]
    got = compare(*sides)
    sums_up(got)
    assert got.causes["work"] == 0.0
    assert got.causes["machine"] == pytest.approx(got.delta_s)
    assert got.causes["efficiency"] == pytest.approx(0.0)
    assert "other cores" in " ".join(got.notes)


def test_the_scope_is_the_one_that_a_run_was_judged_on() -> None:
    profile = report([row(10.0)], with_cores(4), threads=1).profile
    forced = analyze(profile, with_cores(4), scope="all")
    assert judged_scope(forced) == "all"
    assert compare(forced, forced).causes["machine"] == 0.0


def test_the_same_number_of_threads_is_no_cause() -> None:
    a, b = (report([row(t)], with_cores(2), threads=2) for t in (10.0, 12.0))
    assert compare(a, b).causes["machine"] == 0.0


def fused(time_s: float, flops: float, **more: Any) -> dict[str, Any]:
    """A row that no row of the other side is a kernel of: it meets it by phase only."""
    name = str(more.pop("name"))
    alone = {"op": None, "module": None, "shape": None, "launches": 0.0, "byte/dram": 0.0}
    return {**row(time_s, flops, name=name), **alone, **more}


def test_parts_of_a_program_are_not_scaled_by_a_tiny_row() -> None:
    """A small row of one side meets the large ones of the other: their seconds are the work."""
    small, large = fused(0.02, 0.1, name="alpha"), fused(0.5, 30.0, name="omega")
    got = compare(report([small]), report([large]))
    sums_up(got)
    assert got.rows["matched_by"].item() == "phase"
    assert 0.4 < got.causes["work"] <= 0.5
    assert abs(got.causes["efficiency"]) <= 0.02
    back = compare(report([large]), report([small]))
    sums_up(back)
    assert back.causes["work"] == pytest.approx(-got.causes["work"])


def test_a_kernel_with_twice_the_work_still_scales() -> None:
    got = compare(report([row(10.0, 500.0)]), report([row(16.0, 1000.0)]))
    assert got.causes["work"] == pytest.approx(10.0)
    assert got.causes["efficiency"] == pytest.approx(-4.0)


@pytest.mark.parametrize("ratio", [WILD_RATIO, WILD_RATIO * 1.001, 300.0])
def test_many_times_the_work_at_one_efficiency_is_all_work(ratio: float) -> None:
    a, b = report([row(0.2, 10.0, 0.0)]), report([row(0.2 * ratio, 10.0 * ratio, 0.0)])
    got = compare(a, b)
    sums_up(got)
    assert got.causes["work"] == pytest.approx(got.delta_s)
    assert got.causes["efficiency"] == pytest.approx(0.0, abs=1e-9)


amounts = st.floats(0.01, 1e4)
seconds = st.floats(1e-4, 100.0)


@given(seconds, seconds, amounts, amounts, st.sampled_from(["phase", "kernel"]), st.booleans())
@pytest.mark.slow
def test_no_cause_of_a_part_exceeds_the_seconds(
    a_s: float, b_s: float, a_work: float, b_work: float, how: str, more_cores: bool
) -> None:
    names = ("alpha", "omega") if how == "phase" else ("alpha", "alpha")
    machine = with_cores(2)
    sides = [
        report([fused(t, work, name=name)], machine, threads=n)
        for t, work, name, n in zip(
            (a_s, b_s), (a_work, b_work), names, (1, 2 if more_cores else 1), strict=True
        )
    ]
    got = compare(*sides)
    assert math.fsum(got.causes.values()) == pytest.approx(got.delta_s, rel=1e-9, abs=1e-9)
    most_s = max(a_s, b_s) * (WILD_RATIO if how == "kernel" else 1.0)
    assert abs(got.causes["work"]) <= most_s * (2 if more_cores else 1) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("launches", "host_s", "explained_s"),
    [
        (100, 10.0, -70.0),
        (100, 2.0, -72.0),
        (1000, 10.0, 0.0),
        (100, 90.0, 0.0),
        (2000, 90.0, 10.0),
    ],
)
def test_host_time_beside_the_kernels_goes_with_the_launches(
    launches: int, host_s: float, explained_s: float
) -> None:
    """As many seconds per launch as before, but no more than the host's time changed by."""
    totals = report([row(10.0)]).totals

    def run(count: float, seconds: float) -> tuple[Totals, float]:
        idle = {"python": seconds / 2, "dispatch": seconds / 2, "cpu-wait": 5.0}
        told = msgspec.structs.replace(totals, launches=count, idle_by_cause=idle)
        return told, seconds + 5.0

    assert host_between(run(1000, 80.0), run(launches, host_s)) == pytest.approx(explained_s)
