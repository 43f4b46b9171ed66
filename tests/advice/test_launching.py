"""TR101 to TR110: launching and waiting. Each fires, stays silent, and has a boundary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.advice.cases import fine, found, only, own_gain_s, report_of
from tests.conftest import make_machine
from timeroof.advice import advise
from timeroof.api.reports import analyze, load
from timeroof.core.errors import UNTRUSTED, Note
from timeroof.core.machine import Ceiling, Machine
from timeroof.core.profile import Steps, Wait
from timeroof.core.report import Report

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "live"


def tiny(launches: float = 100, time_s: float = 8.0, **more: Any) -> dict[str, Any]:
    row = {"name": "tiny", "op": "aten::mul", "flop/fp32": 1.0, "byte/dram": 2.0}
    return {**row, "time_s": time_s, "launches": launches, "calls": launches, **more}


def test_tiny_kernels_gain_their_time_less_the_work() -> None:
    finding = only("TR101", report_of([tiny(), fine(10.0)]))
    assert finding.gain_s == pytest.approx(8.0 - 0.2)
    assert finding.kernels == [1]
    assert finding.evidence["launches"] == 100
    assert finding.evidence["launch_bound_s"] == pytest.approx(10.0)
    assert finding.action is not None
    assert "torch.compile" in finding.action


def test_the_idle_before_tiny_kernels_is_theirs() -> None:
    rows = [tiny(idle_before_s=30.0), fine(10.0)]
    assert only("TR101", report_of(rows)).gain_s == pytest.approx(30.0 + 7.8)


def test_idle_of_the_host_goes_by_launches_where_rows_do_not_know_it() -> None:
    rows = [tiny(launches=99), fine(10.0)]
    report = report_of(rows, wall_s=28.0, idle_by_cause={"launch-starved": 10.0})
    finding = only("TR101", report)
    assert finding.gain_s == pytest.approx(7.8 + 9.9)
    assert only("TR104", report).evidence["cumulative_gain_s"] == pytest.approx(7.8 + 10.0)


def test_work_that_outlasts_launching_is_not_tiny() -> None:
    assert not found("TR101", report_of([tiny(**{"byte/dram": 101.0}), fine(10.0)]))
    assert found("TR101", report_of([tiny(time_s=14.0, **{"byte/dram": 99.0}), fine(10.0)]))


def test_long_kernels_with_little_work_are_slow_and_not_tiny() -> None:
    at_limit, beyond = tiny(time_s=40.0), tiny(time_s=40.1)
    assert found("TR101", report_of([at_limit]))
    assert not found("TR101", report_of([beyond]))


def test_on_a_cpu_the_cost_of_an_op_from_python_counts() -> None:
    synchronous = make_machine(launching="synchronous")
    assert found("TR101", report_of([tiny(time_s=500.0)], synchronous))
    assert not found("TR101", report_of([tiny(time_s=501.0)], synchronous))
    assert found("TR101", report_of([tiny(**{"byte/dram": 40.0})], synchronous))
    assert not found("TR101", report_of([tiny(**{"byte/dram": 40.1})], synchronous))
    costly = Ceiling(
        resource="launch", rate=10.0, origin="measured", variants={"torch add, python loop": 5.0}
    )
    others = [c for c in make_machine().ceilings if c.resource != "launch"]
    slower = make_machine(launching="synchronous", ceilings=[*others, costly])
    assert found("TR101", report_of([tiny(time_s=501.0)], slower))


def test_views_are_all_overhead() -> None:
    view = {"name": "aten::view", "kind": "op", "op": "aten::view", "time_s": 8.0, "calls": 100.0}
    row = {**view, "launches": 0.0, "flop/fp32": 0.0, "byte/dram": 0.0}
    synchronous = make_machine(launching="synchronous")
    findings = advise(report_of([row, fine(20.0)], synchronous))
    assert [f.code for f in findings if f.gain_s] == ["TR101"]


def test_tiny_kernels_below_a_tenth_are_silent() -> None:
    assert found("TR101", report_of([tiny(time_s=11.4), fine(100.0)]))
    assert not found("TR101", report_of([tiny(time_s=11.2), fine(100.0)]))


def test_tiny_kernels_below_their_spread_are_silent() -> None:
    assert found("TR101", report_of([tiny(time_spread=0.9)]))
    assert not found("TR101", report_of([tiny(time_spread=1.1)]))
    many = [8.0] * 25
    assert found("TR101", report_of([tiny(time_spread=1.1, samples=many)]))
    assert not found("TR101", report_of([tiny(time_spread=6.0, samples=many)]))


def test_nothing_without_a_machine() -> None:
    from timeroof.api.reports import analyze
    from timeroof.core.profile import Profile, Source

    report = analyze(Profile.of([tiny(), fine(1.0)], Source(tool="t")), None)
    assert advise(report) == []


def thin(shape: str = "[[1, 8], [8, 8]]", **more: Any) -> dict[str, Any]:
    row = {"name": "mm", "op": "aten::mm", "shape": shape, "time_s": 10.0}
    return {**row, "flop/fp32": 100.0, "byte/dram": 90.0, "contraction_flops": 100.0, **more}


def test_a_small_batch_gains_all_but_the_arithmetic() -> None:
    finding = only("TR102", report_of([thin()]))
    assert finding.gain_s == pytest.approx(9.0)
    assert finding.evidence["smallest_side"] == 1


@pytest.mark.parametrize(("side", "fires"), [(8, True), (9, False)])
def test_the_boundary_of_a_small_batch(side: int, fires: bool) -> None:
    assert bool(found("TR102", report_of([thin(f"[[{side}, 64], [64, 64]]")]))) is fires


@pytest.mark.parametrize(("side", "fires"), [(1, True), (8, True), (9, False)])
def test_a_library_names_its_products_by_three_sides(side: int, fires: bool) -> None:
    row = thin(f"2048x{side}x2048", name="mkl::sgemm TN", kind="primitive")
    assert bool(found("TR102", report_of([row]))) is fires


def test_a_thin_last_layer_is_no_small_batch() -> None:
    assert found("TR102", report_of([thin(), fine(89.0)]))
    assert not found("TR102", report_of([thin(), fine(91.0)]))


def test_small_batch_needs_shapes_and_idle_arithmetic() -> None:
    assert not found("TR102", report_of([thin(shape="")]))
    assert found("TR102", report_of([thin(**{"flop/fp32": 490.0})]))
    assert not found("TR102", report_of([thin(**{"flop/fp32": 510.0})]))
    assert not found("TR102", report_of([{k: v for k, v in thin().items() if k != "shape"}]))


def adam(launches: float = 100, **more: Any) -> dict[str, Any]:
    row = {"name": "adam", "op": "aten::addcdiv_", "phase": "optimizer", "time_s": 17.0}
    return {**row, "launches": launches, "flop/fp32": 1.0, "byte/dram": 60.0, **more}


def test_an_optimizer_of_many_launches() -> None:
    finding = only("TR103", report_of([adam(), fine(50.0)]))
    assert finding.gain_s == pytest.approx(17.0 - 6.0)
    assert finding.evidence["launches"] == 100
    assert not found("TR101", report_of([adam(), fine(50.0)]))


def test_an_optimizer_of_few_launches_or_little_launching_is_silent() -> None:
    assert found("TR103", report_of([adam(50, time_s=20.0)]))
    assert not found("TR103", report_of([adam(49, time_s=20.0)]))
    assert not found("TR103", report_of([adam(50, time_s=26.0)]))


CAUSES = [
    ("TR104", "launch-starved", 0.05),
    ("TR105", "data", 0.1),
    ("TR106", "host-sync", 0.01),
    ("TR107", "communication", 0.01),
    ("TR108", "asleep", 0.01),
    ("TR109", "compile", 0.01),
]


@pytest.mark.parametrize(("code", "cause", "least"), CAUSES)
def test_idle_by_cause(code: str, cause: str, least: float) -> None:
    def idle(seconds: float) -> bool:
        report = report_of([fine(100 - seconds)], wall_s=100.0, idle_by_cause={cause: seconds})
        return bool(found(code, report))

    assert idle(100 * least * 1.01)
    assert not idle(100 * least * 0.99)
    report = report_of([fine(70.0)], wall_s=100.0, idle_by_cause={cause: 20.0, "device": 10.0})
    assert only(code, report).gain_s == pytest.approx(20.0)
    others = {c for c, _, _ in CAUSES} - {code}
    assert not any(found(other, report) for other in others)


def test_idle_before_rows_is_shared_by_cause() -> None:
    rows = [fine(50.0, idle_before_s=30.0), fine(1.0, name="b", idle_before_s=10.0)]
    report = report_of(rows, wall_s=91.0, idle_by_cause={"host-sync": 10.0, "data": 30.0})
    assert only("TR106", report).gain_s == pytest.approx(10.0)
    data = only("TR105", report)
    assert data.gain_s == pytest.approx(30.0)
    assert set(data.kernels) == {0, 1}


def test_making_data_inside_the_step_counts_too() -> None:
    rows = [fine(89.0), fine(11.0, name="decode", phase="data")]
    assert only("TR105", report_of(rows)).gain_s == pytest.approx(11.0)
    assert not found("TR105", report_of([fine(91.0), fine(9.0, name="decode", phase="data")]))


def test_communication_is_exposed_where_nothing_computes_beside() -> None:
    def rows(exposed_s: float | None) -> list[dict[str, Any]]:
        collective = {"kind": "collective", "name": "all_reduce", "time_s": 4.0, "byte/dram": 1.0}
        return [fine(8.0), {**collective, "exclusive_s": exposed_s}]

    finding = only("TR107", report_of(rows(2.0)))
    assert finding.gain_s == pytest.approx(2.0)
    assert finding.evidence["exposed_share"] == pytest.approx(0.5)
    assert not found("TR107", report_of(rows(0.0)))
    assert not found("TR107", report_of(rows(None)))


def test_collectives_of_many_sizes_in_one_row_do_not_silence_what_is_exposed() -> None:
    sizes = {"time_spread": 3.0, "samples": [0.1, 3.9], "exclusive_s": 1.0, "calls": 2}
    rows = [fine(8.0), {"kind": "collective", "name": "nccl", "time_s": 4.0, **sizes}]
    assert only("TR107", report_of(rows)).gain_s == pytest.approx(1.0)


COLLECTIVE = {"kind": "collective", "name": "all_reduce", "time_s": 20.0, "byte/dram": 1.0}
LINK_IDLE = {"wall_s": 100.0, "idle_by_cause": {"communication": 20.0}}


@pytest.mark.parametrize(
    ("rows", "whole", "why"),
    [
        ([fine(80.0)], LINK_IDLE, "The GPU waits 20.0 s for communication."),
        (
            [fine(80.0, kind="op")],
            LINK_IDLE,
            "The program waits 20.0 s for communication.",
        ),
        (
            [fine(60.0), COLLECTIVE],
            LINK_IDLE,
            "Collectives take 20.0 s. The GPU waits another 20.0 s for communication.",
        ),
        (
            [fine(80.0), {**COLLECTIVE, "exclusive_s": 10.0}],
            {},
            "Collectives take 20.0 s; 50 % of that is exposed."
            " Longest exposed: all_reduce (10.0 s).",
        ),
    ],
)
def test_communication_is_told_by_the_parts_that_there_are(
    rows: list[dict[str, Any]], whole: dict[str, Any], why: str
) -> None:
    assert only("TR107", report_of(rows, **whole)).why == why


@pytest.mark.parametrize(
    ("rows", "idle", "why"),
    [
        (
            [fine(80.0)],
            {"data": 20.0},
            "The step spends 20.0 s waiting for input, 20 % of its time.",
        ),
        (
            [fine(80.0), fine(20.0, name="decode", phase="data")],
            {},
            "The step spends 20.0 s preparing input, 20 % of its time.",
        ),
        (
            [fine(70.0), fine(20.0, name="decode", phase="data")],
            {"data": 10.0},
            "The step spends 10.0 s waiting for input and 20.0 s preparing input,"
            " 30 % of its time.",
        ),
    ],
)
def test_data_is_told_by_the_parts_that_there_are(
    rows: list[dict[str, Any]], idle: dict[str, float], why: str
) -> None:
    assert only("TR105", report_of(rows, wall_s=100.0, idle_by_cause=idle)).why == why


@pytest.mark.parametrize("machine", [make_machine(), make_machine(kind="cpu")])
def test_a_cpu_has_no_device_that_waits(machine: Machine) -> None:
    """Whatever machine it is compared with: ops are a CPU's."""
    idle = {"python": 20.0}
    rows = [fine(80.0, kind="op")]
    told = only("TR104", report_of(rows, machine, wall_s=100.0, idle_by_cause=idle))
    assert told.title == "Python and framework overhead takes 20.0 s of 100 s"
    assert told.why == "Python and the framework take 20.0 s (20 %) between ops."
    assert "CUDA" not in (told.action or "")
    assert not any(
        "device" in finding.title + finding.why
        for finding in advise(report_of(rows, machine, wall_s=100.0, idle_by_cause=idle))
    )


