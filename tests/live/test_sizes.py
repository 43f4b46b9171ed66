"""Sizes of two described steps side by side, which steps are kept, and what C prints."""

from __future__ import annotations

import ctypes
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from timeroof.core.shapes import SHAPE
from timeroof.live.kind import changed_sizes, mind_sizes, nearer_to_last
from timeroof.live.recording import Described, Recording, TensorSeen, TimedStep, pairs
from timeroof.views.run_summary import _why_no_line
from timeroof_recorder.schedule import Pass, Schedule
from timeroof_recorder.torch.timing import PrintedByC


def op(name: str, *shape: int, thread: int = 1, scope: int = 0) -> Described:
    tensor = TensorSeen(shape, "float", (1,), 7, 0, 4, "cpu")
    return Described(name, None, thread, -1, scope, "", (tensor, (tensor, 3)), ())


def test_the_same_sizes_are_no_change() -> None:
    step = [op("a", 2, 3), op("b", 4), Described("c", None, 1, -1, 0, "", (), ())]
    assert changed_sizes(step, step) is None
    assert changed_sizes([], step) is None
    # What is in one of them only says nothing of sizes; annotations are no ops.
    assert changed_sizes(step, [op("x", 9), *step]) is None
    assert changed_sizes([op("a", 2, scope=7)], [op("a", 3, scope=7)]) is None


def test_a_change_has_a_share_and_its_largest_example() -> None:
    first = [op("a", 2), op("b", 3), op("c", 5), op("d", 6, thread=2)]
    last = [op("a", 2), op("b", 4), op("x", 1), op("c", 50), op("d", 6, thread=2)]
    found = changed_sizes(first, last)
    assert found is not None
    assert (found.share, found.example) == (0.5, "c 5, then 50")


def test_a_tensor_more_is_a_change() -> None:
    more = Described("a", None, 1, -1, 0, "", (*op("a", 2).inputs, *op("a", 8).inputs), ())
    found = changed_sizes([op("a", 2)], [more])
    assert found is not None
    assert found.example == "a no such tensor, then 8"


def timed(number: int) -> TimedStep:
    none = np.zeros(0, np.int64)
    return TimedStep((), none, none, none, none, none, none, 0, 1, 1, number=number)


def test_timed_steps_belong_to_the_described_one_that_is_nearer() -> None:
    steps = [timed(n) for n in (2, 5, 6, 7, 9)]
    assert [s.number for s in nearer_to_last(steps, 2, 10)] == [6, 7, 9]


Step = tuple[int, list[Described]]


def recorded(first: Step, last: Step, at: tuple[int, ...] = (2, 9)) -> Recording:
    found = Recording(timed=[timed(n) for n in at], described=first[1])
    mind_sizes(found, first, last)
    return found


def test_the_first_step_stands_until_sizes_change() -> None:
    same = recorded((3, [op("a", 2)]), (10, [op("a", 2), op("b", 1)]))
    assert len(same.described) == 1
    assert len(same.timed) == 2
    assert not same.notes
    grown = recorded((3, [op("a", 2)]), (10, [op("a", 4)]))
    assert grown.described == [op("a", 4)]
    assert [s.number for s in grown.timed] == [9]
    (note,) = grown.notes
    assert "100% of the ops" in note
    assert "(a 2, then 4). Amounts are those of step 10" in note
    assert "1 timed step near it" in note


def test_where_only_steps_before_were_timed_the_first_stands_and_it_is_said() -> None:
    found = recorded((3, [op("a", 2)]), (10, [op("a", 4)]), at=(2, 4))
    assert found.described == [op("a", 2)]
    assert len(found.timed) == 2
    assert "Amounts are those of step 3" in found.notes[0]


@pytest.mark.parametrize("steps", [7, 8, 12, 20, 28, 40])
def test_a_step_is_described_late_in_the_first_window_and_in_every_later_one(steps: int) -> None:
    plan = Schedule(warmup=2, steps=steps)
    passes = [plan.next() for _ in range(2000)]
    head = passes[: passes.index(Pass.FREE)]
    assert head.count(Pass.DESCRIBED) == (2 if steps >= 8 else 1)
    assert steps < 8 or Pass.DESCRIBED in head[-3:]
    rest = [p for p in passes[len(head) :] if p != Pass.FREE]
    windows = rest.count(Pass.DESCRIBED)
    assert 3 <= windows <= 8
    assert abs(rest.count(Pass.TIMED) - 2 * windows) <= 2
    assert not any(a == b == Pass.DESCRIBED for a, b in pairwise(passes))


def open_files() -> list[str]:
    return [str(f.readlink()) for f in Path("/proc/self/fd").iterdir() if f.is_symlink()]


def test_what_c_prints_is_caught_and_the_rest_is_not(capfd: pytest.CaptureFixture[str]) -> None:
    c, printed = ctypes.CDLL(None), PrintedByC()
    c.puts(b"before")
    if not printed.start():
        pytest.skip("not GNU's C library")
    open_before = open_files()
    assert printed.is_on
    c.puts(b"caught")
    os.write(1, b"straight\n")
    assert printed.size_bytes() == len(b"caught\n")
    assert printed.stop() == b"caught\n"
    assert printed.stop() == b""
    # The stream's descriptor stays, leading nowhere: no file may get its number.
    after = open_files()
    assert len(after) == len(open_before)
    assert sum("memfd:timeroof" in f for f in after) < sum(
        "memfd:timeroof" in f for f in open_before
    )
    c.puts(b"after")
    c.fflush(None)
    assert capfd.readouterr().out == "before\nstraight\nafter\n"


@pytest.mark.parametrize(
    ("kind", "shape", "why"),
    [
        ("kernel", [[2, 2]], "compiled"),
        ("op", None, "shapes recorded"),
        ("op", [[2, 2]], "no call"),
    ],
)
def test_no_line_has_its_reason(kind: str, shape: list[list[int]] | None, why: str) -> None:
    rows = pl.DataFrame({"kind": [kind], "shape": [shape]}, schema_overrides={"shape": SHAPE})
    assert why in _why_no_line(rows)


def test_loops_that_go_round_more_often_are_matched_from_both_ends() -> None:
    cell = ["mm", "addmm", "sigmoid", "tanh", "mul", "add", "view", "cat"]

    def step(there: int, back: int) -> list[str]:
        embedding, head = ["embed", "copy", "flip", "view"], ["addmm", "softmax", "nll", "sum"]
        return [*embedding * 2, *cell * there, *embedding, *head, *cell * back, *head, "zero"]

    # Longer than what is compared one by one.
    ours, theirs = step(390, 370), step(380, 385)
    found = pairs(ours, theirs)
    assert all(ours[i] == theirs[j] for i, j in found)
    assert len(found) == len(step(380, 370))
    last = len(ours) - ours[::-1].index("softmax") - 1
    assert theirs[dict(found)[last] :] == ours[last:]
