"""Comparing runs: causes sum to the difference, noise is no change, names may change."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from tests.conftest import make_machine
from tests.model.test_whatif import faster
from timeroof.api.reports import analyze
from timeroof.core.machine import Machine
from timeroof.core.profile import Profile, Source, Steps
from timeroof.core.report import Report
from timeroof.model.compare.compare import OUTSIDE, Comparison, compare
from timeroof.views.compare import headline

ROW = {"name": "mm", "op": "aten::mm", "shape": "[4, 4]", "module": "m.0", "phase": "forward"}


def row(time_s: float, flops: float = 500.0, launches: float = 1.0, **more: Any) -> dict[str, Any]:
    amounts = {"flop/fp32": flops, "byte/dram": 1.0, "launches": launches}
    return {**ROW, "time_s": time_s, **amounts, **more}


def report(rows: list[dict[str, Any]], machine: Machine | None = None, **whole: Any) -> Report:
    return analyze(Profile.of(rows, Source(tool="t"), **whole), machine or make_machine())


def sums_up(comparison: Comparison) -> None:
    assert math.fsum(comparison.causes.values()) == pytest.approx(comparison.delta_s, abs=1e-12)
    for made in comparison.document()["rows"]:
        assert math.fsum(made["causes"].values()) == pytest.approx(made["delta_s"], abs=1e-12)


def test_a_run_with_itself_is_the_same() -> None:
    made = report([row(10.0), row(3.0, name="b", op="aten::add")], wall_s=20.0)
    got = compare(made, made)
    assert got.delta_s == 0.0
    assert not got.significant
    assert not got.rows["significant"].any()
    assert set(got.causes.values()) == {0.0}


def test_less_work() -> None:
    got = compare(report([row(10.0, 500.0)]), report([row(5.0, 250.0)]))
    sums_up(got)
    assert got.causes["work"] == pytest.approx(-5.0)
    assert got.causes["efficiency"] == pytest.approx(0.0)
    assert got.significant


def test_higher_efficiency() -> None:
    got = compare(report([row(10.0)]), report([row(6.0)]))
    sums_up(got)
    assert got.causes["efficiency"] == pytest.approx(-4.0)


def test_fewer_launches() -> None:
    got = compare(report([row(9.0, 1.0, 100.0)]), report([row(3.0, 1.0, 33.0)]))
    sums_up(got)
    assert got.causes["launches"] == pytest.approx(-9.0 * 0.67)
    synchronous = make_machine(launching="synchronous")
    before, after = row(10.0, 500.0, 40.0), row(7.0, 500.0, 10.0)
    got = compare(report([before], synchronous), report([after], synchronous))
    sums_up(got)
    assert got.causes["launches"] == pytest.approx(-3.0)
    assert got.causes["efficiency"] == pytest.approx(0.0)


def test_another_machine() -> None:
    got = compare(report([row(10.0)]), report([row(5.0)], faster(flop_fp32=2.0)))
    sums_up(got)
    assert got.causes["machine"] == pytest.approx(-5.0)
    slow = compare(
        report([row(9.0, 1.0, 100.0)]), report([row(18.0, 1.0, 100.0)], faster(launch=0.5))
    )
    sums_up(slow)
    assert slow.causes["machine"] == pytest.approx(9.0)


def test_unknown_work_is_other() -> None:
    unknown = {**ROW, "flop/fp32": None, "byte/dram": None, "launches": 0.0}
    got = compare(report([{**unknown, "time_s": 4.0}]), report([{**unknown, "time_s": 2.0}]))
    sums_up(got)
    assert got.causes["other"] == pytest.approx(-2.0)


def test_seconds_beside_the_kernels_have_their_own_row() -> None:
    got = compare(report([row(10.0)], wall_s=12.0), report([row(10.0)], wall_s=18.0))
    sums_up(got)
    assert got.rows["name"][0] == OUTSIDE
    assert got.causes["other"] == pytest.approx(6.0)
    assert got.significant


def test_rows_of_live_runs_are_compared_as_they_are() -> None:
    steps = Steps(count=5, unprofiled_s=11.0, profiled_s=13.0)
    live = report([row(10.0)], wall_s=11.0, steps=steps)
    got = compare(live, report([row(10.0)], wall_s=11.0))
    sums_up(got)
    assert got.delta_s == 0.0
    assert got.rows["delta_s"].abs().max() == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({}, "name kind op module shape dtype phase labels rank"),
        ({"name": "mm_v2"}, "op module shape dtype phase labels"),
        ({"name": "mm_v2", "dtype": "fp16"}, "family module shape phase"),
        ({"name": "x", "op": "aten::mm.out"}, "plain_op module shape dtype phase"),
        ({"name": "x", "op": "aten::_mm_"}, "plain_op module shape dtype phase"),
        ({"name": "x", "op": "aten::addmm"}, "family module shape phase"),
        ({"name": "x", "op": "aten::addmm", "shape": None}, "module family phase"),
        ({"name": "x", "op": "aten::addmm", "shape": None, "module": None}, "family phase"),
        ({"name": "sm80_mm_128x64", "op": None, "module": None}, "stem phase"),
        ({"op": "aten::addmm"}, "name shape phase labels"),
        ({"name": "x", "module": "net.first"}, "plain_op shape phase"),
        ({"name": "x", "shape": "[8, 8]"}, "module plain_op phase"),
        ({"name": "x", "shape": "[8, 8]", "module": None}, "plain_op phase"),
        ({"shape": "[8, 8]", "op": None, "module": None}, "name"),
        ({"name": "triton_fused", "op": None, "shape": None}, "module phase"),
        ({"name": "triton_fused", "op": None, "shape": None, "module": None}, "phase"),
    ],
)
def test_rows_match_by_less_and_less(change: dict[str, Any], level: str) -> None:
    got = compare(report([row(10.0)]), report([row(10.0, **change)]))
    assert got.rows.height == 1
    assert got.rows["matched_by"].item() == level
    sums_up(got)


def test_eager_against_compiled_meets_phase_by_phase() -> None:
    eager = [row(2.0, 50.0, 20.0, name=f"k{i}", op=f"aten::op{i}") for i in range(4)]
    fused = {**row(3.0, 200.0, 1.0), "name": "triton", "op": None, "module": None, "shape": None}
    got = compare(report(eager), report([fused]))
    sums_up(got)
    assert got.rows.height == 1
    assert got.rows["a_s"].item() == 8.0
    assert got.causes["launches"] < 0


def test_what_one_side_alone_has_is_work_and_launches() -> None:
    extra = row(4.0, name="b", op="aten::conv", phase="backward")
    got = compare(report([row(10.0)]), report([row(10.0), extra]))
    sums_up(got)
    assert got.causes["work"] == pytest.approx(4.0)


times = st.floats(0.001, 100.0)
sides = st.lists(
    st.tuples(times, st.floats(0, 1e4), st.integers(0, 300), st.sampled_from("abcd")),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40)
@given(sides, sides, st.sampled_from(["asynchronous", "synchronous"]), st.floats(0.2, 5.0))
@pytest.mark.slow
def test_causes_always_sum_to_the_difference(
    a: list[tuple[float, float, int, str]],
    b: list[tuple[float, float, int, str]],
    launching: str,
    factor: float,
) -> None:
    def made(side: list[tuple[float, float, int, str]], machine: Machine) -> Report:
        rows = [row(t, f, float(n), name=k, op=f"op::{k}", module=None) for t, f, n, k in side]
        return report(rows, machine)

    there = faster(flop_fp32=factor, launch=1 / factor)
    first = make_machine(launching=launching)
    second = make_machine(name="b", launching=launching, ceilings=there.ceilings)
    got = compare(made(a, first), made(b, second))
    assert math.fsum(got.causes.values()) == pytest.approx(got.delta_s, rel=1e-9, abs=1e-9)
    assert got.rows["a_s"].sum() == pytest.approx(got.a_s)


def noisy(seed: int, spread: float) -> Report:
    """A run whose rows vary as a shared machine makes them vary."""
    source = random.Random(seed)
    slower = 1 + abs(source.gauss(0, spread / 2))
    rows = []
    for i in range(30):
        samples = [(1 + i) * slower * (1 + abs(source.gauss(0, spread))) for _ in range(15)]
        ordered = sorted(samples)
        middle = ordered[7]
        iqr = (ordered[11] - ordered[3]) / middle
        rows.append(row(middle, 100.0, name=f"k{i}", kind="op", time_spread=iqr, samples=samples))
    return report(rows)


def test_two_runs_of_one_program_show_no_change() -> None:
    for seed in range(20):
        got = compare(noisy(2 * seed, 0.1), noisy(2 * seed + 1, 0.1))
        assert not got.significant
        assert not got.rows["significant"].any(), seed
        assert got.spread_known


def slowed(run: Report, factor: float, rows: int) -> list[dict[str, Any]]:
    """The rows of a run, the first of them slower in every sample."""
    return [
        {**r, "time_s": r["time_s"] * factor, "samples": [s * factor for s in r["samples"]]}
        if r["id"] < rows
        else r
        for r in run.profile.kernels.to_dicts()
    ]


def test_a_real_change_shows_through_the_noise() -> None:
    before = noisy(1, 0.02)
    got = compare(before, report(slowed(before, 1.5, 5)))
    assert got.significant
    assert got.rows["significant"].sum() == 5


def test_without_samples_a_plain_threshold_applies_and_is_said() -> None:
    assert compare(report([row(10.0)]), report([row(10.4)])).significant is False
    got = compare(report([row(10.0)]), report([row(10.6)]))
    assert got.significant
    assert "5%" in got.notes[0]


def test_the_document_has_every_field() -> None:
    document = compare(report([row(10.0)]), report([row(6.0)]), ("a.troof", "b.troof")).document()
    assert document["schema"] == "timeroof.compare/1"
    assert (document["a"], document["b"]) == ("a.troof", "b.troof")
    assert {"a_s", "b_s", "delta_s", "significant"} <= set(document["total"])
    assert set(document["causes"]) == {"work", "launches", "efficiency", "machine", "other"}
    assert {"name", "a_s", "b_s", "delta_s", "significant", "causes"} <= set(document["rows"][0])


def clean(*seconds: float) -> Report:
    ordered = sorted(seconds)
    middle = ordered[len(ordered) // 2]
    steps = Steps(count=20, unprofiled_s=middle, profiled_s=middle, samples=list(seconds))
    return report([row(middle)], wall_s=middle, steps=steps)


def test_whole_runs_are_told_apart_by_their_clean_steps() -> None:
    before = clean(10.0, 10.1, 9.9, 10.0, 10.1, 9.9, 10.0)
    assert compare(before, clean(10.9, 11.0, 10.8, 10.9, 11.0, 10.8, 10.9)).significant
    assert not compare(before, clean(10.6, 10.7, 10.5, 10.6, 10.7, 10.5, 10.6)).significant
    noisy_steps = clean(9.0, 12.8, 10.8, 14.0, 10.8, 9.5, 12.0)
    got = compare(before, noisy_steps)
    assert not got.significant
    assert got.spread_known
    assert got.noise_s > 1.0


def test_a_neighbour_slows_steps_but_not_the_fastest_one() -> None:
    before = clean(10.0, 10.1, 9.9, 10.0, 10.1, 9.9, 10.0, 10.0)
    disturbed = clean(10.1, 20.0, 20.1, 19.9, 20.0, 20.1, 20.0, 19.9)
    assert not compare(before, disturbed).significant
    assert compare(before, clean(*(20.0 for _ in range(8)))).significant


def paced(*seconds: float, pace: float) -> Report:
    made = clean(*seconds)
    assert made.profile.steps is not None
    steps = msgspec.structs.replace(made.profile.steps, pace_samples=[pace] * 4)
    return analyze(replace(made.profile, steps=steps), made.machine)


@pytest.mark.parametrize(
    ("a_pace", "b_pace", "significant"),
    [
        (1.0, 1.0, True),  # the machine was the same: it was the program
        (1.0, 1.6, False),  # the machine was slower: it explains a third more
        (1.6, 1.0, True),  # it was faster, and the program slower all the same
        (1.0, 1.1, True),  # a little slower explains only a little
    ],
)
def test_a_slower_machine_is_no_slower_program(
    a_pace: float, b_pace: float, significant: bool
) -> None:
    before, after = paced(*[10.0] * 8, pace=a_pace), paced(*[13.0] * 8, pace=b_pace)
    got = compare(before, after)
    assert got.significant is significant
    assert compare(after, before).significant is significant
    assert ("slower during" in " ".join(got.notes)) is (a_pace != b_pace)


def test_where_memory_lies_is_no_change_of_a_small_row() -> None:
    def run(small_s: float, flops: float = 1.0) -> Report:
        small = {**row(small_s, samples=[small_s] * 8), "flop/fp32": flops}
        return report([{**small, "name": "gelu", "op": "gelu"}, row(100.0, samples=[100.0] * 8)])

    def named(a: Report, b: Report) -> list[str]:
        rows = compare(a, b).rows
        return rows.filter(rows["significant"])["name"].to_list()

    assert named(run(1.0), run(1.8)) == []
    assert named(run(1.0), run(2.2)) == ["gelu"]
    assert named(run(1.0), run(1.8, flops=2.0)) == ["gelu"]


# What makes two runs hard to compare is said.


def notes(a: Report, b: Report) -> str:
    return " ".join(compare(a, b).notes)


def test_different_programs_are_said_to_be_different() -> None:
    other = row(8.0, name="conv", op="aten::conv", module="n.0", phase="backward")
    got = compare(report([row(10.0)]), report([other]))
    assert got.matched_share == 0.0
    assert "different programs" in " ".join(got.notes)
    mostly = compare(
        report([row(2.0), row(8.0, name="a", op="aten::a", phase="backward")]),
        report([row(2.0), {**other, "phase": "optimizer"}]),
    )
    assert mostly.matched_share == pytest.approx(0.2)
    assert "Only 20 %" in " ".join(mostly.notes)
    assert "two different programs" not in " ".join(mostly.notes)
    assert "two different programs: 0 kernels are in both, of 1 and 1" in " ".join(got.notes)
    assert compare(report([row(10.0)]), report([row(9.0)])).matched_share == 1.0
    assert "program" not in notes(report([row(10.0)]), report([row(9.0)]))


def test_ops_that_every_program_has_do_not_make_one_of_two() -> None:
    """An optimizer's ops match by name; other layers, shapes and numbers of calls tell."""

    def run(module: str, shape: str, calls: float, time_s: float) -> Report:
        ops = ("aten::add_", "aten::mul_", "aten::mm")
        place = {"module": module, "shape": shape, "calls": calls, "launches": calls}
        return report([row(time_s, name=op, op=op) | place for op in ops])

    lstm, wide = run("cell", "[4, 4]", 128.0, 1.0), run("embed", "[9, 9]", 3.0, 40.0)
    got = compare(lstm, wide)
    assert got.matched_share == 1.0
    assert got.in_common is not None
    assert not got.in_common.is_same_program
    assert headline(got.document()) == (
        "3.00 s → 120 s: 40× slower, but they look like two different programs"
    )
    assert "0 kernels are in both, of 3 and 3" in got.notes[0]
    other_batch = compare(lstm, run("cell", "[8, 4]", 128.0, 2.0))
    no_layers = compare(run("", "[4, 4]", 128.0, 1.0), run("", "[8, 4]", 128.0, 2.0))
    for like in (other_batch, no_layers):
        assert like.in_common is not None
        assert like.in_common.is_same_program
        assert "programs" not in " ".join(like.notes)


