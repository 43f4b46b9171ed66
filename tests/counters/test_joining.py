"""Counters give amounts, the clean run gives times."""

from __future__ import annotations

import polars as pl
import pytest

from timeroof.core.profile import Profile, Source
from timeroof.counters import join
from timeroof.counters.join import plain_name


def timed(rows: list[dict[str, object]], **whole: object) -> Profile:
    return Profile.of(rows, Source(tool="clean"), **whole)


def counted(rows: list[dict[str, object]]) -> Profile:
    measured = {"origin.flops": "measured", "origin.bytes/dram": "measured"}
    return Profile.of([measured | r for r in rows], Source(tool="Nsight Compute"))


def rows_of(profile: Profile) -> dict[int, dict[str, object]]:
    return {row["id"]: row for row in profile.kernels.to_dicts()}


GEMM = {"name": "gemm", "time_s": 9.0, "calls": 2, "flop/fp32": 8.0, "byte/dram": 40.0}


def test_amounts_are_counted_and_times_are_clean() -> None:
    clean = {"name": "gemm", "time_s": 1.0, "calls": 2, "flop/bf16-tensor": 6.0, "byte/dram": 20.0}
    clean |= {"origin.flops": "counted", "origin.bytes/dram": "modelled", "contraction_flops": 6.0}
    joined = join(timed([clean]), counted([GEMM]))
    (row,) = joined.kernels.to_dicts()
    assert row["time_s"] == 1.0
    assert (row["flop/fp32"], row["flop/bf16-tensor"], row["byte/dram"]) == (8.0, 0.0, 40.0)
    assert (row["origin.flops"], row["origin.bytes/dram"]) == ("measured", "measured")
    assert row["contraction_flops"] == 6.0
    assert any("all times are from the clean run" in note for note in joined.notes)


def test_different_counts_are_averaged_with_a_note() -> None:
    joined = join(timed([{"name": "gemm", "time_s": 1.0, "calls": 3}]), counted([GEMM]))
    assert joined.kernels["byte/dram"].to_list() == [60.0]
    assert any("averages per call" in note for note in joined.notes)


def test_what_was_not_counted_stays() -> None:
    rows = [
        {"name": "gemm", "time_s": 3.0, "calls": 2, "byte/dram": 1.0, "flop/fp32": 1.0},
        {
            "name": "other",
            "time_s": 1.0,
            "byte/dram": 5.0,
            "flop/fp32": 2.0,
            "origin.flops": "counted",
        },
        {"name": "gemm", "kind": "copy", "time_s": 1.0, "byte/dram": 7.0},
    ]
    joined = join(timed(rows), counted([GEMM]))
    by_kind = {(r["name"], r["kind"]): r for r in joined.kernels.to_dicts()}
    assert by_kind["other", "kernel"]["byte/dram"] == 5.0
    assert by_kind["other", "kernel"]["origin.flops"] == "counted"
    assert by_kind["gemm", "copy"]["byte/dram"] == 7.0
    assert any("25 % of the kernels' time" in note for note in joined.notes)


def test_unknown_flops_are_not_taken() -> None:
    strange = GEMM | {"flop/fp16-tensor": None}
    joined = join(
        timed([{"name": "gemm", "time_s": 1.0, "calls": 2, "flop/fp32": 3.0}]), counted([strange])
    )
    (row,) = joined.kernels.to_dicts()
    assert (row["flop/fp32"], row["byte/dram"]) == (3.0, 40.0)


SHARED = [
    {"id": 1, "name": "gemm", "op": "linear", "time_s": 2.0, "calls": 1},
    {"id": 2, "name": "gemm", "op": "bmm", "time_s": 1.0, "calls": 2},
]


def test_rows_that_share_a_kernel_take_its_average() -> None:
    joined = join(timed(SHARED), counted([GEMM | {"calls": 3, "byte/dram": 60.0}]))
    amounts = {i: r["byte/dram"] for i, r in rows_of(joined).items()}
    assert amounts == {1: 20.0, 2: 40.0}


def test_launches_are_matched_by_occurrence() -> None:
    timeline = pl.DataFrame(
        {"start_s": [0.0, 1.0, 2.0], "duration_s": [0.1] * 3, "kernel": [2, 1, 2]}
    )
    launches = pl.DataFrame(
        {"name": ["gemm"] * 3, "byte/dram": [1.0, 50.0, 3.0], "flop/fp32": [1.0, 2.0, 3.0]}
    )
    whole = counted([GEMM | {"calls": 3, "byte/dram": 54.0, "flop/fp32": 6.0}])
    joined = join(timed(SHARED, timeline=timeline), whole, launches)
    assert {i: r["byte/dram"] for i, r in rows_of(joined).items()} == {1: 50.0, 2: 4.0}
    assert {i: r["flop/fp32"] for i, r in rows_of(joined).items()} == {1: 2.0, 2: 4.0}
    # One launch more in the counted run: averages again.
    longer = pl.concat([launches, launches.head(1)])
    again = join(timed(SHARED, timeline=timeline), whole, longer)
    assert {i: r["byte/dram"] for i, r in rows_of(again).items()} == {1: 18.0, 2: 36.0}


def test_names_are_spelled_in_several_ways() -> None:
    kineto = "void at::native::vec<4, at::{lambda(float)#1}, std::array<char*, 2> >(int, float)"
    nsight = "void at::native::vec<(int)4, at::[lambda(float) (instance 1)], std::array<char *, 2>>(int, float)"
    assert plain_name(kineto) == plain_name(nsight)
    joined = join(timed([{"name": kineto, "time_s": 1.0}]), counted([GEMM | {"name": nsight}]))
    assert joined.kernels["byte/dram"].to_list() == [20.0]


def test_nothing_in_common_changes_nothing() -> None:
    clean = timed([{"name": "x", "time_s": 1.0, "byte/dram": 1.0}])
    joined = join(clean, counted([GEMM]))
    assert joined.kernels.equals(clean.kernels)
    assert any("no counter is used" in note for note in joined.notes)


def unit(**amounts: object) -> Profile:
    row = {"name": "timeroof", "kind": "unit", "time_s": 5.0, "origin.flops": "measured"}
    return Profile.of([row | amounts], Source(tool="perf"))


def test_a_region_goes_to_the_one_unit() -> None:
    clean = timed([{"name": "case", "kind": "unit", "time_s": 1.0, "flop/bf16": 3.0}])
    joined = join(clean, unit(**{"flop/fp32": 7.0, "byte/dram": None}))
    (row,) = joined.kernels.to_dicts()
    assert (row["time_s"], row["flop/fp32"], row["flop/bf16"]) == (1.0, 7.0, 0.0)
    assert row["origin.flops"] == "measured"


def test_a_region_beside_many_rows_is_a_note() -> None:
    rows = [{"name": n, "kind": "op", "time_s": 1.0, "flop/fp32": 3.0} for n in "ab"]
    joined = join(timed(rows), unit(**{"flop/fp32": 7.0}))
    assert joined.kernels["flop/fp32"].sum() == 6.0
    assert any(
        "counted 7.00 FLOP for the whole region; the rows' own amounts are 6.00" in n
        for n in joined.notes
    )


@pytest.mark.parametrize("calls", [1.0, 2.5])
def test_a_join_keeps_rows_and_order(calls: float) -> None:
    rows = [{"name": n, "time_s": t, "calls": calls} for n, t in (("b", 2.0), ("gemm", 1.0))]
    clean = timed(rows)
    assert join(clean, counted([GEMM])).kernels["id"].to_list() == clean.kernels["id"].to_list()
