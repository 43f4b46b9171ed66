"""Calls of modules are told while somebody listens, and leave no trace."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import traceback
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from timeroof_recorder.marks import Marks  # noqa: E402
from timeroof_recorder.torch import session_instruments  # noqa: E402
from timeroof_recorder.torch.calls import watch_calls  # noqa: E402
from timeroof_recorder.torch.session_instruments import TorchInstruments  # noqa: E402


class Told:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def entered(self, module: Any, *_: Any) -> None:
        self.calls.append(("entered", module))

    def left(self, module: Any, *_: Any) -> None:
        self.calls.append(("left", module))


def test_calls_are_told_while_somebody_listens() -> None:
    function = torch.nn.Module.__call__
    code = function.__code__
    inner = torch.nn.Linear(2, 2)
    model, told = torch.nn.Sequential(inner), Told()
    end = watch_calls(told.entered, told.left)
    model(torch.zeros(1, 2))
    assert torch.nn.Module.__call__ is function
    assert told.calls == [
        ("entered", model), ("entered", inner), ("left", inner), ("left", model),
    ]  # fmt: skip
    end()
    model(torch.zeros(1, 2))
    assert len(told.calls) == 4
    assert function.__code__ is code


def test_one_module_alone_is_watched_and_not_kept() -> None:
    code = torch.nn.Module.__call__.__code__
    inner = torch.nn.Linear(2, 2)
    model, told = torch.nn.Sequential(inner), Told()
    end = watch_calls(told.entered, only=[model])
    bytes_before = pickle.dumps(model)
    copy.deepcopy(model)(torch.zeros(1, 2))
    assert told.calls == []
    model(torch.zeros(1, 2))
    assert told.calls == [("entered", model)]
    assert pickle.dumps(model) == bytes_before
    told.calls.clear()
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    for _ in range(20):  # perhaps at the same address
        torch.nn.Sequential(inner)(torch.zeros(1, 2))
    assert told.calls == []
    end()
    assert torch.nn.Module.__call__.__code__ is code


def test_somebody_who_listens_from_within_a_call_is_told_of_its_end() -> None:
    model, told, ends = torch.nn.Linear(2, 2), Told(), []
    ends.append(
        watch_calls(lambda *_: ends.append(watch_calls(told.entered, told.left)), only=[model])
    )
    model(torch.zeros(1, 2))
    assert told.calls == [("left", model)]
    for end in ends:
        end()


def test_an_error_of_a_listener_ends_its_listening_only() -> None:
    def failing(*_: Any) -> None:
        raise ValueError("ours")

    model, told = torch.nn.Linear(2, 2), Told()
    ends = [watch_calls(failing), watch_calls(told.entered)]
    model(torch.zeros(1, 2))
    model(torch.zeros(1, 2))
    assert len(told.calls) == 2
    for end in ends:
        end()


@pytest.mark.parametrize("watched", ["all", "one"])
def test_a_traceback_shows_the_lines_of_torch(watched: str) -> None:
    class Failing(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            raise ValueError(x)

    model, told = Failing(), Told()

    def shown() -> str:
        try:
            model(1)
        except ValueError:
            return traceback.format_exc()
        raise AssertionError

    alone = shown()
    end = watch_calls(told.entered, told.left, only=[model] if watched == "one" else None)
    assert shown() == alone
    end()
    assert [what for what, _ in told.calls] == ["entered", "left"]


def test_tracing_is_no_call() -> None:
    """Ops of ours between a program's steps would become a part of what is traced."""
    model, told, x = torch.nn.Linear(2, 2), Told(), torch.zeros(1, 2)
    end = watch_calls(told.entered, told.left)
    torch.fx.symbolic_trace(torch.nn.Sequential(model))
    with pytest.warns(DeprecationWarning, match="torch.jit.trace"):
        traced = torch.jit.trace(model, x, check_trace=False)
    assert told.calls == []
    traced(x)
    assert [what for what, _ in told.calls] == ["entered", "left"]
    end()