def test_a_device_waits_for_its_host() -> None:
    report = report_of([fine(80.0)], wall_s=100.0, idle_by_cause={"launch-starved": 20.0})
    assert only("TR104", report).title == "The GPU waits for the host: 20.0 s of 100 s"


def test_work_of_the_program_itself_is_no_launching() -> None:
    """Of 600 s of NumPy between 100 ops, fifty costs of an op (0.1 s) are claimed for each."""
    rows = [tiny(launches=99), fine(10.0)]
    report = report_of(rows, wall_s=618.0, idle_by_cause={"python": 600.0})
    assert own_gain_s(only("TR101", report)) == pytest.approx(7.8 + 99 * 50 * 0.1)
    # Below a tenth of the run it is not worth a line.
    assert not found("TR101", report_of(rows, wall_s=10_018.0, idle_by_cause={"python": 1e4}))


@pytest.mark.parametrize(("name", "told"), [("lstm_loop", True), ("conv_padding", False)])
def test_launches_count_where_times_are_not_to_be_trusted(name: str, told: bool) -> None:
    """A program that waited for a CPU: nothing but its launches against all of its work."""
    recorded = load(GOLDEN / f"{name}.troof")
    waited = Note("waited", code=UNTRUSTED)
    profile = replace(recorded.profile, notes=(*recorded.profile.notes, waited))
    findings = {f.code: f for f in analyze(profile, recorded.machine).findings}
    assert ("TR101" in findings) is told
    if told:
        finding = findings["TR101"]
        assert "tiny ops are launched for" in finding.title
        assert "nn.LSTM" in (finding.action or "")
        assert finding.evidence["launch_bound_s"] >= 2 * finding.evidence["work_bound_s"]


