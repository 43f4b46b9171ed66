"""Knowing less never claims more: random profiles, each with one amount made unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from tests.conftest import make_machine
from timeroof.api.reports import analyze
from timeroof.core.machine import Machine
from timeroof.core.profile import Profile, Source
from timeroof.core.report import Report
from timeroof.model.bounds import own_times
from timeroof.model.totals import kernel_groups

AMOUNTS = ("flop/fp32", "flop/fp16-tensor", "byte/dram")
NAMES = ("aten::mm", "aten::add", "aten::copy_", "aten::layer_norm", "nccl")
amount = st.none() | st.sampled_from([0.0, 0.5]) | st.floats(1e-3, 1e4)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(NAMES))
    time_s = draw(st.floats(0.01, 100.0))
    own = draw(st.floats(0.0, 1.0))
    return {
        "name": name,
        "kind": "collective" if name == "nccl" else "kernel",
        "op": None if name == "nccl" else name,
        "time_s": time_s,
        "exclusive_s": own * time_s,
        "alone_s": draw(st.floats(0.0, 1.0)) * own * time_s,
        "idle_before_s": draw(st.none() | st.floats(0.0, 10.0)),
        "launches": draw(st.integers(1, 1000)),
        "phase": draw(st.sampled_from(["forward", "optimizer", "data"])),
        **{column: draw(amount) for column in AMOUNTS},
    }


def report_of(table: list[dict[str, Any]], machine: Machine) -> Report:
    kernel_s = sum(row["exclusive_s"] for row in table)
    idle_s = sum(row["idle_before_s"] or 0.0 for row in table)
    profile = Profile.of(
        [{"id": i, **row} for i, row in enumerate(table)],
        Source(tool="test"),
        wall_s=kernel_s + idle_s + 1.0,
        kernel_s=kernel_s,
        idle_by_cause={"launch-starved": idle_s},
    )
    return analyze(profile, machine)


def gains(report: Report) -> set[str]:
    return {finding.code for finding in report.findings if finding.gain_s is not None}


@settings(deadline=None, max_examples=40)
@given(st.data(), st.lists(rows(), min_size=1, max_size=5), st.booleans())
def test_knowing_less_never_claims_more(
    data: st.DataObject, table: list[dict[str, Any]], synchronous: bool
) -> None:
    machine = make_machine(launching="synchronous" if synchronous else "asynchronous")
    known = [(i, c) for i, row in enumerate(table) for c in AMOUNTS if row[c] is not None]
    before = report_of(table, machine)
    assert sum(before.totals.by_class.values()) == pytest.approx(before.totals.wall_s)
    if not known:
        return
    place, column = data.draw(st.sampled_from(known))
    less = [{**row, column: None} if i == place else row for i, row in enumerate(table)]
    after = report_of(less, machine)
    assert sum(after.totals.by_class.values()) == pytest.approx(after.totals.wall_s)
    assert after.totals.known_time_share <= before.totals.known_time_share
    was, now = (r.rows.row(by_predicate=pl.col("id") == place, named=True) for r in (before, after))
    for bound in ("bound_s", "work_bound_s"):
        assert now[bound] is None or now[bound] > 0 or was[bound] == 0
    if now["limiter"] == "launch" and was["limiter"] != "launch":
        assert now["bound.launch"] >= 0.9 * now["elapsed_s"]
    assert gains(after) <= gains(before)
    claimed_s = [f.gain_s for f in after.findings if f.gain_s is not None]
    assert all(s <= after.totals.wall_s * (1 + 1e-9) for s in claimed_s)
    together = [f.evidence.get("cumulative_gain_s", 0.0) for f in after.findings]
    assert max(together, default=0.0) <= after.totals.wall_s * (1 + 1e-9)


@settings(deadline=None, max_examples=40)
@given(st.lists(rows(), min_size=1, max_size=5))
def test_a_sum_over_unknown_amounts_is_null_or_says_what_it_covers(
    table: list[dict[str, Any]],
) -> None:
    totals = report_of(table, make_machine()).totals
    for column in AMOUNTS:
        head, _, name = column.partition("/")
        found = (totals.flops if head == "flop" else totals.bytes)[name]
        told = [row[column] for row in table if row[column] is not None]
        if not told:
            assert found is None
        else:
            assert found == pytest.approx(sum(told))
    share = totals.known["bytes"]
    time_s = sum(row["time_s"] for row in table)
    covered_s = sum(row["time_s"] for row in table if row["byte/dram"] is not None)
    assert share == pytest.approx(covered_s / time_s)
    for row in kernel_groups(report_of(table, make_machine()).rows).iter_rows(named=True):
        members = [table[i] for i in row["rows"]]
        unknown = any(member["byte/dram"] is None for member in members)
        assert (row["achieved_byte_per_s"] is None) == unknown


INTERVALS = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0.1, 20), st.integers(0, 2)), min_size=1, max_size=12
)


@given(INTERVALS)
def test_rows_that_overlap_share_instants(intervals: list[tuple[float, float, int]]) -> None:
    start = np.array([s for s, _, _ in intervals])
    end = start + np.array([d for _, d, _ in intervals])
    tier = np.array([t for _, _, t in intervals])
    own = own_times(start, end, tier, np.zeros(len(start), np.int64))
    busy, reached = 0.0, -1.0
    for s, e in sorted(zip(start.tolist(), end.tolist(), strict=True)):
        busy += max(0.0, e - max(s, reached))
        reached = max(reached, e)
    assert own.exclusive.sum() == pytest.approx(busy)
    assert (own.alone <= own.exclusive + 1e-9).all()
    assert (own.exclusive <= end - start + 1e-9).all()
