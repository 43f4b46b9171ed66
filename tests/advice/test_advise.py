"""Order, honest totals, documentation, and that nothing breaks where little is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.advice.cases import ceiling, fine, machine_with, own_gain_s, report_of
from tests.advice.test_arithmetic import product
from tests.advice.test_launching import adam, tiny
from timeroof.advice import RULES, advise, rule_of
from timeroof.advice.advise import GROUPS
from timeroof.core.errors import UsageError
from timeroof.core.profile import Steps
from write_docs import findings_page

DOCS = Path(__file__).parents[2] / "docs"


def test_findings_come_by_gain_and_information_last() -> None:
    findings = advise(report_of([tiny(), product(), adam(), fine(9.0)]))
    gains = [f.gain_s for f in findings]
    known = [g for g in gains if g is not None]
    assert known == sorted(known, reverse=True)
    assert gains[: len(known)] == known


def test_a_second_claimed_twice_counts_once() -> None:
    machine = machine_with(ceiling("flop/tf32-tensor", 400.0))
    findings = {f.code: f for f in advise(report_of([product(dtype="fp32")], machine))}
    first, second = findings["TR301"], findings["TR303"]
    assert first.gain_s == pytest.approx(8.0)
    # Both speed up the same product: the second adds nothing to the first.
    assert second.gain_s == 0.0
    assert own_gain_s(second) == pytest.approx(5.0)
    assert second.evidence["cumulative_gain_s"] == pytest.approx(8.0)


def test_a_run_of_no_time_has_no_findings() -> None:
    assert advise(report_of([{"name": "ncclAllReduce", "time_s": 1e-9}], wall_s=0.0)) == []


def test_what_is_explained_is_not_called_slow_as_well() -> None:
    slow = {"name": "mm", "op": "aten::mm", "dtype": "fp32", "time_s": 20.0, "byte/dram": 1.0}
    half = product(time_s=20.0)
    named = {f.code: f.kernels for f in advise(report_of([half, {**slow, "flop/fp32": 800.0}]))}
    assert named["TR301"] == [0]
    assert named["TR304"] == [1]


def test_gains_are_seconds_of_unprofiled_steps() -> None:
    steps = Steps(count=9, unprofiled_s=19.0, profiled_s=24.0)
    causes = {"python": 8.0}
    report = report_of([product(time_s=12.0)], wall_s=19.0, steps=steps, idle_by_cause=causes)
    assert report.totals.unexplained_s == pytest.approx(-1.0)
    findings = {f.code: f for f in advise(report)}
    assert findings["TR104"].gain_s == pytest.approx(8.0)
    assert findings["TR301"].gain_s == pytest.approx(12.0 - 4.0)


def test_gains_of_different_rows_add() -> None:
    findings = advise(report_of([product(), adam()]))
    last = [f for f in findings if f.gain_s is not None][-1]
    assert last.evidence["cumulative_gain_s"] == pytest.approx(6.0 + 11.0)


def test_codes_can_be_chosen() -> None:
    report = report_of([product(), adam()])
    assert [f.code for f in advise(report, ["TR103"])] == ["TR103"]
    with pytest.raises(UsageError, match="TR999"):
        rule_of("TR999")


rates = st.floats(0.01, 100.0)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(rates, rates, rates, st.integers(1, 200), st.booleans(), st.booleans()),
        min_size=1,
        max_size=6,
    )
)
def test_no_more_is_promised_than_there_is(
    rows: list[tuple[float, float, float, int, bool, bool]],
) -> None:
    table = [
        {
            "name": f"k{i}",
            "op": "aten::mm" if product_ else "aten::mul",
            "time_s": time_s,
            "flop/fp32": flops * 10,
            "byte/dram": moved,
            "launches": float(n),
            "shape": "[[4, 4], [4, 4]]",
            "phase": "optimizer" if last else "forward",
        }
        for i, (time_s, flops, moved, n, product_, last) in enumerate(rows)
    ]
    report = report_of(table)
    total = report.totals.ladder.measured_s
    assert total is not None
    added_up = 0.0
    for finding in advise(report):
        if finding.gain_s is not None:
            added_up += finding.gain_s
            # Every finding adds something or nothing, never more than it claims itself.
            assert 0 <= finding.gain_s <= own_gain_s(finding) * (1 + 1e-9)
            assert finding.evidence["cumulative_gain_s"] == pytest.approx(added_up)
    assert added_up <= total * (1 + 1e-9)
    elapsed = dict(report.profile.kernels.select("id", "time_s").iter_rows())
    for finding in advise(report):
        assert finding.why
        assert finding.action
        if finding.gain_s is None:
            continue
        assert 0 < own_gain_s(finding) <= sum(elapsed[k] for k in finding.kernels) * (1 + 1e-9)


def test_a_run_with_nothing_but_times_gives_no_finding() -> None:
    assert [f.code for f in advise(report_of([{"name": "k", "time_s": 1.0}]))] == ["TR902"]
    assert advise(report_of([{"name": "k", "time_s": 0.0}])) == []


def test_codes_names_and_groups() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.code[:3] in GROUPS
        assert "any" in rule.actions
        for part in ("**What.**", "**Why.**", "**Example.**", "**Seconds.**", "**Silent**"):
            assert part in rule.documentation(), (rule.code, part)


def test_one_rule_per_file_named_after_its_pattern() -> None:
    for rule in RULES:
        assert type(rule).__module__.endswith(rule.name.replace("-", "_"))


def test_the_page_of_findings_is_current() -> None:
    written = (DOCS / "findings.md").read_text(encoding="utf-8")
    assert written == findings_page(), "make schemas"
