"""A toy framework: a few functions of NumPy's behind one door that a tracer may stand in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__version__ = "1.0"

# Whoever traces: gets the op's name, what computes it, and its arguments.
TRACER: list[Callable[..., Any]] = []
# Whoever wants to know of calls of models and of updates.
LISTENERS: list[Callable[..., None]] = []


def _op(name: str, compute: Callable[..., Any], *args: Any) -> Any:
    return TRACER[-1](name, compute, *args) if TRACER else compute(*args)


def matmul(a: Any, b: Any) -> Any:
    return _op("toy.matmul", np.matmul, a, b)


def add(a: Any, b: Any) -> Any:
    return _op("toy.add", np.add, a, b)


def relu(a: Any) -> Any:
    return _op("toy.relu", lambda x: np.maximum(x, 0, dtype=x.dtype), a)


def transposed(a: Any) -> Any:
    return _op("toy.transposed", np.transpose, a)


class Model:
    """Two layers."""

    def __init__(self, width: int) -> None:
        make = np.random.default_rng(0).standard_normal
        self.first = make((width, width), dtype=np.float32)
        self.second = make((width, width), dtype=np.float32)

    def __call__(self, x: Any) -> Any:
        for listener in LISTENERS:
            listener("call", self, x)
        return matmul(relu(matmul(x, self.first)), self.second)


class Descent:
    """Moves a model's weights."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def step(self, gradient: Any) -> None:
        self.model.first = add(self.model.first, gradient)
        for listener in LISTENERS:
            listener("step", self, gradient)
