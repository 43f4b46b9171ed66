"""Eager ops of a described step: each with its tensors, attributes, layer, phase and line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from timeroof_recorder.process import Ignoring, wrap

if TYPE_CHECKING:
    from types import FrameType

# Ops of one step that are described.
_MOST_OPS = 200_000
_FARTHEST = 60
_LAYERS = (("keras.src.layers.layer", "Layer"), ("tf_keras.src.engine.base_layer", "Layer"))


class Described:
    """Hears of every op that is run eagerly while it is on."""

    def __init__(self, phase: Callable[[], str]) -> None:
        self._phase = phase
        self._callbacks = import_module("tensorflow.python.framework.op_callbacks")
        self._backs: list[Callable[[], None]] = []
        self._layers: list[str] = []
        found = [getattr(sys.modules.get(n), "__file__", None) for n in ("tensorflow", "keras")]
        homes = [path.rpartition("/")[0] for path in found if isinstance(path, str)]
        self._libraries = (*homes, __file__.rpartition("/tensorflow/")[0])
        self.ops: list[tuple[object, ...]] = []

    def start(self) -> None:
        """Hear of ops from now on."""
        self.ops = []
        self._callbacks.add_op_callback(self._heard)
        for name, kind in _LAYERS:
            owner = getattr(sys.modules.get(name), kind, None)
            if owner is not None:
                self._backs.append(wrap(owner, "__call__", self._in_layer))

    def stop(self) -> list[tuple[object, ...]]:
        """Hear no more; what was heard."""
        with Ignoring("eager ops are still described"):
            self._callbacks.remove_op_callback(self._heard)
        while self._backs:
            self._backs.pop()()
        found, self.ops, self._layers = self.ops, [], []
        return found

    def _in_layer(
        self, original: Callable[..., object], layer: object, *args: object, **kwargs: object
    ) -> object:
        self._layers.append(str(getattr(layer, "name", type(layer).__name__)))
        try:
            return original(layer, *args, **kwargs)
        finally:
            self._layers.pop()

    def _heard(
        self, op_type: object, inputs: Any, attrs: Any, outputs: Any,
        op_name: object = None, graph: Any = None,
    ) -> None:  # fmt: skip
        """One op was run; nothing takes its results' place."""
        if graph is not None or len(self.ops) >= _MOST_OPS:
            return
        with Ignoring("an eager op was not described"):
            pairs = list(attrs or ())
            named = {_text(k): _plain(v) for k, v in zip(pairs[::2], pairs[1::2], strict=False)}
            self.ops.append(
                (
                    _text(op_type), tuple(_tensor(v) for v in inputs),
                    tuple(_tensor(v) for v in outputs), named, self._phase(),
                    ".".join(self._layers) or None, self._line(sys._getframe(2)),
                )
            )  # fmt: skip

    def _line(self, frame: FrameType | None) -> str | None:
        """The line of the program that ran it."""
        for _ in range(_FARTHEST):
            if frame is None:
                return None
            name = frame.f_code.co_filename
            if not name.startswith((*self._libraries, "<")) and "/site-packages/" not in name:
                return f"{name.rpartition('/')[2]}:{frame.f_lineno}"
            frame = frame.f_back
        return None


def _tensor(value: object) -> tuple[object, ...] | None:
    """Shape, format and number of a tensor; None where its shape is not known."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None or not shape.is_fully_defined():
        return None
    return tuple(shape.as_list()), str(dtype.name), int(getattr(value, "_id", id(value)))


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (bool, int, float, str)):
        return value
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else str(value)
