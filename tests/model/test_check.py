"""The gate: limits hold up to their boundary and the noise, and broken ones are named."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import msgspec
import pytest

from tests.conftest import make_machine
from tests.model.test_compare import noisy, report, row
from timeroof.api.reports import analyze
from timeroof.core.errors import UsageError
from timeroof.core.profile import Steps
from timeroof.core.report import Report
from timeroof.model.check.gate import Limit, Limits, check
from timeroof.model.check.limits import parse_percent, parse_rule
from timeroof.views.check import allowed, cells


def only(run: Report, base: Report | None, **limits: Any) -> Limit:
    result = check(run, base, Limits(**limits))
    assert len(result.limits) == 1
    assert result.passed is result.limits[0].passed
    return result.limits[0]


def rule(text: str, run: Report, base: Report | None = None) -> Limit:
    return only(run, base, rules=[parse_rule(text)])


def test_slow_down_has_a_plain_boundary_without_samples() -> None:
    base = report([row(100.0)])
    assert only(report([row(105.0)]), base, max_slowdown=0.05 + 1e-12).passed
    broken = only(report([row(105.1)]), base, max_slowdown=0.05)
    assert not broken.passed
    assert broken.value == pytest.approx(0.051)
    assert broken.noise is None
    assert check(report([row(1.0)]), base, Limits(max_slowdown=0.05)).notes


def test_noise_widens_the_limit_and_a_real_slow_down_still_fails() -> None:
    base, again = noisy(1, 0.05), noisy(2, 0.05)
    assert only(again, base, max_slowdown=0.05).passed
    rows = [{**r, "time_s": r["time_s"] * 1.4} for r in base.profile.kernels.to_dicts()]
    assert not only(report(rows), base, max_slowdown=0.05).passed


def test_two_runs_of_one_program_pass_twenty_times() -> None:
    for seed in range(20):
        limits = Limits(max_slowdown=0.05, rules=[parse_rule("phase=forward:time<105%")])
        assert check(noisy(100 + seed, 0.1), noisy(200 + seed, 0.1), limits).passed


def test_two_programs_are_no_run_and_its_baseline() -> None:
    """No percentage of thousands: times faster or slower, and what both have in common."""
    small = noisy(1, 0.3)
    rows = [row(5000.0, name=f"n{k}", op=f"other{k}", module=f"m{k}") for k in range(3)]
    spread = {"kind": "op", "time_spread": 0.9, "samples": [4000.0, 5000.0, 9000.0]}
    unlike = check(report([r | spread for r in rows]), small, Limits(max_slowdown=0.05))
    assert "two different programs: 0 kernels are in both, of 30 and 3" in unlike.notes[0]
    _, _, found, noise = cells(asdict(unlike.limits[0]))
    assert found.endswith("× slower")
    assert noise == "over 100 %"
    assert not check(small, small, Limits(max_slowdown=0.05)).notes[0].startswith("They look")


def test_efficiency_and_launches() -> None:
    run = report([row(10.0, 500.0, 7.0)])
    assert only(run, None, min_efficiency=0.5).passed
    assert not only(run, None, min_efficiency=0.51).passed
    assert only(run, None, max_launches=7).passed
    assert not only(run, None, max_launches=6).passed


def test_what_cannot_be_judged_is_refused_with_the_true_reason() -> None:
    run = analyze(report([row(1.0)]).profile, None)
    with pytest.raises(UsageError, match="machine is not known"):
        only(run, None, min_efficiency=0.1)
    unknown = {**row(1.0), "flop/fp32": None, "byte/dram": None, "launches": 0.0}
    with pytest.raises(UsageError, match="no row has known FLOPs"):
        only(report([unknown]), None, min_efficiency=0.1)
    with pytest.raises(UsageError, match="cannot be judged"):
        rule("phase=forward:efficiency>1%", report([unknown]))


def with_clean_steps(samples: list[float]) -> Report:
    middle_s = sorted(samples)[len(samples) // 2]
    profile = report([row(middle_s)]).profile
    steps = Steps(count=len(samples), unprofiled_s=middle_s, samples=samples)
    return analyze(replace(profile, steps=steps), make_machine())


def test_three_samples_have_a_sane_noise() -> None:
    base = with_clean_steps([1.0, 1.01, 1.02])
    limit = only(with_clean_steps([1.3, 1.31, 1.32]), base, max_slowdown=0.05)
    assert not limit.passed
    assert limit.noise is not None
    assert limit.noise < 0.1


def test_a_slower_machine_breaks_no_limit() -> None:
    def run(seconds: float, pace: float) -> Report:
        made = with_clean_steps([seconds] * 8)
        assert made.profile.steps is not None
        steps = msgspec.structs.replace(made.profile.steps, pace_samples=[pace] * 4)
        return analyze(replace(made.profile, steps=steps), made.machine)

    slow_machine = check(run(1.3, 1.6), run(1.0, 1.0), Limits(max_slowdown=0.05))
    assert slow_machine.passed
    assert "inconclusive" in slow_machine.limits[0].note
    assert "slower during the run" in slow_machine.notes[-1]
    assert not check(run(1.3, 1.0), run(1.0, 1.0), Limits(max_slowdown=0.05)).passed


def test_noise_above_the_limit_is_said_aloud() -> None:
    base, run = with_clean_steps([1.0, 2.0, 1.5]), with_clean_steps([1.1, 2.1, 1.6])
    result = check(run, base, Limits(max_slowdown=0.05))
    assert result.passed
    assert "inconclusive" in result.limits[0].note
    assert any("Inconclusive" in note for note in result.notes)


def test_runs_far_apart_are_broken_whatever_their_spread() -> None:
    base, run = with_clean_steps([1.0, 2.0, 1.5]), with_clean_steps([5.0, 9.0, 7.0])
    assert not only(run, base, max_slowdown=0.05).passed


def test_what_is_equal_to_the_baseline_holds() -> None:
    nothing = report([{**row(0.0), "byte/dram": 0.0, "flop/fp32": 0.0}])
    for text in ("bytes<102%", "flops<=100%", "time<105%", "time<100%", "launches<=100%"):
        assert rule(text, nothing, nothing).passed, text
    assert only(nothing, nothing, max_slowdown=0.05).passed
    some = report([row(2.0)])
    assert rule("time<100%", some, some).passed
    assert not rule("launches<90%", some, some).passed


def test_a_rule_without_rows_is_about_the_run() -> None:
    run = with_clean_steps([2.0] * 5)
    assert rule("time<3s", run).value == run.totals.ladder.measured_s
    assert rule("share<=100%", run).value == 1.0
    assert rule("efficiency>0.0001", run).value == run.totals.efficiency


@pytest.mark.parametrize("text", ["time<0s", "bytes<0%", "launches<-1", "efficiency>400%"])
def test_limits_that_never_hold_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rule(text)


@pytest.mark.parametrize(
    ("text", "value", "passed"),
    [
        ("time<13.1s", 13.0, True),
        ("time<13s", 13.0, False),
        ("time<=13s", 13.0, True),
        ("phase=backward:time<3.5s", 3.0, True),
        ("op=aten::mm:time<9s", 10.0, False),
        ("op=aten::mm,phase=forward:kernel_efficiency>40%", 0.5, True),
        ("op=aten::mm:kernel_efficiency>0.6", 0.5, False),
        ("launches<=3", 3.0, True),
        ("phase=backward:share<20%", 3.0 / 13.0, False),
        ("bytes<1kB", 2.0, True),
        ("flops>=1k", 1000.0, True),
        ("phase=backward:gap<1s", 0.0, True),
    ],
)
def test_rules(text: str, value: float, passed: bool) -> None:
    later = row(3.0, 500.0, 2.0, name="b", op="aten::add", phase="backward", time_spread=None)
    later["time_s"], later["flop/fp32"] = 3.0, 500.0
    if "gap" in text:
        later["flop/fp32"] = 300.0
    limit = rule(text, report([row(10.0), later]))
    assert limit.value == pytest.approx(value)
    assert limit.passed is passed


@pytest.mark.parametrize(
    ("selection", "pairs"),
    [
        ("shape=[4, 4]", {"shape": "[4, 4]"}),
        ("shape=[4,4],phase=forward", {"shape": "[4,4]", "phase": "forward"}),
        ("phase=forward, shape=[4, 4], [8]", {"phase": "forward", "shape": "[4, 4], [8]"}),
        ("name=f<int, n=2>(a, b=1),op=x", {"name": "f<int, n=2>(a, b=1)", "op": "x"}),
        ("name=operator<,op=x", {"name": "operator<", "op": "x"}),
        ("name=a->b(c,op=x", {"name": "a->b(c", "op": "x"}),
        ("name=g([),op=x", {"name": "g([)", "op": "x"}),
        ("op=x,,phase=forward,", {"op": "x", "phase": "forward"}),
    ],
)
def test_commas_inside_a_value_join_no_pairs(selection: str, pairs: dict[str, str]) -> None:
    assert dict(parse_rule(f"{selection}:time<12ms").where) == pairs


def test_a_rule_finds_rows_by_their_shape() -> None:
    run = report([row(10.0), row(3.0, name="b", shape="[4, 4], [8]", module="m.1")])
    assert rule("shape=[4, 4]:time<12s", run).value == 10.0
    assert rule("shape=[4, 4], [8],module=m.1:time<12s", run).value == 3.0


def test_a_percentage_of_time_is_one_of_the_baseline() -> None:
    base = report([row(10.0)])
    assert rule("phase=forward:time<105%", report([row(10.4)]), base).passed
    limit = rule("phase=forward:time<105%", report([row(10.6)]), base)
    assert not limit.passed
    assert limit.limit == pytest.approx(10.5)
    with pytest.raises(UsageError, match="baseline"):
        rule("time<105%", report([row(1.0)]), None)


@pytest.mark.parametrize(
    "text", ["", "time", "colour<3", "time<soon", "phase:time<3s", "phase=x:time=3s", "time<<3"]
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no rule"):
        parse_rule(text)


def test_a_rule_about_no_column_is_refused() -> None:
    with pytest.raises(UsageError, match="colour"):
        rule("colour=red:time<3s", report([row(1.0)]))


@pytest.mark.parametrize("text", ["-5%", "five", "nan", "inf%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_percent(text)


def test_the_document_has_every_field() -> None:
    document = check(report([row(1.0)]), report([row(1.0)]), Limits(max_slowdown=0.05)).document()
    assert document["schema"] == "timeroof.check/1"
    assert document["passed"] is True
    assert {"what", "limit", "value", "passed"} <= set(document["limits"][0])


def test_a_rule_that_matches_no_row_is_a_mistake() -> None:
    rule = parse_rule("phase=nothing:time<1ms")
    with pytest.raises(UsageError, match="matches no row"):
        check(noisy(1, 0.1), None, Limits(rules=(rule,)))


def test_invocations_of_different_work_are_no_noise() -> None:
    """A kernel's rows from a file gather calls of any shape: their spread excuses nothing."""
    wide = {"kind": "kernel", "time_spread": 2.0, "samples": [0.1, 1.0, 6.0]}
    base, slow = (report([row(t, 1.0, name="k", **wide)]) for t in (10.0, 15.0))
    result = check(slow, base, Limits(max_slowdown=0.05))
    assert not result.passed


