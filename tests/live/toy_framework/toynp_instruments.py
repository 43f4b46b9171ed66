"""Instruments of the toy framework: all that it gives to the recorder, in one file."""

from __future__ import annotations

import _thread
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import toynp

from timeroof_recorder.instruments import OP, Events, Instruments
from timeroof_recorder.marks import Marks

FORMULAS = {"toy.matmul": "aten::mm", "toy.add": "aten::add", "toy.relu": "aten::relu",
            "toy.transposed": "aten::t"}  # fmt: skip


class Toy(Instruments):
    name, version = "toynp", toynp.__version__
    offers = frozenset({"timed", "described"})

    def __init__(self) -> None:
        self._marks: Marks | None = None
        self._rows: list[tuple[str, int, int, int, int, int]] = []
        self._ops: list[tuple[object, ...]] = []
        self._begin_ns = 0

    def attach(self, marks: Marks) -> None:
        self._marks = marks
        if self._heard not in toynp.LISTENERS:
            toynp.LISTENERS.append(self._heard)

    def detach(self) -> None:
        toynp.LISTENERS.remove(self._heard)

    def _heard(self, what: str, thing: Any, array: Any) -> None:
        alive, label = weakref.ref(thing), type(thing).__name__
        if self._marks is not None and what == "step":
            self._marks.stepped(id(thing), label, lambda: alive() is not None)
        elif self._marks is not None:
            self._marks.called(id(thing), label, "", array.shape, lambda: alive() is not None)

    def start(self, pass_: str) -> bool:
        self._rows, self._ops = [], []
        toynp.TRACER.append(self._time if pass_ == "timed" else self._look)
        self._begin_ns = time.perf_counter_ns()
        return True

    def stop(self, pass_: str) -> Events | None:
        toynp.TRACER.clear()
        if pass_ != "timed":
            return None
        thread = _thread.get_ident()
        return Events(self._rows, self._begin_ns, time.perf_counter_ns(), thread)

    def abort(self) -> None:
        toynp.TRACER.clear()

    def describe(self) -> dict[str, object] | None:
        return {"ops": self._ops}

    def _time(self, name: str, compute: Callable[..., Any], *args: Any) -> Any:
        begin_ns = time.perf_counter_ns()
        found = compute(*args)
        length_ns = time.perf_counter_ns() - begin_ns
        self._rows.append((name, begin_ns, length_ns, _thread.get_ident(), -1, OP))
        return found

    def _look(self, name: str, compute: Callable[..., Any], *args: Any) -> Any:
        found = compute(*args)
        phase = "optimizer" if name == "toy.add" else "forward"
        self._ops.append((
            name, None, _thread.get_ident(), -1, OP, tuple(map(seen, args)), (seen(found),),
            phase, None, None, FORMULAS[name],
        ))  # fmt: skip
        return found

    def surroundings(self) -> dict[str, object]:
        return {"threads": 1}

    def small_programs(self) -> tuple[Callable[[], None], Callable[[], None]]:
        small, large = np.ones((4, 4), np.float32), np.ones((64, 64), np.float32)

        def run(array: Any) -> None:
            for _ in range(200):
                toynp.add(array, array)

        return lambda: run(small), lambda: run(large)


def seen(array: Any) -> tuple[object, ...]:
    """An array as the protocol writes tensors."""
    base = array if array.base is None else array.base
    where, own = array.__array_interface__["data"][0], base.__array_interface__["data"][0]
    strides = tuple(s // array.itemsize for s in array.strides)
    offset = (where - own) // array.itemsize
    return ("tensor", array.shape, str(array.dtype), strides, own, offset, array.itemsize, "cpu")


make = Toy
