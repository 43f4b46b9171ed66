"""What-if: exact on the same machine, ratios of rates elsewhere, an interval that holds the guess."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.conftest import make_machine
from timeroof.api.reports import analyze, scope_for
from timeroof.core.errors import UsageError
from timeroof.core.machine import Ceiling, Machine
from timeroof.core.profile import Profile, Source
from timeroof.model.whatif.project import Projection, project, what_if
from timeroof.views.whatif import kernels_told

COMPUTE = {"name": "mm", "time_s": 10.0, "flop/fp32": 800.0, "byte/dram": 1.0, "launches": 1.0}
MEMORY = {"name": "add", "time_s": 10.0, "flop/fp32": 1.0, "byte/dram": 80.0, "launches": 1.0}
LAUNCH = {"name": "tiny", "time_s": 8.0, "flop/fp32": 1.0, "byte/dram": 1.0, "launches": 100.0}


def faster(**factors: float) -> Machine:
    """The toy machine with some rates multiplied, keyed `flop_fp32`, `byte_dram`, `launch`."""
    ceilings = [
        Ceiling(
            resource=c.resource,
            rate=c.rate * factors.get(c.resource.replace("/", "_"), 1.0),
            origin=c.origin,
        )
        for c in make_machine().ceilings
    ]
    return make_machine(name="other", ceilings=ceilings)


def run(
    rows: list[dict[str, Any]], there: Machine, precision: str | None = None, **more: Any
) -> Projection:
    return project(Profile.of(rows, Source(tool="t")), make_machine(), there, precision, **more)


amounts = st.floats(0.0, 1e3)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.floats(1e-9, 1e3), amounts, amounts, st.integers(0, 500)),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(["asynchronous", "synchronous"]),
)
def test_the_same_machine_gives_what_was_measured(
    rows: list[tuple[float, float, float, int]], launching: str
) -> None:
    table = [
        {"name": f"k{i}", "time_s": t, "flop/fp32": f, "byte/dram": b, "launches": float(n)}
        for i, (t, f, b, n) in enumerate(rows)
    ]
    profile = Profile.of(table, Source(tool="t"))
    machine = make_machine(launching=launching)
    got = project(profile, machine, machine).table
    for column in ("predicted_s", "low_s", "high_s"):
        measured = profile.kernels["time_s"].to_list()
        assert got[column].to_list() == pytest.approx(measured, rel=1e-12)


def test_rows_follow_the_rate_of_what_limits_them() -> None:
    twice = faster(flop_fp32=2.0)
    assert run([COMPUTE], twice).predicted_s == pytest.approx(5.0)
    assert run([MEMORY], twice).predicted_s == pytest.approx(10.0)
    assert run([MEMORY], faster(byte_dram=4.0)).predicted_s == pytest.approx(2.5)
    assert run([LAUNCH], faster(launch=2.0)).predicted_s == pytest.approx(4.0)
    assert run([LAUNCH], faster(flop_fp32=2.0, byte_dram=2.0)).predicted_s == pytest.approx(8.0)


def test_efficiency_is_carried_over_a_change_of_limiter() -> None:
    row = {**COMPUTE, "byte/dram": 40.0}
    got = run([row], faster(flop_fp32=4.0))
    assert got.table["limiter_now"].item() == "flop/fp32"
    assert got.table["limiter"].item() == "byte/dram"
    assert got.predicted_s == pytest.approx(10.0 * 4.0 / 8.0)
    assert got.table["low_s"].item() == pytest.approx(4.0)
    assert got.table["high_s"].item() == pytest.approx(10.0 * 1.25)


def test_work_never_becomes_shorter_than_launching() -> None:
    row = {**COMPUTE, "launches": 50.0}
    assert run([row], faster(flop_fp32=100.0)).predicted_s == pytest.approx(5.0)


def test_launching_is_taken_out_and_added_where_it_adds() -> None:
    here = make_machine(launching="synchronous")
    rows = [{**COMPUTE, "launches": 20.0}]
    there = make_machine(name="b", launching="synchronous", ceilings=faster(flop_fp32=2.0).ceilings)
    got = project(Profile.of(rows, Source(tool="t")), here, there)
    assert got.predicted_s == pytest.approx((10.0 - 2.0) / 2 + 2.0)


def test_idle_beside_the_rows_stays_and_overlap_is_kept() -> None:
    twice = faster(flop_fp32=2.0)
    assert run([COMPUTE], twice, measured_s=15.0).predicted_s == pytest.approx(5.0 + 5.0)
    assert run([COMPUTE, COMPUTE], twice, measured_s=10.0).predicted_s == pytest.approx(5.0)


def test_rows_without_a_bound_scale_like_the_rest() -> None:
    unknown = {
        "name": "custom",
        "time_s": 6.0,
        "flop/fp32": None,
        "byte/dram": None,
        "launches": 0.0,
    }
    got = run([COMPUTE, unknown], faster(flop_fp32=2.0))
    assert got.predicted_s == pytest.approx(5.0 + 3.0)


def test_another_precision_moves_contractions_and_halves_bytes() -> None:
    row = {**COMPUTE, "dtype": "fp32", "contraction_flops": 600.0}
    got = run([row], make_machine(), "fp16")
    assert got.bound_s == pytest.approx(max(600.0 / 200, 200.0 / 100))
    assert got.predicted_s == pytest.approx(10.0 * 3.0 / 8.0)
    memory = {**MEMORY, "dtype": "fp32"}
    assert run([memory], make_machine(), "fp16").bound_s == pytest.approx(4.0)


@settings(max_examples=40)
@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.1, 10))
def test_the_interval_holds_the_prediction(flops: float, dram: float, launch: float) -> None:
    there = faster(flop_fp32=flops, byte_dram=dram, launch=launch)
    table = run([COMPUTE, MEMORY, LAUNCH], there).table
    assert (table["low_s"] <= table["predicted_s"]).all()
    assert (table["predicted_s"] <= table["high_s"]).all()


def test_a_missing_unit_has_a_substitute_and_a_note() -> None:
    row = {**COMPUTE, "flop/fp32": 0.0, "flop/fp16-tensor": 1600.0}
    vector = [c for c in make_machine().ceilings if c.resource != "flop/fp16-tensor"]
    got = run([row], make_machine(name="plain", ceilings=vector))
    assert got.predicted_s == pytest.approx(20.0)
    assert "flop/fp32" in got.notes[0]


def test_the_document_has_every_field() -> None:
    report = analyze(Profile.of([COMPUTE, MEMORY], Source(tool="t")), make_machine())
    document = what_if(report, [faster(flop_fp32=2.0), make_machine()]).document()
    assert document["schema"] == "timeroof.whatif/1"
    first, second = document["machines"]
    assert {"name", "bound_s", "predicted_s", "low_s", "high_s", "by_limiter"} <= set(first)
    assert second["predicted_s"] == second["low_s"] == second["high_s"] == 20.0
    assert sum(first["by_limiter"].values()) == pytest.approx(first["predicted_s"])
    assert [m["name"] for m in document["rows"][0]["machines"]] == ["other", "toy"]


def test_a_run_of_an_unknown_machine_needs_one() -> None:
    report = analyze(Profile.of([COMPUTE], Source(tool="t")), None)
    with pytest.raises(UsageError, match="--from"):
        what_if(report, [make_machine()])
    assert what_if(report, [make_machine()], here=make_machine()).projections[0].predicted_s == 10.0


def test_what_the_roof_does_not_explain_may_stay() -> None:
    """A kernel at a tenth of its roof may not get faster at all; one near it must."""
    twice = faster(flop_fp32=2.0)
    poor = {**COMPUTE, "flop/fp32": 100.0, "byte/dram": 0.1}
    slow = run([poor], twice).table
    assert slow["high_s"].item() == pytest.approx(10.0 * (0.1 * 0.5 + 0.9))
    near = run([{**COMPUTE, "flop/fp32": 950.0}], twice).table
    assert near["high_s"].item() == pytest.approx(10.0 * 0.5 * 1.25)
    back = run([poor], faster(flop_fp32=0.5)).table
    assert back["low_s"].item() == pytest.approx(10.0 * (0.1 * 2.0 + 0.9))


def test_fp32_products_may_find_tf32_elsewhere() -> None:
    row = {**COMPUTE, "contraction_flops": 800.0}
    tf32 = Ceiling(resource="flop/tf32-tensor", rate=800.0, origin="datasheet")
    there = make_machine(name="b", ceilings=[*faster(flop_fp32=2.0).ceilings, tf32])
    got = run([row], there).table
    assert got["predicted_s"].item() == pytest.approx(5.0)
    assert got["low_s"].item() == pytest.approx(10.0 * 0.5 * 0.25 / 1.25)
    assert run([{**row, "contraction_flops": 0.0}], there).table["low_s"].item() == 4.0


def test_idle_before_rows_is_not_multiplied_by_a_change_of_efficiency() -> None:
    got = run([{**COMPUTE, "idle_before_s": 100.0}], faster(flop_fp32=2.0)).table
    assert got["predicted_s"].item() == pytest.approx(105.0)
    assert got["low_s"].item() >= 100.0
    assert got["busy_s"].item() == pytest.approx(5.0)


def test_a_run_of_mostly_unknown_work_warns() -> None:
    unknown = {"name": "x", "time_s": 9.0, "flop/fp32": None, "byte/dram": None, "launches": 0.0}
    assert "47% of the time has unknown work" in run([COMPUTE, unknown], faster()).notes[0]
    assert not run([COMPUTE], faster()).notes


def test_how_good_a_prediction_was() -> None:
    from benchmarks.whatif_two_gpus import accuracy

    mm = {**COMPUTE, "op": "aten::mm", "shape": "[4, 4]", "phase": "forward", "calls": 2.0}
    add = {**MEMORY, "op": "aten::add", "shape": "[9]", "phase": "forward"}
    here = Profile.of([mm, add], Source(tool="t"))
    twice = faster(flop_fp32=2.0)
    projection = project(here, make_machine(), twice)
    # Four calls of the product, each as predicted; the other row is far slower than predicted.
    there = Profile.of([{**mm, "calls": 4.0, "time_s": 10.0}, {**add, "time_s": 90.0}], here.source)
    got = accuracy(here, projection, there)
    assert got.matched == pytest.approx(1.0)
    assert got.inside == pytest.approx(0.1)
    assert got.gemm_inside == pytest.approx(1.0)
    other = Profile.of([{**mm, "shape": "[8, 8]"}], here.source)
    assert accuracy(here, projection, other).matched == 0.0
    same = accuracy(here, project(here, make_machine(), make_machine()), here)
    assert same.inside == same.gemm_inside == 1.0


EAGER = make_machine(name="cpu", launching="synchronous")
# 1 s a launch instead of 0.1 s, and work ten times as fast.
QUEUE = make_machine(
    name="gpu",
    ceilings=[
        Ceiling(
            resource=c.resource,
            rate=c.rate * (0.1 if c.resource == "launch" else 10),
            origin="user",
        )
        for c in EAGER.ceilings
    ],
)
OWN_TIME = {"name": "op", "time_s": 5.0, "flop/fp32": 0.0, "byte/dram": 0.0, "launches": 1.0}


def test_an_ops_own_time_is_only_launched_on_a_queue() -> None:
    got = project(Profile.of([OWN_TIME], Source(tool="t")), EAGER, QUEUE).table
    assert got["predicted_s"].item() == pytest.approx(1.0)
    assert got["low_s"].item() == pytest.approx(1.0)
    assert got["high_s"].item() == pytest.approx(5.0)


@settings(max_examples=60)
@given(
    st.floats(1e-3, 1e3),
    st.floats(0.0, 1e3),
    st.floats(0.0, 1e3),
    st.integers(0, 50),
    st.booleans(),
)
def test_faster_work_with_dearer_launches_is_never_slower_than_both(
    time_s: float, flops: float, moved: float, launches: int, back: bool
) -> None:
    """From an eager CPU to a queue: a row takes what it took, or its launches."""
    row = {
        "name": "k",
        "time_s": time_s,
        "flop/fp32": flops,
        "byte/dram": moved,
        "launches": float(launches),
    }
    here, there = (QUEUE, EAGER) if back else (EAGER, QUEUE)
    got = project(Profile.of([row], Source(tool="t")), here, there).table.row(0, named=True)
    assert got["low_s"] <= got["predicted_s"] * (1 + 1e-9)
    assert got["predicted_s"] <= got["high_s"] * (1 + 1e-9)
    if not back:
        assert got["predicted_s"] <= max(time_s, launches * 1.0) * (1 + 1e-9)


def test_one_thread_is_held_against_one_core_here_and_there() -> None:
    core = [Ceiling(resource="flop/fp32", rate=50.0, origin="measured", scope="core")]
    machine = make_machine(ceilings=[*make_machine().ceilings, *core])
    report = analyze(Profile.of([COMPUTE], Source(tool="t"), threads=1), machine)
    got = what_if(report, [], scope_of=lambda m: scope_for(report.profile.threads, m))
    assert got.projections[0].bound_s == pytest.approx(report.rows["bound_s"].sum())
    assert got.projections[0].predicted_s == pytest.approx(10.0)


def test_rows_above_their_roof_are_told() -> None:
    above = {**COMPUTE, "time_s": 4.0}
    assert any("above their roof" in note for note in run([above], faster(flop_fp32=2.0)).notes)
    assert not any("above" in note for note in run([COMPUTE], faster(flop_fp32=2.0)).notes)


def test_a_precision_that_nobody_has_is_refused() -> None:
    with pytest.raises(UsageError):
        run([COMPUTE], make_machine(), "fp13")


def test_kernels_of_one_name_are_one_line() -> None:
    rows = [COMPUTE, {**COMPUTE, "time_s": 20.0, "flop/fp32": 1600.0, "module": "m"}, LAUNCH]
    report = analyze(Profile.of(rows, Source(tool="t")), make_machine())
    document = what_if(report, [faster(flop_fp32=2.0)]).document()
    (first, second) = kernels_told(document["rows"])
    assert (first["name"], first["time_s"]) == ("mm (2 rows)", 30.0)
    alone = [row["machines"][0]["predicted_s"] for row in document["rows"]]
    assert first["machines"][0]["predicted_s"] == pytest.approx(sum(alone) - alone[2])
    assert (second["name"], second["limiter"]) == ("tiny", "launch")