def test_a_long_wait_before_a_tiny_kernel_is_not_its_launching() -> None:
    """Fifty launch costs for each at most: 100 launches of 0.1 s, and 17 minutes of waiting."""
    rows = [tiny(idle_before_s=1000.0), fine(10.0)]
    assert only("TR101", report_of(rows)).gain_s == pytest.approx(50 * 100 * 0.1 + 7.8)


def test_waits_of_a_first_call_are_named() -> None:
    """cuDNN is loaded and tuned before its first kernel: more warm-up, not CUDA graphs."""
    first = tiny(launches=1, time_s=1.0, idle_before_s=80.0)
    said = {"wall_s": 111.0, "kernel_s": 11.0}
    finding = only(
        "TR104",
        report_of(
            [first, fine(10.0, idle_before_s=20.0, calls=1000.0)],
            idle_by_cause={"launch-starved": 100.0},
            **said,
        ),
    )
    assert (finding.action or "").startswith("Record after a few warm-up steps.")
    assert "80.0 s of it are waits" in finding.why
    often = tiny(launches=100, time_s=1.0, idle_before_s=80.0)
    finding = only(
        "TR104",
        report_of(
            [often, fine(10.0, idle_before_s=20.0, calls=1000.0)],
            idle_by_cause={"launch-starved": 100.0},
            **said,
        ),
    )
    assert "warm-up" not in (finding.action or "")


