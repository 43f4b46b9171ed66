"""What a program calls in TensorFlow: what marks its steps (`tf.function`s, runs of a session,
optimizers' updates), and the eager ops of a described step.

A call of a function that differentiates or updates variables ends a step as an optimizer does;
whether it does is known when it has been traced. `fit()` calls such a function per batch.
"""

from __future__ import annotations

import _thread
import re
import sys
import weakref
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from timeroof_recorder.process import KERAS, Ignoring, after_import, keras_backend, time, wrap
from timeroof_recorder.xspace import program_line

Original = Callable[..., object]
Back = Callable[[], None]
# Ops of a graph that update variables.
_UPDATES = ("ResourceApply", "Apply", "SparseApply", "ResourceSparseApply", "AssignSub")
# Nodes that are looked at for one of them.
_MOST_NODES = 20_000
_MOST_SPANS = 10_000
KERAS_EVALUATES = ("test_step", "predict_step")
_KERAS_STEPS = ("train_step", *KERAS_EVALUATES)
_MOST_CELLS = 40
# Gradients after which a loop that uses no optimizer is one that updates variables itself.
_PATIENCE = 2
_KERAS_OPTIMIZERS = (
    (KERAS, "BaseOptimizer", "apply"),
    ("tf_keras.src.optimizers.optimizer", "_BaseOptimizer", "apply_gradients"),
    ("tensorflow.python.training.optimizer", "Optimizer", "apply_gradients"),
)


class Told:
    """Who is told of calls: the instruments."""

    def called(
        self, key: int, label: str, args: object, *, trains: bool, of: object, every: int = 1,
        is_first: bool = True,
    ) -> None:  # fmt: skip
        """A function is called, or a session runs. So many calls make one update of variables;
        whether this is the first of them."""

    def stepped(self, optimizer: object, words: str | None) -> None:
        """An optimizer has updated variables, outside of any function."""