def test_a_mended_loop_is_the_same_program() -> None:
    """What takes nearly all of the time is another op now; all else is as it was (the tutorial)."""
    others = [row(0.1, name=f"k{k}", op=f"aten::k{k}", module=f"head.{k}") for k in range(6)]
    cell = [row(5.0, name=f"c{k}", op=f"aten::c{k}", module="cell") for k in range(8)]
    loop, fused = (
        report([*others, *cell]),
        report([*others, row(3.0, name="lstm", op="aten::lstm")]),
    )
    for got in (compare(loop, fused), compare(fused, loop)):
        assert got.in_common is not None
        assert got.in_common.is_same_program
        assert "programs" not in headline(got.document())


def nothing() -> Report:
    empty = pl.DataFrame(schema={"name": pl.String, "time_s": pl.Float64})
    return analyze(Profile.of(empty, Source(tool="t")), make_machine())


def test_an_empty_side_is_said() -> None:
    seen = report([row(1.0)])
    assert "Nothing was timed in the first run" in notes(nothing(), seen)
    assert "Nothing was timed in the second run" in notes(seen, nothing())
    for pair in ((nothing(), nothing()), (nothing(), seen), (seen, nothing())):
        got = compare(*pair)
        assert got.delta_s is None
        assert not got.significant
        assert not got.rows.height
        assert got.rows.schema == compare(seen, seen).rows.schema


