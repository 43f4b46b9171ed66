"""A function of the user's in TensorFlow or Keras: what it returned as a function of tensors."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from timeroof.study import kernel as k
from timeroof.study.worker import own
from timeroof.study.worker.own import OwnError
from timeroof.study.worker.tf_kernels import Made

VARIANTS = ("eager", "graph", "xla")
PASSES = {
    k.FORWARD: "what make returned, called once",
    k.BACKWARD: "the gradients of inputs and trainable variables from a given gradient of the"
    " result; the forward pass ran before and is not in the time, except in XLA",
}


def made_of(given: own.Made, pass_name: str) -> Made:
    """What a user's function returned: a function of its tensors; all else is bound."""
    tf = import_module("tensorflow")
    moving = [n for n, value in enumerate(given.inputs) if _is_moving(tf, value, pass_name)]

    def run(weights: tuple[Any, ...], *tensors: Any) -> Any:
        filled = list(given.inputs)
        for place, tensor in zip(moving, tensors, strict=True):
            filled[place] = tensor
        return given.function(*filled, **given.named)

    inputs = tuple(given.inputs[n] for n in moving)
    result = run((), *inputs)  # a layer makes its variables when it is first called
    if pass_name != k.FORWARD and len(tf.nest.flatten(result)) != 1:
        raise OwnError("it has several results, and a gradient is taken of one", "return one")
    return Made(run, (), inputs, tuple(variables_of(given.function)))


def _is_moving(tf: Any, value: Any, pass_name: str) -> bool:
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return False
    return pass_name == k.FORWARD or bool(tf.as_dtype(value.dtype).is_floating)


def variables_of(function: Callable[..., Any]) -> list[Any]:
    """What a layer or a model learns."""
    found = getattr(function, "trainable_variables", None) or []
    return [getattr(variable, "value", variable) for variable in found]
