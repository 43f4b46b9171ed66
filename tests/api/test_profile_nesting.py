"""Profiles inside profiles: whoever came first measures, nobody crashes, and it is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.live_programs import folder, python, report
from timeroof.core.errors import UsageError

__all__ = ["folder"]
torch = pytest.importorskip("torch")

HEAD = """
import torch, timeroof
torch.set_num_threads(1)
x = torch.ones(16, 16)
"""
ONE_AT_A_TIME = "Use one of them at a time"
CASES = {
    "recursion": (
        "@timeroof.profile\n"
        "def f(n): return x @ x if n == 0 else f(n - 1)\n"
        "for _ in range(12): f(3)\n"
        "print('outer', f.report().profile.steps.count)\n"
    ),
    "decorated in decorated": (
        "@timeroof.profile\n"
        "def inner(): return x @ x\n"
        "@timeroof.profile\n"
        "def outer(): return inner() + 1\n"
        "for _ in range(12): outer()\n"
        "print('outer', outer.report().profile.steps.count)\n"
        "print('inner', *inner.report().notes)\n"
    ),
    "block in a loop of steps": (
        "with timeroof.profile() as outer:\n"
        "    for _ in range(12):\n"
        "        with timeroof.profile() as inner: x @ x\n"
        "        outer.step()\n"
        "print('outer', outer.report().profile.steps.count)\n"
        "print('inner', *inner.report().notes)\n"
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_the_outer_one_measures(folder: Path, name: str) -> None:
    printed = python(folder, "-c", HEAD + CASES[name])
    found = dict(line.split(" ", 1) for line in printed.splitlines())
    assert int(found["outer"]) == 12
    assert ("inner" in found) is (name != "recursion")
    assert ONE_AT_A_TIME in found.get("inner", ONE_AT_A_TIME)


def test_a_profile_under_timeroof_run_stands_aside(folder: Path) -> None:
    text = HEAD + (
        "import time; end = time.monotonic() + 0.4\n"
        "while time.monotonic() < end: x @ x  # a slow start, seen in windows of time\n"
        "@timeroof.profile\n"
        "def step():\n"
        "    x @ x\n"
        "for _ in range(10):\n"
        "    step(); timeroof.step()\n"
        "print(*step.report().notes)\n"
    )
    found = report(folder, text)
    assert ONE_AT_A_TIME in found["stdout"]
    steps = found["totals"]["steps"]
    assert (steps["count"], steps["mark"]) == (10, "timeroof.step()")


def test_a_block_that_was_never_entered_says_so() -> None:
    import timeroof

    made = timeroof.profile()
    assert "never entered" in made.report().notes[0]


@pytest.mark.parametrize("options", [{"steps": 0}, {"warmup": -1}])
def test_nothing_to_look_at_is_refused(options: dict[str, int]) -> None:
    import timeroof

    with pytest.raises(UsageError, match="nothing to look at"):
        timeroof.profile(**options)


def test_functions_that_run_later_are_refused() -> None:
    import timeroof

    async def later() -> None: ...

    def one_by_one() -> Iterator[int]:
        yield 1

    for function in (later, one_by_one):
        with pytest.raises(UsageError, match=function.__name__):
            timeroof.profile(function)


@pytest.mark.slow
def test_work_is_counted_once_where_ops_call_ops(folder: Path) -> None:
    text = HEAD + (
        "v = torch.ones(1024)\n"
        "for _ in range(8):\n"
        "    torch.relu(v); v.square(); v.sum(); v.abs()\n"
        "    timeroof.step()\n"
    )
    found = report(folder, text)
    assert found["totals"]["flops"]["fp32"] == pytest.approx(4 * 1024)


@pytest.mark.slow
def test_products_of_sparse_tensors_are_counted_by_their_values(folder: Path) -> None:
    text = HEAD + (
        "places, values = torch.tensor([[0, 1], [2, 3]]), torch.ones(2)\n"
        "s = torch.sparse_coo_tensor(places, values, (64, 64), check_invariants=True).coalesce()\n"
        "d = torch.ones(64, 32)\n"
        "for _ in range(8):\n"
        "    torch.sparse.mm(s, d); timeroof.step()\n"
    )
    found = report(folder, "import warnings; warnings.simplefilter('ignore')\n" + text)
    assert found["totals"]["contraction_flops"] == 2 * 2 * 32
    assert not any(row["above_roof"] == "wrong count" for row in found["kernels"])