def test_a_step_without_kernels_is_compared_with_its_seconds() -> None:
    waiting = replace(nothing().profile, wall_s=2.0, kernel_s=0.0)
    got = compare(analyze(waiting, make_machine()), report([row(1.0)]))
    assert got.delta_s == -1.0
    assert "first run has no kernels" in " ".join(got.notes)
    sums_up(got)


def test_machines_windows_versions_and_threads_are_said() -> None:
    base = report([row(10.0)])
    assert "Two machines: the first run was on toy" in notes(base, report([row(9.0)], faster()))
    assert "measured anew" in notes(
        base, report([row(9.0)], make_machine(ceilings=faster(launch=2.0).ceilings))
    )
    two, five = (report([row(10.0)], steps=Steps(count=n)) for n in (2, 5))
    assert "2 steps" in notes(two, five)
    live = report([row(10.0)], steps=Steps(count=5, unprofiled_s=10.0))
    assert "average step" in notes(live, two)
    assert "2 times as often" in notes(base, report([row(20.0, calls=2.0)]))
    assert "threads: 1, then 2" in notes(
        report([row(1.0)], threads=1), report([row(1.0)], threads=2)
    )
    first, second = (
        analyze(Profile.of([row(1.0)], Source(tool="timeroof run", version=v)), make_machine())
        for v in ("2.8", "2.9")
    )
    assert "2.8 and 2.9" in notes(first, second)
    assert compare(base, base).notes == (compare(base, base).notes[-1],)