def test_one_walk_over_all_objects_serves_a_description(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model, walks = torch.nn.Sequential(torch.nn.Linear(2, 2)), 0
    made = TorchInstruments()
    made.file_for = lambda name, suffix: str(tmp_path / f"{name}{suffix}")
    get_objects = gc.get_objects

    def counted() -> list[Any]:
        nonlocal walks
        walks += 1
        return get_objects()

    made._known[id(model)] = weakref.ref(model)
    made._roots = frozenset({id(model)})
    monkeypatch.setattr(gc, "get_objects", counted)
    watched: list[list[Any]] = []
    monkeypatch.setattr(
        session_instruments,
        "watch_calls",
        lambda *_, only=(): watched.append(list(only)) or (lambda: None),
    )
    other = torch.nn.Linear(3, 3)
    dropped = weakref.ref(torch.nn.Linear(4, 4))
    assert made.start("described")
    made.stop("described")
    assert walks == 1
    assert any(model is each for each in watched[-1])
    assert any(other is each for each in watched[-1])
    assert dropped() is None


def test_modules_of_the_next_fold_are_watched_with_its_optimizer() -> None:
    watched: list[frozenset[int] | None] = []
    marks = Marks("auto", lambda end_ns: None, watch=watched.append, will_train=lambda: True)
    alive = {1: True, 2: True}

    def step(optimizer: int, module: int) -> None:
        marks.called(module, "Net", "train grad", (), lambda: True)
        marks.stepped(optimizer, "SGD", lambda: alive[optimizer])

    step(1, 10)
    step(1, 10)
    assert watched == [frozenset({10})]
    alive[1] = False
    step(2, 20)
    assert watched[1:] == [None]
    step(2, 20)
    step(2, 20)
    assert watched[2:] == [frozenset({20})]


class Loop:
    """A program that calls a cell by itself, over and over, and then steps."""

    def __init__(self) -> None:
        self.cell, self.tallies, self.told = torch.nn.Linear(4, 4), [], 0
        self.instruments = TorchInstruments()
        self.marks = Marks(
            "auto", lambda end_ns: self.tallies.append(self.marks.tally()),
            watch=self.instruments.watch, will_train=lambda: True,
        )  # fmt: skip
        tell = self.instruments._root_called

        def told(*given: Any) -> None:
            self.told += 1
            tell(*given)

        self.instruments._root_called = told  # type: ignore[method-assign]
        self.instruments.attach_marks(self.marks)
        self.step(2)  # from now on only modules that are called by themselves are watched
        self.tallies.clear()

    def step(self, *sizes: int) -> int:
        """Call the cell with batches of these sizes; how many calls were told."""
        before = self.told
        for size in sizes:
            self.cell(torch.zeros(size, 4))
        self.marks.stepped(1, "SGD", lambda: True)
        return self.told - before

    def items(self) -> dict[tuple[str, str], int]:
        """The calls of the last step by label and flags."""
        items, _ = self.tallies[-1]
        return {(label, flags): n for what, label, flags, n in (i for i in items if len(i) == 4)}


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.instruments.detach()


def test_of_many_calls_in_a_step_most_are_only_counted(loop: Loop) -> None:
    assert loop.step(*[2] * 600) == 6  # the first four, and after 256 another one, twice
    assert loop.step(*[2] * 40) == 4
    assert loop.step(*[2] * 3) == 3
    counts = [items[0][-1] for items, _ in loop.tallies]
    assert counts == [1024, 64, 3]
    assert {sizes for _, sizes in loop.tallies} == {((2, 4),)}


def test_sizes_are_of_the_first_calls_whether_later_ones_are_told_or_not(loop: Loop) -> None:
    batches = [2, 2, 2, 3, 5, 7]
    told = [loop.step(*batches) for _ in range(3)]
    assert told == [4, 4, 4]
    loop.instruments.watch(None)
    assert loop.step(*batches) == 6
    assert {sizes for _, sizes in loop.tallies} == {((2, 4), (3, 4))}
    assert len({items for items, _ in loop.tallies}) == 1


def test_calls_of_another_kind_among_counted_ones_are_told(loop: Loop) -> None:
    for _ in range(20):
        loop.cell(torch.zeros(2, 4))
    with torch.no_grad():
        loop.cell(torch.zeros(2, 4))
    loop.cell.eval()
    loop.cell(torch.zeros(2, 4))
    loop.cell.train()
    assert loop.step(2) == 0
    assert loop.items() == {
        ("Linear", "train grad"): 32, ("Linear", "train"): 1, ("Linear", "eval grad"): 1,
    }  # fmt: skip


def test_calls_in_other_threads_are_not_among_those_that_are_counted(loop: Loop) -> None:
    for _ in range(6):
        loop.cell(torch.zeros(2, 4))
    other = threading.Thread(target=lambda: [loop.cell(torch.zeros(2, 4)) for _ in range(30)])
    other.start()
    other.join()
    loop.step(2)
    assert loop.items() == {("Linear", "train grad"): 7}


def test_a_module_that_is_also_a_part_of_a_watched_one_is_told_always(loop: Loop) -> None:
    model = torch.nn.Sequential(loop.cell)
    loop.instruments.watch(None)
    model(torch.zeros(2, 4))
    loop.instruments.watch(frozenset({id(model), id(loop.cell)}))
    loop.step(2)
    model(torch.zeros(2, 4))
    assert loop.step(*[2] * 20) == 20
    assert loop.items() == {("Linear", "train grad"): 32, ("Sequential", "train grad"): 1}


def test_counting_leaves_nothing_when_it_ends() -> None:
    code, made = torch.nn.Module.__call__.__code__, Loop()
    made.step(*[2] * 20)
    for _ in range(20):
        made.cell(torch.zeros(2, 4))
    made.instruments.detach()
    assert torch.nn.Module.__call__.__code__ is code
    made.cell(torch.zeros(2, 4))
    assert list(vars(made.cell)) == list(vars(torch.nn.Linear(4, 4)))
