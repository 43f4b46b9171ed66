"""Totals and groups by hand."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from tests.conftest import make_machine
from tests.oracles.group import group, summed_units
from timeroof.core.errors import UsageError
from timeroof.core.machine import Machine
from timeroof.core.profile import Profile, Source, Steps
from timeroof.model.judge import judge
from timeroof.model.totals import totals

ROWS = [
    {"name": "gemm", "phase": "forward", "time_s": 4.0, "flop/fp32": 200.0, "byte/dram": 10.0},
    {"name": "copy", "phase": "forward", "time_s": 2.0, "flop/fp32": 0.0, "byte/dram": 10.0},
    {"name": "odd", "phase": "backward", "time_s": 2.0, "flop/fp32": None, "byte/dram": None},
]


def sums(machine: Machine | None, **whole: object) -> object:
    profile = Profile.of(ROWS, Source(tool="test"), **whole)
    return totals(profile, judge(profile, machine), machine)


def test_sums(machine: Machine) -> None:
    got = sums(machine)
    assert got.kernel_s == 8.0
    assert got.wall_s is None
    assert got.idle_s is None
    assert got.flops == {"fp32": 200.0}
    assert got.bytes == {"dram": 20.0}
    # The row whose amounts are unknown claims no gap and keeps its time on the ladder.
    assert got.bound_s == got.ladder.roof_s == pytest.approx(2.0 + 1.0 + 2.0)
    assert got.gap_s == pytest.approx(2.0 + 1.0)
    assert got.efficiency == pytest.approx(5.0 / 8.0)
    assert got.by_limiter == {
        "compute": 4.0,
        "memory": 2.0,
        "launch": 0.0,
        "latency": 0.0,
        "fault": 0.0,
        "link": 0.0,
        "unknown": 2.0,
    }
    assert got.known_time_share == pytest.approx(0.75)
    assert got.kernel_efficiency == pytest.approx(3.0 / 6.0)
    assert got.ladder.measured_s == 8.0
    assert got.ladder.fused_s is None
    assert got.recoverable_s == got.gap_s


def test_wall_time_and_steps(machine: Machine) -> None:
    got = sums(machine, wall_s=10.0, kernel_s=7.5)
    assert (got.wall_s, got.kernel_s, got.idle_s) == (10.0, 7.5, 2.5)
    assert got.ladder.measured_s == 10.0
    assert got.unexplained_s is None


def test_an_unprofiled_step_is_kernels_idle_causes_and_the_unexplained(machine: Machine) -> None:
    got = sums(
        machine,
        wall_s=9.0,
        kernel_s=7.5,
        idle_by_cause={"python": 2.5},
        unexplained_error_s=0.25,
        steps=Steps(count=3, unprofiled_s=9.0),
    )
    assert (got.wall_s, got.idle_s, got.unexplained_s) == (9.0, 2.5, -1.0)
    assert got.unexplained_error_s == 0.25
    assert got.ladder.measured_s == 9.0


def test_rungs_give_fused_and_ideal(machine: Machine) -> None:
    rungs = pl.DataFrame(
        {
            "name": ["fused", "fused", "ideal"],
            "phase": ["forward", "backward", None],
            "time_s": [None, None, None],
            "flop/fp32": [100.0, 100.0, 200.0],
            "byte/dram": [5.0, 20.0, 5.0],
        },
        schema_overrides={"time_s": pl.Float64},
    )
    got = sums(machine, rungs=rungs)
    assert got.ladder.fused_s == pytest.approx(1.0 + 2.0)
    assert got.ladder.ideal_s == pytest.approx(2.0)
    assert got.recoverable_s == pytest.approx(8.0 - 5.0)
    only_ideal = sums(machine, rungs=rungs.filter(pl.col("name") == "ideal"))
    assert only_ideal.ladder.fused_s is None


def test_without_a_machine() -> None:
    got = sums(None)
    assert got.bound_s is None
    assert got.ladder.roof_s is None
    assert got.efficiency is None
    assert got.by_limiter["unknown"] == 8.0


def test_an_empty_profile(machine: Machine, source: Source) -> None:
    profile = Profile.of(pl.DataFrame(schema={"name": pl.String, "time_s": pl.Float64}), source)
    # A live run without rows says 0 busy seconds: nobody looked, so that is not known either.
    for seen in (profile, replace(profile, kernel_s=0.0)):
        got = totals(seen, judge(seen, machine), machine)
        assert (got.kernel_s, got.launches, got.known_time_share) == (None, None, None)
        assert (got.efficiency, got.recoverable_s) == (None, None)
        assert set(msgspec.structs.asdict(got.ladder).values()) == {None}
        assert set(got.by_limiter.values()) == {0.0}
    seen = replace(profile, wall_s=2.0, kernel_s=0.0)
    got = totals(seen, judge(seen, machine), machine)
    assert (got.ladder.measured_s, got.kernel_s, got.idle_s) == (2.0, None, None)


def test_rows_that_were_not_timed_have_no_seconds(machine: Machine, source: Source) -> None:
    rows = [{"name": "k", "time_s": None, "flop/fp32": 100.0, "byte/dram": 1.0}]
    schema = {"name": pl.String, "time_s": pl.Float64, "flop/fp32": pl.Float64}
    profile = Profile.of(pl.DataFrame(rows, schema_overrides=schema), source)
    got = totals(profile, judge(profile, machine), machine)
    assert (got.kernel_s, got.ladder.measured_s) == (None, None)
    assert (got.launches, got.flops) == (1.0, {"fp32": 100.0})


def test_what_took_no_time_is_known_to(machine: Machine, source: Source) -> None:
    profile = Profile.of([{"name": "k", "time_s": 0.0}], source, kernel_s=0.0, wall_s=1.0)
    got = totals(profile, judge(profile, machine), machine)
    assert (got.kernel_s, got.idle_s, got.launches) == (0.0, 1.0, 1.0)


def test_group_by_phase(machine: Machine, source: Source) -> None:
    profile = Profile.of(ROWS, source)
    table = group(profile, judge(profile, machine), ["phase"])
    forward = table.row(0, named=True)
    assert forward["phase"] == "forward"
    assert forward["rows"] == 2
    assert forward["time_s"] == 6.0
    assert forward["bound_s"] == pytest.approx(3.0)
    assert forward["summed_bound_s"] == pytest.approx(2.0)
    assert forward["limiter"] == "flop/fp32"
    assert forward["unknown_time_s"] == 0.0
    backward = table.row(1, named=True)
    assert backward["flop/fp32"] is None
    assert backward["limiter"] == "unknown"


def test_group_by_a_label_and_by_nonsense(machine: Machine, source: Source) -> None:
    profile = Profile.of([{"name": "a", "time_s": 1.0, "label.batch": "16"}], source)
    verdicts = judge(profile, machine)
    assert group(profile, verdicts, ["batch"]).height == 1
    with pytest.raises(UsageError, match="colour"):
        group(profile, verdicts, ["colour"])


def test_summed_units_are_the_papers_passes(machine: Machine, source: Source) -> None:
    units = summed_units(Profile.of(ROWS, source), ["phase"])
    assert len(units) == 2
    forward = units.kernels.row(0, named=True)
    assert (forward["kind"], forward["name"], forward["time_s"]) == ("unit", "forward", 6.0)
    assert forward["flop/fp32"] == 200.0
    assert forward["byte/dram"] == 20.0
    assert units.kernels.row(1, named=True)["flop/fp32"] is None
    assert judge(units, machine).table["bound_s"][0] == pytest.approx(2.0)


def test_rows_without_a_time_do_not_count_against_time(machine: Machine, source: Source) -> None:
    rows = [
        {"name": "a", "time_s": 1.0, "flop/fp32": 50.0, "byte/dram": 1.0},
        {"name": "b", "time_s": None, "flop/fp32": 1e9, "byte/dram": 1e9},
    ]
    profile = Profile.of(rows, source)
    got = totals(profile, judge(profile, machine), machine)
    assert got.efficiency == pytest.approx(0.5)
    assert got.bound_s == pytest.approx(0.5)
    assert got.ladder.roof_s == pytest.approx(0.5)
    assert got.flops == {"fp32": 1e9 + 50}


def test_the_roof_counts_kernels_that_overlap_once(machine: Machine, source: Source) -> None:
    rows = [
        {"name": f"k{i}", "time_s": 4.0, "flop/fp32": 200.0, "byte/dram": 1.0, "stream": str(i)}
        for i in range(2)
    ]
    profile = Profile.of(rows, source, wall_s=5.0, kernel_s=4.0)
    got = totals(profile, judge(profile, machine), machine)
    assert got.ladder.roof_s == pytest.approx(2.0)
    assert got.efficiency == pytest.approx(2.0 / 5.0)


def test_no_roof_where_most_of_the_time_is_unknown(machine: Machine, source: Source) -> None:
    unknown = {"name": "odd", "flop/fp32": None, "byte/dram": None}
    for unknown_s, told in ((5.0, False), (4.0, True)):
        profile = Profile.of([ROWS[0], {**unknown, "time_s": unknown_s}], source)
        got = totals(profile, judge(profile, machine), machine)
        assert (got.ladder.roof_s is not None) == told


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.floats(0.1, 100.0), st.none() | st.floats(0, 1e4), st.none() | st.floats(0, 1e3)
        ),
        min_size=1,
        max_size=6,
    ),
    st.floats(0.1, 1.0),
    st.floats(0.1, 1.0),
)
def test_no_rung_is_above_the_one_before(
    rows: list[tuple[float, float | None, float | None]], wall: float, busy: float
) -> None:
    """Also where kernels overlap, and where rows are above their roof."""
    table = [
        {"name": f"k{i}", "time_s": t, "flop/fp32": f, "byte/dram": b}
        for i, (t, f, b) in enumerate(rows)
    ]
    wall_s = wall * sum(t for t, _, _ in rows)
    rungs = pl.DataFrame(
        {
            "name": ["fused", "ideal"],
            "time_s": pl.Series([None, None], dtype=pl.Float64),
            "flop/fp32": [50.0, 50.0],
            "byte/dram": [5.0, 20.0],
        }
    )
    profile = Profile.of(
        table, Source(tool="t"), wall_s=wall_s, kernel_s=busy * wall_s, rungs=rungs
    )
    machine = make_machine()
    got = totals(profile, judge(profile, machine), machine).ladder
    ladder = [got.measured_s, got.roof_s, got.fused_s, got.ideal_s]
    known = [rung for rung in ladder if rung is not None]
    assert known == sorted(known, reverse=True)


def test_totals_of_several_ranks_are_those_of_a_mean_one(machine: Machine, source: Source) -> None:
    work = {"flop/fp32": 200.0, "byte/dram": 1.0, "launches": 10}
    rows = [{"name": "k", "time_s": 4.0, "rank": rank, **work} for rank in range(4)]
    for whole in ({}, {"wall_s": 5.0, "kernel_s": 4.0}):
        profile = Profile.of(rows, source, **whole)
        got = totals(profile, judge(profile, machine), machine)
        assert got.kernel_s == 4.0
        assert (got.launches, got.flops) == (10, {"fp32": 200.0})
        assert got.by_limiter["compute"] == 4.0
        assert got.ladder.roof_s == pytest.approx(2.0)
        assert got.ladder.measured_s == whole.get("wall_s", 4.0)
        assert sum(got.by_class.values()) == pytest.approx(whole.get("wall_s", 4.0))


def test_bound_efficiency_and_recoverable_seconds_belong_together(
    machine: Machine, source: Source
) -> None:
    work = {"time_s": 4.0, "flop/fp32": 200.0, "byte/dram": 1.0}
    rows = [
        {"name": "alone", **work, "exclusive_s": 4.0},
        {"name": "beside", **work, "exclusive_s": 2.0, "stream": "2"},
        {"name": "also", **work, "exclusive_s": 2.0, "stream": "3"},
        {"name": "dark", "time_s": 1.0, "flop/fp32": None, "byte/dram": None, "exclusive_s": 1.0},
    ]
    profile = Profile.of(rows, source, wall_s=12.0, kernel_s=9.0)
    got = totals(profile, judge(profile, machine), machine)
    assert got.bound_s == pytest.approx(2.0 + 1.0 + 1.0 + 1.0)
    assert got.recoverable_s == got.gap_s == pytest.approx(12.0 - 5.0)
    assert got.efficiency == pytest.approx(5.0 / 12.0)


def test_idle_before_a_kernel_of_unknown_work_is_no_time_of_its_own(machine: Machine) -> None:
    """A GPU that waits 90 of 98 s for the host is not at 93 % of what it can do."""
    rows = [*ROWS[:2], {**ROWS[2], "launches": 1.0, "idle_before_s": 90.0}]
    profile = Profile.of(rows, Source(tool="test"), wall_s=98.0, kernel_s=8.0)
    got = totals(profile, judge(profile, machine), machine)
    assert got.ladder.roof_s == pytest.approx(2.0 + 1.0 + 2.0)
    # Launching is a bound of what is not known, too.
    rows[2]["launches"] = 500.0
    profile = Profile.of(rows, Source(tool="test"), wall_s=98.0, kernel_s=8.0)
    judged = judge(profile, machine)
    launching = judged.table["overhead_time_s"].max()
    assert 2.0 < launching < 92.0
    got = totals(profile, judged, machine)
    assert got.ladder.roof_s == pytest.approx(2.0 + 1.0 + launching)
