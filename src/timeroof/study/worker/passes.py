"""What the timed part of each pass is: a function without arguments, everything else done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from timeroof.study.kernel import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    CALIBRATE,
    FORWARD,
    OPTIMIZER,
    Workload,
)


@dataclass
class Runnable:
    """One execution of a pass, and the bytes of what it works on."""

    run: Callable[[], Any]
    working_set_bytes: int


def runnable(
    workload: Workload,
    pass_name: str,
    context: Callable[[], Any],
    function: Callable[..., Any] | None = None,
) -> Runnable:
    """Make a pass ready to be run; `context` is entered around the forward pass."""
    makers = {
        CALIBRATE: _calibrate,
        FORWARD: _forward,
        BACKWARD: _gradients,
        BACKWARD_INPUT: _gradients,
        BACKWARD_WEIGHT: _gradients,
        OPTIMIZER: _optimizer,
    }
    made: Runnable = makers[pass_name](workload, pass_name, context, function or workload.function)
    return made


def _calibrate(w: Workload, name: str, context: Any, function: Any) -> Runnable:
    return Runnable(w.make_inputs, _bytes(w.make_inputs()))


def _forward(w: Workload, name: str, context: Any, function: Any) -> Runnable:
    import torch

    inputs = w.make_inputs()

    def run() -> Any:
        with torch.no_grad(), context():
            return function(*inputs)

    with torch.no_grad(), context():
        result = function(*inputs)
    return Runnable(run, _bytes((inputs, w.weights, result)))


def _gradients(w: Workload, name: str, context: Any, function: Any) -> Runnable:
    """Gradients by torch.autograd.grad: nothing is added up in `.grad`."""
    import torch

    inputs = w.make_inputs()
    learned = [i.requires_grad_() for i in inputs if i.is_floating_point()]
    wanted = [*learned, *w.weights]
    if name == BACKWARD_INPUT:
        wanted = learned
    if name == BACKWARD_WEIGHT:
        wanted = list(w.weights)
    if not wanted:
        raise NotImplementedError("nothing here has a gradient in this number format")
    # What is not asked for has no place in the graph: no work is done for it.
    for tensor in (*learned, *w.weights):
        tensor.requires_grad_(any(tensor is one for one in wanted))
    with context():
        result = function(*inputs)
    given = torch.randn_like(result)

    def run() -> Any:
        return torch.autograd.grad(result, wanted, given, retain_graph=True)

    return Runnable(run, _bytes((inputs, w.weights, given, run())))


def _optimizer(w: Workload, name: str, context: Any, function: Any) -> Runnable:
    import torch

    make = w.make_optimizer or (lambda tensors: torch.optim.SGD(tensors, lr=1e-3))
    for tensor in w.weights:
        tensor.grad = torch.randn_like(tensor)
    optimizer = make(w.weights)
    step: Any = optimizer.step
    if w.compiled and function is w.function:
        step = torch.compile(optimizer.step, dynamic=False)
    step()
    states = [v for state in optimizer.state.values() for v in state.values()]
    return Runnable(step, _bytes((w.weights, [t.grad for t in w.weights], states)))


def _bytes(values: Any) -> int:
    """Bytes of all tensors in nested tuples, each storage once."""
    import torch

    found: dict[int, int] = {}

    def look(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            found[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        elif isinstance(value, tuple | list):
            for one in value:
                look(one)

    look(values)
    return sum(found.values())