class Calls:
    """Follows a program's calls; `phase` is what an eager op belongs to by who calls it."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self.is_on = False
        # The function that each thread is inside of.
        self._running: dict[int, int] = {}
        self._trains: set[int] = set()
        # How many calls of a function make one update of variables, and how many there were.
        self._every: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        self._runs: dict[tuple[object, ...], bool] = {}
        self._gradients = self._updates = 0
        self._phases: dict[int, str] = {}
        self._context = import_module("tensorflow.python.eager.context")
        # When functions were traced: begin and length.
        self.spans: list[tuple[int, int]] = []

    @property
    def phase(self) -> str:
        """What the thread is doing."""
        return self._phases.get(_thread.get_ident(), "forward")

    def attach(self) -> list[Back]:
        """Follow calls from now on; returns ways back."""
        backs: list[Back] = []
        with Ignoring("calls of tf.function are not watched"):
            module = import_module(
                "tensorflow.python.eager.polymorphic_function.polymorphic_function"
            )
            backs.append(wrap(module.Function, "__call__", self._function))
        with Ignoring("signatures of saved models are not watched"):
            made: Any = import_module(
                "tensorflow.python.eager.polymorphic_function.concrete_function"
            )
            backs.append(wrap(made.ConcreteFunction, "__call__", self._function))
        with Ignoring("tracing is not timed"):
            tracing = import_module(
                "tensorflow.python.eager.polymorphic_function.tracing_compilation"
            )
            backs.append(wrap(tracing, "_create_concrete_function", self._traced))
        with Ignoring("sessions are not watched"):
            sessions = import_module("tensorflow.python.client.session")
            backs.append(wrap(sessions.BaseSession, "run", self._session))
        with Ignoring("gradients are not watched"):
            backprop = import_module("tensorflow.python.eager.backprop")
            backs.append(wrap(backprop.GradientTape, "gradient", self._gradient))
        for name, kind, method in _KERAS_OPTIMIZERS:
            backs.append(after_import(name, self._watching(backs, name, kind, method)))
        return backs

    def _watching(self, backs: list[Back], name: str, kind: str, method: str) -> Back:
        def watch() -> None:
            with Ignoring(f"{name} is not watched"):
                owner = getattr(sys.modules[name], kind)
                backs.append(wrap(owner, method, self._update))

        return watch

    def _is_eager(self) -> bool:
        return bool(self._context.executing_eagerly())

    # Functions.

    def _function(
        self, original: Original, function: object, *args: object, **kwargs: object
    ) -> object:
        me = _thread.get_ident()
        if not self.is_on or me in self._running or not self._is_eager():
            return original(function, *args, **kwargs)
        key, label, lives = _name_of(function)
        with Ignoring("a call was not seen"):
            given = args or tuple(kwargs.values())
            every = self._calls_per_update(key, function)
            # The first of the calls that make one update begins a step.
            place = self._counts[key] = self._counts.get(key, -1) + 1
            self._told.called(
                key, label, given, trains=key in self._trains, of=lives, every=every,
                is_first=place % every == 0,
            )  # fmt: skip
        self._running[me] = key
        try:
            return original(function, *args, **kwargs)
        finally:
            self._running.pop(me, None)

    def _traced(self, original: Original, *args: object, **kwargs: object) -> object:
        begin = time.perf_counter_ns()
        try:
            return original(*args, **kwargs)
        finally:
            if len(self.spans) < _MOST_SPANS:
                self.spans.append((begin, time.perf_counter_ns() - begin))

    def _note_training(self) -> bool:
        """Whether a function is under way, which trains then; replicas are traced in threads of
        their own."""
        key = self._running.get(_thread.get_ident())
        if key is not None:
            self._trains.add(key)
        elif not self._is_eager():
            self._trains.update(self._running.values())
        return key is not None

    def _calls_per_update(self, key: int, function: object) -> int:
        """How many calls make one update: batches of one are fewer, as a call may have several."""
        batches, each = self._every.get(key, 1), _batches(function)
        return batches // each if batches % each == 0 else 1

    # What is done op by op.

    def _gradient(
        self, original: Original, tape: object, *args: object, **kwargs: object
    ) -> object:
        if self._note_training() or not self._is_eager():
            return original(tape, *args, **kwargs)
        found = self._within("backward", original, tape, *args, **kwargs)
        self._gradients += 1
        if self.is_on and not self._updates and self._gradients > _PATIENCE:
            with Ignoring("a gradient was not seen"):
                self._told.stepped(Calls, "a gradient")
        return found

    def _update(
        self, original: Original, optimizer: object, *args: object, **kwargs: object
    ) -> object:
        if self._note_training():
            every = getattr(optimizer, "gradient_accumulation_steps", None)
            self._every[self._running[_thread.get_ident()]] = every or 1
            return original(optimizer, *args, **kwargs)
        if not self._is_eager() or _computes_elsewhere(optimizer):
            return original(optimizer, *args, **kwargs)
        found = self._within("optimizer", original, optimizer, *args, **kwargs)
        self._updates += 1
        if self.is_on:
            with Ignoring("an update was not seen"):
                self._told.stepped(optimizer, None)
        return found

    def _within(self, phase: str, original: Original, *args: object, **kwargs: object) -> object:
        me = _thread.get_ident()
        before = self._phases.get(me)
        self._phases[me] = phase
        try:
            return original(*args, **kwargs)
        finally:
            if before is None:
                self._phases.pop(me, None)
            else:
                self._phases[me] = before

    # Sessions.

    # What a described run of a session gets beside its own arguments, and who reads it.
    metadata: Callable[[Any], object] | None = None

    def _session(
        self, original: Original, session: Any, fetches: object, *args: object, **kwargs: object
    ) -> object:
        if not self.is_on:
            return original(session, fetches, *args, **kwargs)
        with Ignoring("a run of a session was not seen"):
            names = tuple(_names(fetches))
            place = (id(session.graph), names)
            if place not in self._runs:
                self._runs[place] = _updates(session.graph, names)
            label = f"session.run({names[0].partition(':')[0]})" if names else "session.run"
            fed = args[0] if args else kwargs.get("feed_dict")
            given = tuple(fed.values()) if isinstance(fed, dict) else ()
            trains = self._runs[place]
            self._told.called(hash(place), label, given, trains=trains, of=session)
        read = self.metadata
        if read is None or len(args) > 1 or "options" in kwargs or "run_metadata" in kwargs:
            return original(session, fetches, *args, **kwargs)
        v1 = sys.modules["tensorflow"].compat.v1
        seen = v1.RunMetadata()
        options = v1.RunOptions(output_partition_graphs=True)
        found = original(session, fetches, *args, options=options, run_metadata=seen, **kwargs)
        with Ignoring("the graph of a session was not kept"):
            read(seen)
        return found


def _computes_elsewhere(optimizer: object) -> bool:
    """Whether an optimizer is of a Keras whose back end is another framework."""
    is_of_keras = any(kind.__module__.startswith("keras.") for kind in type(optimizer).__mro__)
    return is_of_keras and keras_backend() != "tensorflow"


def _name_of(function: object) -> tuple[int, str, object]:
    """The same for functions that are made anew from the same lines, what to call them, and what
    lives as long as they may come again."""
    python = _python_of(function)
    code = getattr(python, "__code__", None)
    name = getattr(python, "__qualname__", "") or getattr(function, "_name", None)
    if not name:
        # A concrete function has the runtime's name: __inference_serve_12.
        given = getattr(function, "name", "a function")
        text = given.decode() if isinstance(given, bytes) else str(given)
        name = re.sub(r"^__[a-z]+_(\w+?)(?:___call__)?_\d+$", r"\1", text)
    label = str(name).rpartition(".")[2]
    if code is None:
        return id(function), label, function
    if "/keras/" in code.co_filename or "/tf_keras/" in code.co_filename:
        # fit(), evaluate() and predict() make theirs from the same lines, round the model's step.
        return id(function), _keras_step(function) or label, function
    return hash((id(code), str(name))), label, code


def _python_of(function: object) -> object:
    python = getattr(function, "_python_function", None) or getattr(function, "python_function", 0)
    return getattr(python, "__wrapped__", None) or python or function


def _keras_step(function: object) -> str | None:
    """The step of a model that a function of Keras is made round."""
    waiting, seen = [function], 0
    while waiting and seen < _MOST_CELLS:
        seen += 1
        one = waiting.pop(0)
        name = str(getattr(one, "__name__", ""))
        if name in _KERAS_STEPS:
            return name
        python = _python_of(one)
        waiting += [
            found for cell in getattr(python, "__closure__", None) or ()
            if callable(found := _content(cell)) and not isinstance(found, type)
        ]  # fmt: skip
        code = getattr(python, "__code__", None)
        named = [name for name in _KERAS_STEPS if name in getattr(code, "co_names", ())]
        if named:
            return named[0]
    return None


def _batches(function: object) -> int:
    """How many batches one call of a function of Keras' takes."""
    for cell in getattr(_python_of(function), "__closure__", None) or ():
        found = getattr(_content(cell), "steps_per_execution", None)
        if isinstance(found, int) and found > 0:
            return found
    return 1


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


