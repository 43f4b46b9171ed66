"""Results as rows: labels, scopes, verdicts."""

from __future__ import annotations

import msgspec
import pytest

from tests.conftest import make_machine
from tests.study.cases import one_case
from timeroof.core.machine import Ceiling
from timeroof.study.case import Result
from timeroof.study.grid import all_cores
from timeroof.study.report import judged_study, profile_of


def two_scopes():
    """All cores have twice the rates of one."""
    machine = make_machine()
    cores = [
        msgspec.structs.replace(c, scope="core", rate=c.rate / 2)
        for c in machine.ceilings
        if c.resource != "launch"
    ]
    return msgspec.structs.replace(
        machine, ceilings=[*machine.ceilings, *cores], launching="synchronous"
    )


def result(threads: int | None = None, time_s: float = 10.0, **changes: object) -> Result:
    case = one_case(
        "conv2d",
        threads=threads,
        **{k: changes.pop(k) for k in ("cache", "variant", "params") if k in changes},
    )  # type: ignore[arg-type]
    values: dict[str, object] = {
        "case": case, "status": "done", "samples_s": [time_s] * 3, "launches": 1.0,
        "amounts": {"flop/fp32": 100.0, "byte/dram": 10.0}, "contraction_flops": 90.0,
        "origins": {"time": "measured", "flops": "counted", "bytes/dram": "modelled"},
        "labels": {"implementation": "x", "reorders": "2"},
    }  # fmt: skip
    return Result(**(values | changes))  # type: ignore[arg-type]


def test_a_row_has_the_case_in_its_labels() -> None:
    row = profile_of([result(params={"batch": 32}, cache="cold")]).kernels.row(0, named=True)
    assert row["name"] == "conv2d forward fp32 batch=32 cold"
    assert row["kind"] == "unit"
    assert row["op"] == "conv2d"
    assert row["phase"] == "forward"
    assert row["dtype"] == "fp32"
    wanted = {"batch": "32", "kernel": "3", "layout": "contiguous", "cache": "cold", "variant": "eager",
              "framework": "torch", "precision": "fp32", "pass": "forward", "device": "cpu",
              "threads": str(all_cores()), "implementation": "x", "reorders": "2"}  # fmt: skip
    assert {k: row[f"label.{k}"] for k in wanted} == wanted
    assert row["samples"] == [10.0] * 3
    assert row["time_spread"] == 0.0
    assert row["origin.flops"] == "counted"


def test_flops_that_a_case_does_not_name_are_none_and_unknown_ones_stay_unknown() -> None:
    both = [
        result(amounts={"flop/fp32": 1.0, "flop/bf16": 8.0, "byte/dram": 1.0}),
        result(amounts={"flop/fp32": 2.0, "byte/dram": 1.0}, params={"batch": 1}),
        result(amounts={"flop/fp32": None, "byte/dram": None}, params={"batch": 2}),
    ]
    table = profile_of(both).kernels.sort("name")
    by_batch = {r["label.batch"]: r for r in table.iter_rows(named=True)}
    assert by_batch["16"]["flop/bf16"] == 8.0
    assert by_batch["1"]["flop/bf16"] == 0.0
    assert by_batch["2"]["flop/bf16"] is None
    assert by_batch["2"]["byte/dram"] is None


def test_failed_cases_have_no_row_but_are_told() -> None:
    bad = result(status="failed", error="crashed", samples_s=[], params={"batch": 1})
    study = judged_study([result(), bad], make_machine())
    assert len(study.report.profile) == 1
    assert study.failures == [bad]
    nothing = judged_study([bad], make_machine())
    assert len(nothing.report.profile) == 0


def test_one_thread_is_judged_on_one_core() -> None:
    machine = two_scopes()
    study = judged_study([result(1, 30.0), result(2, 20.0), result(3, 10.0)], machine)
    rows = {r["label.threads"]: r for r in study.report.rows.iter_rows(named=True)}
    assert rows["1"]["label.scope"] == "core"
    assert rows["2"]["label.scope"] == "all"
    # 100 FLOPs at 100 or 50 a second, 10 bytes at 10 or 5 a second, a launch of 0.1 s on top.
    assert rows["2"]["bound_s"] == pytest.approx(1.1)
    assert rows["1"]["bound_s"] == pytest.approx(2.1)
    assert [r["time_s"] for r in study.report.rows.iter_rows(named=True)] == [30.0, 20.0, 10.0]
    assert study.report.totals.bound_s == pytest.approx(1.1 + 1.1 + 2.1)


def test_only_one_thread_is_judged_on_one_core_too() -> None:
    study = judged_study([result(1)], two_scopes())
    assert study.report.rows["bound_s"].to_list() == pytest.approx([2.1])


def test_a_machine_without_core_ceilings_serves_all() -> None:
    machine = make_machine(ceilings=[Ceiling(resource="flop/fp32", rate=100.0, origin="measured")])
    study = judged_study([result(1), result(2)], machine)
    assert study.report.rows["label.scope"].unique().to_list() == ["all"]
