"""`timeroof.profile` in a process with several frameworks: whose ops come, not who is imported."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

from tests.conftest import make_machine  # noqa: E402
from timeroof import profile, step  # noqa: E402
from timeroof.core.report import Report  # noqa: E402

MACHINE = make_machine(launching="synchronous")
LARGE, SMALL = np.ones((1024, 1024), np.float32), np.ones((8, 8), np.float32)
T_LARGE, T_SMALL = torch.ones(1024, 1024), torch.ones(8, 8)
PRODUCT = 2 * 1024**3


@jax.jit
def jax_product(x):
    return x @ x


def torch_with_jax_data() -> None:
    torch.from_numpy(np.array(jax_product(SMALL)))
    _ = T_LARGE @ T_LARGE


def jax_with_torch_data() -> None:
    _ = (T_SMALL @ T_SMALL).numpy()
    jax_product(LARGE).block_until_ready()


def flops(report: Report) -> float:
    return report.profile.kernels["flop/fp32"].max()


CASES = [(torch_with_jax_data, "torch"), (jax_with_torch_data, "jax")]


def check(report: Report, framework: str) -> None:
    assert report.profile.source.frameworks[0].name == framework
    assert flops(report) == PRODUCT
    found = report.profile
    parts = found.kernels["time_s"].sum() + sum(found.idle_by_cause.values())
    parts += report.totals.unexplained_s or 0.0
    assert parts == pytest.approx(found.wall_s, rel=1e-9)


@pytest.mark.parametrize(("work", "framework"), CASES)
def test_a_block_is_about_the_framework_with_most_time(work, framework) -> None:
    work()
    with profile(machine=MACHINE) as p:
        work()
    check(p.report(), framework)


@pytest.mark.parametrize(("work", "framework"), CASES)
def test_steps_are_those_of_the_framework_with_most_time(work, framework) -> None:
    work()
    with profile(machine=MACHINE, steps=6) as p:
        for turn in range(9):
            work()
            if turn % 2:
                p.step()
            else:
                step()
    check(p.report(), framework)
    assert p.report().profile.steps.count == 9


@pytest.mark.parametrize(("work", "framework"), CASES)
def test_a_function_is_about_the_framework_with_most_time(work, framework) -> None:
    watched = profile(machine=MACHINE)(work)
    for _ in range(9):
        watched()
    check(watched.report(), framework)


def test_a_block_in_which_nothing_runs_says_so() -> None:
    with profile(machine=MACHINE) as p:
        pass
    assert any("Nothing was measured" in note for note in p.report().notes)


def test_nothing_of_ours_is_left_in_either() -> None:
    jit, call = jax.jit, torch.nn.Module.__call__
    with profile(machine=MACHINE) as p:
        torch_with_jax_data()
    p.report()
    assert (jax.jit, torch.nn.Module.__call__) == (jit, call)