def test_a_plain_number_above_1_is_no_slow_down() -> None:
    assert parse_percent("1", plain_up_to=1.0) == 1.0
    assert parse_percent("500%", plain_up_to=1.0) == 5.0
    with pytest.raises(UsageError, match=r"500 %; write 5% or 0\.05"):
        parse_percent("5", plain_up_to=1.0)
    for empty in ("", " ", "%"):
        with pytest.raises(UsageError, match="no share"):
            parse_percent(empty, plain_up_to=1.0)


def test_shares_above_all_of_the_run_are_refused() -> None:
    with pytest.raises(UsageError, match="never be broken"):
        parse_rule("phase=backward:share<120%")
    with pytest.raises(UsageError, match=r"write 60% or 0\.6"):
        parse_rule("op=aten::mm:kernel_efficiency<60")
    assert parse_rule("share<=100%").value == 1.0
    assert parse_rule("kernel_efficiency<110%").value == pytest.approx(1.1)


def test_a_rule_about_nothing_on_both_sides_is_said_to_say_nothing() -> None:
    nothing, some = report([{**row(1.0), "byte/dram": 0.0}]), report([row(1.0)])
    told = check(nothing, nothing, Limits(rules=[parse_rule("bytes<105%")]))
    assert told.passed
    assert "'bytes<105%' says nothing here" in " ".join(told.notes)
    for run, base in ((some, some), (some, nothing), (nothing, some)):
        notes = check(run, base, Limits(rules=[parse_rule("bytes<105%")])).notes
        assert "says nothing" not in " ".join(notes)


def test_a_column_that_rows_do_not_have_names_those_they_have() -> None:
    with pytest.raises(UsageError, match="kind"):
        rule("foo=bar:time<3s", report([row(1.0)]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("launches<1.5", "1.5"),
        ("launches<1000", "1,000"),
        ("efficiency>12.345%", "12.345 %"),
        ("time<1.23456ms", "1.23456 ms"),
        ("time<2s", "2 s"),
        ("bytes<3.2512GB", "3.2512 GB"),
        ("flops<123456789", "123.456789 MFLOP"),
        ("time<999.9996us", "999.9996 µs"),
        ("launches<105%", "1.05"),
    ],
)
def test_a_limit_is_shown_as_it_is(text: str, words: str) -> None:
    run = report([row(1.0)])
    document = check(run, run, Limits(rules=[parse_rule(text)])).document()
    got = allowed(document["limits"][0])
    if text.startswith("time<999"):
        # Rounded it is a millisecond; either unit is fine, another value is not.
        assert got in (words, "0.9999996 ms")
    else:
        assert got == words