def test_one_machine_that_is_not_known_is_said() -> None:
    nowhere = analyze(report([row(9.0)]).profile, None)
    assert "second run is not known" in notes(report([row(10.0)]), nowhere)
    assert "No machine is known" in notes(nowhere, nowhere)


def test_kernels_of_two_gpus_meet_by_op_and_shape() -> None:
    a = row(10.0, name="ampere_sgemm_128x64_nn", op="aten::mm", module=None)
    b = row(5.0, name="sm90_xmma_gemm_f32f32_tn_n", op="aten::mm", module=None)
    got = compare(report([a]), report([b], faster(flop_fp32=2.0)))
    assert got.rows["matched_by"].item() == "op module shape dtype phase labels"
    assert got.causes["machine"] == pytest.approx(-5.0)


def test_eager_against_compiled_meets_module_by_module() -> None:
    eager = [row(2.0, 50.0, 20.0, name=f"k{i}", op=f"aten::op{i}") for i in range(4)]
    fused = row(3.0, 200.0, 1.0, name="triton_fused", op=None, shape=None)
    got = compare(report(eager), report([fused]))
    sums_up(got)
    assert got.rows["matched_by"].to_list() == ["module phase"]
    assert got.rows["name"].item() == "(kernels of m.0, forward)"


def split(own_s: float, below_s: float) -> list[dict[str, Any]]:
    """An op and its primitive, whose seconds are split one way or another."""
    op = row(own_s, 0.0, kind="op", id=0)
    below = {
        "name": "onednn::matmul jit",
        "kind": "primitive",
        "op": "aten::mm",
        "parent": 0,
        "id": 1,
    }
    return [op, {**row(below_s, launches=0.0), **below}]