def _names(fetches: object) -> Iterable[str]:
    if isinstance(fetches, (list, tuple)):
        for each in fetches:
            yield from _names(each)
    elif isinstance(fetches, dict):
        yield from _names(list(fetches.values()))
    elif fetches is not None:
        yield str(fetches if isinstance(fetches, str) else getattr(fetches, "name", ""))


def _updates(graph: Any, names: Iterable[str]) -> bool:
    """Whether what is fetched needs an op that updates variables."""
    waiting = []
    for name in names:
        with Ignoring("a fetch was not looked at"):
            waiting.append(graph.as_graph_element(name.partition(":")[0]))
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_NODES:
        op = waiting.pop()
        if id(op) in seen:
            continue
        seen.add(id(op))
        if str(op.type).startswith(_UPDATES):
            return True
        waiting += [tensor.op for tensor in op.inputs]
        waiting += list(op.control_inputs)
    return False


def alive(thing: object) -> Callable[[], bool]:
    """Whether something is still there."""
    try:
        known = weakref.ref(thing)
    except TypeError:
        return lambda: True
    return lambda: known() is not None


# Eager ops of a described step: each with its tensors, attributes, layer, phase and line.


# Ops of one step that are described.
_MOST_OPS = 200_000
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
        self._libraries = tuple(homes)
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
                    ".".join(self._layers) or None, program_line(sys._getframe(2), self._libraries),
                )
            )  # fmt: skip


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
