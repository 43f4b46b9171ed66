"""What must hold for the model whatever the numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from hypothesis import HealthCheck, given, settings, strategies as st
from polars.testing import assert_frame_equal

from tests.conftest import make_machine
from tests.oracles.group import group
from timeroof.core.machine import Machine
from timeroof.core.profile import Profile, Source
from timeroof.core.run_file import SavedRun, load_run, save_run
from timeroof.model.judge import judge
from timeroof.model.totals import totals

RESOURCES = ["flop/fp32", "flop/fp16-tensor", "byte/l2", "byte/dram", "link/nvlink", "fault"]
amount = st.one_of(st.none(), st.just(0.0), st.floats(1e-6, 1e12))
seconds = st.floats(1e-9, 1e4)

rows = st.fixed_dictionaries(
    {
        "name": st.text(max_size=8),
        "time_s": seconds,
        "launches": st.integers(0, 1000),
        "idle_before_s": st.one_of(st.none(), seconds),
        **dict.fromkeys(RESOURCES, amount),
    }
)
tables = st.lists(rows, min_size=1, max_size=8)


def profile_of(table: list[dict[str, Any]]) -> Profile:
    schema = dict.fromkeys([*RESOURCES, "idle_before_s", "time_s", "launches"], pl.Float64)
    return Profile.of(pl.DataFrame(table, schema_overrides=schema), Source(tool="test"))


def faster(machine: Machine, resource: str, factor: float) -> Machine:
    ceilings = [
        msgspec.structs.replace(c, rate=c.rate * factor) if c.resource == resource else c
        for c in machine.ceilings
    ]
    return msgspec.structs.replace(machine, ceilings=ceilings)


@given(tables, st.sampled_from(RESOURCES))
def test_doubling_a_rate_halves_its_bound(table: list[dict[str, Any]], resource: str) -> None:
    profile, machine = profile_of(table), make_machine()
    slow = judge(profile, machine).table[f"bound.{resource}"]
    fast = judge(profile, faster(machine, resource, 2.0)).table[f"bound.{resource}"]
    assert (fast * 2).to_list() == slow.to_list()


@given(tables, st.sampled_from(RESOURCES), st.floats(1.0, 1e6))
def test_more_work_never_lowers_a_bound(
    table: list[dict[str, Any]], resource: str, factor: float
) -> None:
    profile, machine = profile_of(table), make_machine()
    more = profile.with_kernels(profile.kernels.with_columns(pl.col(resource) * factor))
    before, after = (judge(p, machine).table["bound_s"] for p in (profile, more))
    assert (after.fill_null(0) >= before.fill_null(0)).all()


@given(tables, st.sampled_from(["asynchronous", "synchronous"]))
def test_the_bound_is_at_least_every_part(table: list[dict[str, Any]], launching: str) -> None:
    verdicts = judge(profile_of(table), make_machine(launching=launching))
    for resource in verdicts.resources:
        part = verdicts.table[f"bound.{resource}"].fill_null(0)
        assert (verdicts.table["bound_s"].fill_null(0) >= part).all()


@given(rows, st.integers(2, 5))
def test_splitting_a_kernel_keeps_the_totals(row: dict[str, Any], parts: int) -> None:
    split = {
        k: v / parts if isinstance(v, int | float) and v is not None else v for k, v in row.items()
    }
    machine = make_machine()
    whole_sum, split_sum = (
        totals(p, judge(p, machine), machine)
        for p in (profile_of([row]), profile_of([split] * parts))
    )
    for field in ("kernel_s", "launches", "bound_s", "gap_s"):
        a, b = getattr(whole_sum, field), getattr(split_sum, field)
        assert (a is None) == (b is None)
        if a is not None:
            assert abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1e-3) + 1e-12


@given(tables, st.randoms())
def test_order_is_irrelevant(table: list[dict[str, Any]], random: Any) -> None:
    shuffled = list(table)
    random.shuffle(shuffled)
    machine = make_machine()
    keys = ["time_s", "launches", "bound_s", "limiter", "gap_s"]

    def judged(part: list[dict[str, Any]]) -> pl.DataFrame:
        profile = profile_of(part)
        both = [profile.kernels, judge(profile, machine).table.drop("id")]
        return pl.concat(both, how="horizontal").select(keys).sort(keys)

    assert_frame_equal(judged(table), judged(shuffled))


@given(tables)
def test_seconds_by_limiter_sum_to_all_seconds(table: list[dict[str, Any]]) -> None:
    profile, machine = profile_of(table), make_machine()
    sums = totals(profile, judge(profile, machine), machine)
    assert abs(sum(sums.by_limiter.values()) - profile.kernels["time_s"].sum()) < 1e-6
    assert sums.known_time_share is not None
    assert 0 <= sums.known_time_share <= 1 + 1e-12


@given(tables)
def test_the_larger_time_coordinate_is_the_run_time(table: list[dict[str, Any]]) -> None:
    profile = profile_of(table)
    verdicts = judge(profile, make_machine()).table
    both = pl.concat([profile.kernels.select("time_s"), verdicts], how="horizontal").filter(
        pl.col("compute_time_s").is_not_null()
    )
    larger = both.select(pl.max_horizontal("compute_time_s", "bandwidth_time_s")).to_series()
    assert (larger == both["time_s"]).all()


@given(tables)
def test_groups_sum_to_the_whole(table: list[dict[str, Any]]) -> None:
    profile, machine = profile_of(table), make_machine()
    verdicts = judge(profile, machine)
    groups = group(profile, verdicts, ["name"])
    assert abs(groups["time_s"].sum() - profile.kernels["time_s"].sum()) < 1e-6
    assert groups["rows"].sum() == len(profile)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(table=tables)
def test_save_and_load_is_the_identity(tmp_path: Path, table: list[dict[str, Any]]) -> None:
    profile, machine = profile_of(table), make_machine()
    save_run(SavedRun(profile, machine, "now", "1"), tmp_path / "a.troof")
    loaded = load_run(tmp_path / "a.troof")
    assert_frame_equal(loaded.profile.kernels, profile.kernels, check_column_order=False)
    assert loaded.machine == machine
    assert loaded.profile.source == profile.source
    assert (loaded.created, loaded.version) == ("now", "1")