def test_an_op_is_compared_with_what_runs_below_it() -> None:
    before, after = report(split(4.0, 6.0)), report(split(0.0, 10.0))
    got = compare(before, after)
    assert got.rows.height == 1
    assert got.rows["name"].item() == "aten::mm" or got.rows["name"].item() == "mm"
    assert got.rows["delta_s"].item() == pytest.approx(0.0)
    assert not got.rows["significant"].any()
    slower = compare(before, report(split(4.0, 9.0)))
    assert slower.rows["significant"].all()


def stepped(samples: list[float]) -> Report:
    middle_s = sorted(samples)[len(samples) // 2]
    steps = Steps(count=len(samples), unprofiled_s=middle_s, samples=samples)
    return report([row(middle_s)], wall_s=middle_s, steps=steps)


@pytest.mark.parametrize(
    ("a", "b", "significant"),
    [
        # No sample reaches the other run's, and it is far.
        ([1.0, 3.0, 2.0], [5.0, 12.0, 9.0], True),
        # Far in the middle, but the fastest is the same.
        ([1.0, 3.0, 2.0], [1.0, 12.0, 9.0], False),
        # Samples overlap, but there are many, and even the fastest is far.
        (
            [1.9, 15.0, 2.0, 10.0, 7.0, 3.0, 6.0, 8.0],
            [9.4, 30.0, 28.0, 50.0, 40.0, 25.0, 33, 35],
            True,
        ),
        # Few, and overlapping.
        ([2.0, 10.0, 3.0, 6.0], [9.0, 30.0, 12.0, 28.0], False),
        # Close together, clean.
        ([1.0, 1.01, 1.02], [1.03, 1.02, 1.04], False),
    ],
)
def test_runs_far_apart_differ_whatever_their_spread(
    a: list[float], b: list[float], significant: bool
) -> None:
    assert compare(stepped(a), stepped(b)).significant is significant
    assert compare(stepped(b), stepped(a)).significant is significant


def test_one_thread_is_moved_to_one_core_of_the_other_machine() -> None:
    """A core of the other machine is as fast as one here: all of its cores are no cause."""

    def machine(cores: int) -> Machine:
        made = make_machine()
        core = [msgspec.structs.replace(c, scope="core") for c in made.ceilings]
        every = [msgspec.structs.replace(c, rate=c.rate * cores) for c in made.ceilings]
        return msgspec.structs.replace(made, name=f"{cores} cores", ceilings=[*core, *every])

    a, b = (report([row(10.0)], machine(cores), threads=1) for cores in (2, 64))
    assert compare(a, b).causes["machine"] == 0.0


def test_rows_of_one_name_are_told_apart_by_module() -> None:
    from timeroof.views.compare import markdown_comparison

    before = report([row(10.0), row(8.0, module="m.1")])
    after = report([row(20.0), row(16.0, module="m.1")])
    document = compare(before, after).document()
    assert {made["where"] for made in document["rows"]} == {"m.0", "m.1"}
    assert "m.0" in markdown_comparison(document).replace("\\", "")
