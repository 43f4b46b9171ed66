"""TensorFlow's worker: eager, as a graph, compiled by XLA, and in a session as TensorFlow 1 had it.

Eager and graph passes take their gradients from a tape that the forward pass wrote before. What
XLA compiles cannot hand over a loop's history, nor can a session: there the gradients are one
program, which runs what it needs of the forward pass again. The count shows it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from timeroof.core.machine import Machine
from timeroof.live.calls import count_calls
from timeroof.live.recording import Described
from timeroof.live.tensorflow.graph import Graph
from timeroof.study import case as k
from timeroof.study.case import Case, Plan, Result, Status
from timeroof.study.kernels import kernel as find_kernel
from timeroof.study.own import OWN_VARIANTS
from timeroof.study.worker import own, tf_counting, xla_counting
from timeroof.study.worker.counting import Used, nothing_seen, used
from timeroof.study.worker.own import Own, OwnError, check_home, leak_labels
from timeroof.study.worker.results import (
    DTYPES,
    Told,
    error_words,
    flusher,
    is_moving,
    labels_of,
    refusal_of,
    refusal_of_own,
    result_of,
    use_cores,
)
from timeroof.study.worker.sampling import Entrant, Sampled, process_clock
from timeroof.study.worker.tf_kernels import KERNELS, Made
from timeroof.study.worker.turns import Turns

EAGER, GRAPH, XLA, SESSION = "eager", "graph", "xla", "session"
VARIANTS = (EAGER, GRAPH, XLA, SESSION)
# What the passes of a function of the user's contain, and the ways in which it can run.
OWN_PASSES = {
    k.FORWARD: "what make returned, called once",
    k.BACKWARD: "the gradients of inputs and trainable variables from a given gradient of the"
    " result; the forward pass ran before and is not in the time, except in XLA",
}
_MISSING = ("UnimplementedError", "NotImplementedError")


@dataclass
class Ready:
    """A case that can be run, and the graphs that it consists of."""

    run: Callable[[], object]
    entrant: Entrant
    working_set_bytes: int
    graphs: list[Graph] = field(default_factory=list)


class _Held(NamedTuple):
    """One execution, and its results or what stands for them."""

    run: Callable[[], object]
    results: object


class Bench:
    """TensorFlow's cases on one machine."""

    def __init__(self, machine: Machine | None, own: Own | None = None) -> None:
        self._machine = machine
        self._own = own
        # Keras runs on whatever back end the environment names; here it is TensorFlow's.
        os.environ["KERAS_BACKEND"] = "tensorflow"
        self._tf = import_module("tensorflow")
        # One buffer, and only where a case is cold.
        self._flusher = lru_cache(maxsize=1)(partial(flusher, machine))

    def measure(
        self, cases: Sequence[Case], plan: Plan, beat: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        """Measure cases in turns, and hand over a result of each in their order."""
        return Turns(self, process_clock).measure(cases, plan, beat)

    def refusal(self, case: Case) -> str | None:
        """Why a case cannot run here."""
        if self._own is not None:
            return refusal_of_own(case, "TensorFlow", OWN_PASSES, OWN_VARIANTS["tensorflow"])
        return refusal_of(case, "TensorFlow", KERNELS, VARIANTS, "tensors")

    def use_threads(self, count: int) -> None:
        """Run what follows on so many cores: TensorFlow makes its threads once."""
        use_cores(count)

    def outcome(self, error: Exception) -> tuple[Status, str]:
        """What an error of TensorFlow means."""
        first, text = error_words(error)
        if type(error).__name__ in ("ResourceExhaustedError", "MemoryError"):
            return "failed", f"out of memory ({first})"
        missing = type(error).__name__ in _MISSING or "only supports NHWC" in text
        return ("unsupported" if missing else "failed"), text

    def clear(self, cases: Sequence[Case]) -> None:
        """The next cases must not find what was compiled."""
        keras = import_module("keras")
        keras.backend.clear_session()

    @contextmanager
    def ready(self, case: Case) -> Iterator[Ready]:
        """A case made ready."""
        random = _random(case)
        graphs: list[Graph] = []
        if self._own is not None:
            with tf_counting.collected(graphs):  # a tf.function becomes graphs at its first call
                made = own_made(self._own.made(case.params), case.pass_name)
        else:
            made = KERNELS[case.kernel](case.params, random, case.variant == SESSION)
        if case.variant == SESSION:
            with self._in_session(made, case, random, graphs) as held:
                yield self._made(case, held, made, graphs)
            return
        with tf_counting.collected(graphs):
            run = self._pass(made, case, random)
            held = _Held(run, run())
        if self._own is not None:
            check_home(self._tf.nest.flatten(held.results), "tensorflow")
        yield self._made(case, held, made, graphs)

    def _made(self, case: Case, held: _Held, made: Made, graphs: list[Graph]) -> Ready:
        leaves = self._tf.nest.flatten((made.weights, made.inputs, made.learned, held.results))
        size = sum(_nbytes(leaf) for leaf in leaves)
        flush = self._flusher() if case.cache == "cold" else None
        return Ready(held.run, Entrant(held.run, flush), size, graphs)

    def _pass(self, made: Made, case: Case, random: Any) -> Callable[[], object]:
        """One execution of a pass."""
        tf = self._tf
        weights = tuple(tf.constant(w) for w in made.weights)
        inputs = tuple(tf.constant(x) for x in made.inputs)
        options = {"jit_compile": True} if case.variant == XLA else {}
        jit = partial(tf.function, **options) if case.variant != EAGER else _same
        if case.pass_name == k.FORWARD:
            called = jit(made.function)
            return lambda: called(weights, *inputs)
        wanted = _wanted(case, made.learned or weights, inputs)
        if case.variant == XLA:
            return self._compiled_gradients(made, weights, inputs, case, random)
        called = jit(made.function)
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(wanted)
            result = called(weights, *inputs)
        given = tf.constant(random(*result.shape))
        return lambda: tape.gradient(result, wanted, output_gradients=given)

    def _compiled_gradients(
        self, made: Made, weights: tuple[Any, ...], inputs: tuple[Any, ...], case: Case, random: Any
    ) -> Callable[[], object]:
        """Gradients as one compiled program, the forward pass in it as far as they need it."""
        tf = self._tf
        shape = tf.function(made.function).get_concrete_function(weights, *inputs).output_shapes
        given = tf.constant(random(*shape.as_list()))

        def gradients(weights: Any, inputs: Any, given: Any) -> Any:
            wanted = _wanted(case, made.learned or weights, inputs)
            with tf.GradientTape() as tape:
                tape.watch([w for w in wanted if not hasattr(w, "assign")])
                result = made.function(weights, *inputs)
            return tape.gradient(result, wanted, output_gradients=given)

        called = tf.function(gradients, jit_compile=True)
        return lambda: called(weights, inputs, given)

    @contextmanager
    def _in_session(
        self, made: Made, case: Case, random: Any, graphs: list[Graph]
    ) -> Iterator[_Held]:
        """A graph of TensorFlow 1, its arguments in variables, run by a session."""
        v1 = self._tf.compat.v1
        # Other cases run eagerly meanwhile: the graph is the default one only while it is made.
        with self._tf.Graph().as_default() as graph:
            held = [
                tuple(v1.Variable(a, use_resource=True) for a in group)
                for group in (made.weights, made.inputs)
            ]
            weights, inputs = (tuple(v.value() for v in group) for group in held)
            fetched = made.function(weights, *inputs)
            if case.pass_name != k.FORWARD:
                given = v1.Variable(random(*fetched.shape), use_resource=True)
                wanted = _wanted(case, weights, inputs)
                fetched = v1.gradients(fetched, wanted, grad_ys=given.value())
            # A name for each result, under which its shape is seen; nothing is copied out.
            named = [self._tf.identity(one) for one in self._tf.nest.flatten(fetched)]
            begin = v1.global_variables_initializer()
        session, targets, seen = (
            v1.Session(graph=graph),
            [one.op for one in named],
            v1.RunMetadata(),
        )
        try:
            session.run(begin)
            options = v1.RunOptions(output_partition_graphs=True)
            session.run(targets, options=options, run_metadata=seen)
            graphs += [tf_counting.graph_of(g) for g in seen.partition_graphs]
            yield _Held(lambda: session.run(targets), named)
        finally:
            session.close()

    def result(self, case: Case, ready: Ready, sampled: Sampled) -> Result:
        """Samples with what one execution used."""
        count, on = self._count(case, ready)
        holds = contains(case) if self._own is None else OWN_PASSES[case.pass_name]
        told = Told(holds, on, partial(because, case))
        labels = labels_of(case, count, sampled, ready.working_set_bytes, told)
        if self._own is not None:
            labels |= leak_labels(self._own, (), case, count, self._count_again)
        return result_of(case, sampled, count, labels)

    def _count_again(self, case: Case) -> Used:
        with self.ready(case) as ready:
            return self._count(case, ready)[0]

    def _count(self, case: Case, ready: Ready) -> tuple[Used, str]:
        cold = case.cache == "cold"
        if case.variant == XLA:
            thunks = xla_counting.executed(ready.run, tf_counting.traced)
            return xla_counting.used(thunks, self._machine, cold=cold), "the compiled programs"
        ops: list[Described] | None
        if case.variant == EAGER:
            ops, on = tf_counting.eager_ops(ready.run), "the ops that ran"
            if any(_is_function(op) for op in ops):  # a tf.function of the user's
                inside = tf_counting.graph_ops(ready.run, ready.graphs) or []
                ops = [op for op in ops if not (inside and _is_function(op))] + inside
        else:
            ops, on = tf_counting.graph_ops(ready.run, ready.graphs), "the nodes that ran"
        if ops is None:
            unknown: dict[str, float | None] = {"flop/fp32": None, "byte/dram": None}
            return Used(unknown, uncounted=["nodes of graphs"]), "nothing"
        if self._own is not None and not ops:
            return nothing_seen("TensorFlow"), "nothing"
        return used(ops, self._machine, cold=cold, count=count_calls), on


def own_made(given: own.Made, pass_name: str) -> Made:
    """What a user's function returned: a function of its tensors; all else is bound."""
    tf = import_module("tensorflow")
    moving = [
        n for n, value in enumerate(given.inputs)
        if is_moving(value, lambda dtype: bool(tf.as_dtype(dtype).is_floating), pass_name)
    ]  # fmt: skip

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


def variables_of(function: Callable[..., Any]) -> list[Any]:
    """What a layer or a model learns."""
    found = getattr(function, "trainable_variables", None) or []
    return [getattr(variable, "value", variable) for variable in found]


def _is_function(op: Described) -> bool:
    return op.name.startswith("tf::__inference_")


def _same(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _wanted(case: Case, weights: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """What a pass takes gradients of."""
    return [
        *(inputs if case.pass_name != k.BACKWARD_WEIGHT else ()),
        *(weights if case.pass_name != k.BACKWARD_INPUT else ()),
    ]


def _nbytes(value: Any) -> int:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return 0
    width: int = getattr(dtype, "size", 0) or getattr(dtype, "itemsize", 0)
    return int(np.prod(tuple(shape), dtype=np.int64)) * width


def _random(case: Case) -> Callable[..., Any]:
    """Normal numbers in the case's format."""
    dtype: Any = getattr(
        import_module("tensorflow"), DTYPES.get(case.precision, "float32")
    ).as_numpy_dtype
    source = np.random.default_rng(1234)
    return lambda *shape: source.standard_normal(shape).astype(dtype)


_HOW = {
    EAGER: "one call of TensorFlow per op",
    GRAPH: "one graph by tf.function",
    XLA: "one program by tf.function(jit_compile=True)",
    SESSION: "one graph in a tf.compat.v1.Session, as TensorFlow 1 ran it",
}
_LAYER = {
    "lstm": "Keras' LSTM, one bias vector per gate, batch first",
    "gru": "Keras' GRU, one bias vector per gate, batch first",
    "rnn": "Keras' SimpleRNN, batch first",
}
_AGAIN = "the gradients are one program, which runs the forward pass again where they need it"


def contains(case: Case) -> str:
    """What the timed part of a case contains."""
    layer = _LAYER.get(case.kernel)
    if layer is not None and case.variant == SESSION:
        layer = "BasicLSTMCell in a while loop as dynamic_rnn made it, one bias vector per gate"
    words = [find_kernel(case.kernel).passes[case.pass_name], _HOW[case.variant]]
    if case.pass_name != k.FORWARD and case.variant in (XLA, SESSION):
        words[0] = f"{words[0].split(';')[0]}; {_AGAIN}"
    return "; ".join([*words, layer] if layer else words)


_ALL_OPERANDS = "the gradient of an op computes those of all its operands"


def _exceeds_forward(case: Case, ratio: float) -> bool:
    """Whether a pass executes more than its own products and those of the forward pass."""
    needs = find_kernel(case.kernel).contraction
    own, forward = needs(case.params, case.pass_name), needs(case.params, k.FORWARD)
    return bool(own and forward and ratio > (1 + forward / own) * (1 + 1e-9))


def because(case: Case, ratio: float) -> str | None:
    """Why TensorFlow executes other products than the definition needs."""
    steps = int(case.params.get("time_steps", 0))
    if case.pass_name == k.FORWARD:
        if steps and abs(ratio * steps - (steps + 1)) < 1e-6 * steps:
            return f"Keras runs the cell {steps + 1} times for {steps} steps"
    elif ratio < 1 and steps:
        return "the gradient of the initial state is left out"
    elif ratio > 1 and case.variant in (XLA, SESSION):
        again = "the forward pass runs again inside the backward pass"
        return f"{again}, and {_ALL_OPERANDS}" if _exceeds_forward(case, ratio) else again
    elif ratio > 1 and case.pass_name != k.BACKWARD:
        return _ALL_OPERANDS
    return "not known" if ratio > 1 else "products with zeros are left out"