def one_by_one(idle_s: float, ops: float = 8.0, whole: float = 0.0) -> Report:
    """A step of so many ops that run by themselves, and of one compiled function's kernels."""
    rows = [fine(100.0 - idle_s, op="jax::tanh", launches=ops, **{"label.mode": "eager"})]
    compiled = fine(1e-9, op="jax::add", name="fused", launches=whole)
    rows += [compiled | {"label.mode": None}] if whole else []
    return report_of(rows, wall_s=100.0, idle_by_cause={"dispatch": idle_s})


def test_ops_that_run_one_by_one_are_told_to_be_compiled() -> None:
    report = one_by_one(40.0, ops=30.0, whole=10.0)
    finding = only("TR110", report)
    assert finding.gain_s == pytest.approx(40.0 * 30 / 40)
    assert finding.title.startswith("30 ops run one by one")
    assert finding.action is not None
    assert "jax.jit" in finding.action
    assert not found("TR104", report)


def test_a_compiled_step_with_few_ops_beside_it_is_not_told_to_be_compiled() -> None:
    report = one_by_one(40.0, ops=10.0, whole=10.0)
    assert not found("TR110", report)
    assert found("TR104", report)


def waiting(calls: float, busy_s: float, framework: str = "jax") -> Report:
    """A step on a CPU of 80 s of kernels and 20 s of the host, which waits for a result."""
    line = Wait(line="train.py:9", calls=calls, idle_s=0.0, busy_s=busy_s)
    return report_of(
        [fine(80.0, op=f"{framework}::tanh", device="cpu")],
        wall_s=100.0, idle_by_cause={"python": 20.0}, steps=Steps(count=9, waits=[line]),
    )  # fmt: skip


def test_a_line_that_waits_for_every_step_is_named_with_what_kernels_could_hide() -> None:
    finding = only("TR106", waiting(1.0, 70.0))
    assert own_gain_s(finding) == pytest.approx(20.0)
    assert "train.py:9" in finding.title
    assert "train.py:9" in finding.why


@pytest.mark.parametrize(
    ("calls", "busy_s", "framework"), [(0.1, 70.0, "jax"), (1.0, 0.0, "jax"), (1.0, 70.0, "tf")]
)
def test_lines_that_wait_rarely_or_for_nothing_that_runs_are_left_alone(
    calls: float, busy_s: float, framework: str
) -> None:
    """A result of ten steps, one that was there, and a call that ends when its kernels do."""
    assert not found("TR106", waiting(calls, busy_s, framework))
