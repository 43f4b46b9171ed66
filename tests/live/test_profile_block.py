"""`timeroof.profile` in this process: blocks, steps, functions, stated costs."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.conftest import make_machine  # noqa: E402
from timeroof import cost, profile, step  # noqa: E402
from timeroof.core.report import Report  # noqa: E402
from timeroof.work.counting import cost_of, forget  # noqa: E402

MACHINE = make_machine(launching="synchronous")
A, B = torch.ones(16, 32), torch.ones(32, 8)
PRODUCT = 2 * 16 * 32 * 8


def rows(report: Report) -> dict[str, dict]:
    return {r["name"]: r for r in report.profile.kernels.iter_rows(named=True)}


def check_account(report: Report) -> None:
    found = report.profile
    parts = found.kernels["time_s"].sum() + sum(found.idle_by_cause.values())
    parts += report.totals.unexplained_s or 0.0
    assert parts == pytest.approx(found.wall_s, rel=1e-9)


def test_a_block_that_runs_once_is_counted_and_marked_as_perturbed() -> None:
    with profile(machine=MACHINE) as p:
        _ = (A @ B).relu()
    report = p.report()
    assert report is p.report()
    assert rows(report)["aten::mm"]["flop/fp32"] == PRODUCT
    assert report.profile.steps.unprofiled_s is None
    assert any("perturbed" in note for note in report.notes)
    check_account(report)


def test_steps_give_clean_timed_and_described_passes() -> None:
    with profile(machine=MACHINE, steps=8) as p:
        for _ in range(12):
            _ = A @ B
            p.step()
    report = p.report()
    assert report.profile.steps.count == 12
    assert report.profile.steps.unprofiled_s > 0
    (product,) = [r for r in rows(report).values() if r["op"] == "aten::mm"]
    assert product["calls"] == 1
    assert report.totals.launches == 1
    assert not any("perturbed" in note for note in report.notes)
    check_account(report)


def test_a_function_is_profiled_call_by_call() -> None:
    @profile
    def work() -> None:
        _ = A @ B

    @profile(machine=MACHINE)
    def known() -> int:
        _ = A @ B
        return 3

    assert [known() for _ in range(9)] == [3] * 9
    # The op's, or of the library's call below it.
    products = [r for r in rows(known.report()).values() if r["op"] == "aten::mm"]
    assert sum(r["flop/fp32"] for r in products) == PRODUCT
    work()
    assert work.__name__ == "work"


def test_a_stated_region_wins_over_what_is_inside() -> None:
    with profile(machine=MACHINE, steps=6) as p:
        for _ in range(8):
            with cost(flops=1000, bytes=64, name="mine"):
                _ = A @ B
            _ = A + A
            p.step()
    report = p.report()
    mine = rows(report)["mine"]
    assert (mine["flop/fp32"], mine["byte/dram"], mine["origin.flops"]) == (1000, 64, "user")
    assert "aten::mm" not in rows(report)
    assert "aten::add" in rows(report)
    check_account(report)


def test_the_stated_cost_of_an_op_wins() -> None:
    cost_of("aten::mm")(lambda call: {"flops": 5, "bytes": 4})
    try:
        with profile(machine=MACHINE) as p:
            _ = A @ B
        assert rows(p.report())["aten::mm"]["flop/fp32"] == 5
    finally:
        forget("aten::mm")


def test_an_op_with_a_stated_cost_has_the_time_of_what_it_calls() -> None:
    cost_of("aten::linear")(lambda call: {"flops": 5, "bytes": 4})
    try:
        with profile(machine=MACHINE) as p:
            _ = torch.nn.functional.linear(A, B.T)
        found = rows(p.report())
    finally:
        forget("aten::linear")
    assert (found["aten::linear"]["flop/fp32"], found["aten::linear"]["launches"]) == (5, 1)
    assert not {"aten::mm", "aten::addmm", "aten::t"} & set(found)


def test_an_error_leaves_a_partial_report_and_no_hooks() -> None:
    from torch.nn.modules import module as modules

    p = profile(machine=MACHINE)

    def fail() -> None:
        with p:
            _ = A @ B
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert any("Partial" in note for note in p.report().notes)
    assert rows(p.report())["aten::mm"]["flop/fp32"] == PRODUCT
    assert not modules._global_forward_hooks
    assert not torch.autograd._profiler_enabled()


def test_steps_and_costs_are_nothing_where_nobody_profiles() -> None:
    from torch.nn.modules import module as modules

    step()
    with cost(flops=1):
        product = A @ B
    assert torch.equal(product, A @ B)
    assert not modules._global_forward_hooks
    assert not torch.autograd._profiler_enabled()


def test_the_program_s_random_numbers_are_its_own() -> None:
    torch.manual_seed(0)
    bare = [torch.rand(2).sum().item() for _ in range(10)]
    torch.manual_seed(0)
    with profile(machine=MACHINE, steps=8) as p:
        watched = []
        for _ in range(10):
            watched.append(torch.rand(2).sum().item())
            p.step()
    assert watched == bare


def test_modules_and_phases_are_told() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(4, 8)
    with profile(machine=MACHINE, steps=8) as p:
        for _ in range(10):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            p.step()
    table = p.report().profile.kernels
    found = set(table.select("op", "module", "phase").iter_rows())
    assert ("aten::addmm", "model.0", "forward") in found
    assert ("aten::mm", "model.2", "backward") in found
    assert ("aten::pow", None, "forward") in found
    assert any(phase == "optimizer" for _, _, phase in found)
    assert p.report().totals.known_time_share > 0.99
