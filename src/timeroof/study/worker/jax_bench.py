"""JAX's worker: one case from beginning to end, made ready, counted from the HLO that ran.

A kernel is a function of weights and inputs. Eager JAX runs a recurrent layer as a Python loop over
its cell, compiled JAX as `lax.scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import numpy as np

from timeroof.core.errors import trace_ignored
from timeroof.core.machine import Machine
from timeroof.study import case as k
from timeroof.study.case import Case, Params, Plan, Result, Status
from timeroof.study.kernels import kernel as find_kernel
from timeroof.study.worker import own, xla_counting
from timeroof.study.worker.counting import Used, nothing_seen
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
from timeroof.study.worker.turns import Turns
from timeroof.work.call import UncountableError
from timeroof.work.jaxpr import Algorithm, algorithm_of

# A worker without JAX imports this file too.
Array = Any
Arrays = tuple[Array, ...]
Random = Callable[..., Array]


@dataclass(frozen=True)
class Made:
    """A kernel made ready: ``function(weights, *inputs)`` and its arguments."""

    function: Callable[..., Array]
    weights: Arrays
    inputs: Arrays


def _conv2d(params: Params, random: Random, eager: bool) -> Made:
    lax = import_module("jax").lax
    size = {name: int(value) for name, value in params.items() if name != "layout"}
    n, c, side, filters = size["batch"], size["channels"], size["size"], size["filters"]
    kernel, stride = size["kernel"], size["stride"]
    last = params.get("layout") == "channels_last"
    shape = (n, side, side, c) if last else (n, c, side, side)
    order = ("NHWC", "HWIO", "NHWC") if last else ("NCHW", "OIHW", "NCHW")
    weight = (kernel, kernel, c, filters) if last else (filters, c, kernel, kernel)

    def run(weights: Arrays, x: Array) -> Array:
        w, b = weights
        out = lax.conv_general_dilated(x, w, (stride, stride), "VALID", dimension_numbers=order)
        return out + (b if last else b[:, None, None])

    return Made(run, (random(*weight), random(filters)), (random(*shape),))


def _lstm(params: Params, random: Random, eager: bool) -> Made:
    jax = import_module("jax")
    jnp = import_module("jax.numpy")
    names = ("batch", "time_steps", "features", "hidden")
    batch, steps, features, hidden = (int(params[name]) for name in names)

    def cell(weights: Arrays, state: Array, x: Array) -> Array:
        w, u, b, d = weights
        h, c = state
        i, f, g, o = jnp.split(x @ w + b + h @ u + d, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def run(weights: Arrays, xs: Array) -> Array:
        zero = jnp.zeros((batch, hidden), xs.dtype)
        state, found = (zero, zero), []
        if not eager:
            return jax.lax.scan(lambda s, x: cell(weights, s, x), state, xs)[1]
        for step in range(steps):
            state, h = cell(weights, state, xs[step])
            found.append(h)
        return jnp.stack(found)

    gates = 4 * hidden
    weights = (random(features, gates), random(hidden, gates), random(gates), random(gates))
    return Made(run, weights, (random(steps, batch, features),))


def _gemm(params: Params, random: Random, eager: bool) -> Made:
    m, n, k = (int(params[name]) for name in "mnk")
    return Made(lambda weights, a, b: a @ b, (), (random(m, k), random(k, n)))


def _attention(params: Params, random: Random, eager: bool) -> Made:
    jax = import_module("jax")
    names = ("batch", "sequence", "heads", "head_dim")
    shape = tuple(int(params[name]) for name in names)
    causal = params.get("causal") == "yes"

    def run(weights: Arrays, q: Array, k: Array, v: Array) -> Array:
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal)

    return Made(run, (), tuple(random(*shape) for _ in range(3)))


KERNELS: dict[str, Callable[[Params, Random, bool], Made]] = {
    "conv2d": _conv2d,
    "lstm": _lstm,
    "gemm": _gemm,
    "attention": _attention,
}


EAGER, COMPILED = "eager", "compiled"
VARIANTS = (EAGER, COMPILED)
# What the passes of a function of the user's contain.
OWN_PASSES = {
    k.FORWARD: "what make returned, called once and waited for",
    k.BACKWARD: "the gradients of all floating-point inputs from a given gradient of the results;"
    " the forward pass ran before and is not in the time",
}


@dataclass
class Ready:
    """A case that can be run."""

    run: Callable[[], object]
    entrant: Entrant
    working_set_bytes: int
    # What it is defined to compute, which takes tracing it.
    defined: Callable[[], Algorithm | None]


class Bench:
    """JAX's cases on one machine."""

    def __init__(self, machine: Machine | None, own: Own | None = None) -> None:
        self._machine = machine
        self._own = own
        self._jax = import_module("jax")
        # One buffer, and only where a case is cold.
        self._flusher = lru_cache(maxsize=1)(partial(flusher, machine))

    def measure(
        self, cases: Sequence[Case], plan: Plan, beat: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        """Measure cases in turns, and hand over a result of each in their order."""
        # The work is done by JAX's own threads, whose time is not that of the one that asks.
        return Turns(self, process_clock).measure(cases, plan, beat)

    def refusal(self, case: Case) -> str | None:
        """Why a case cannot run here."""
        if self._own is not None:
            return refusal_of_own(case, "JAX", OWN_PASSES, VARIANTS)
        return refusal_of(case, "JAX", KERNELS, VARIANTS, "arrays")

    def use_threads(self, count: int) -> None:
        """Run what follows on so many cores: JAX makes its threads once, when it starts."""
        use_cores(count)

    def outcome(self, error: Exception) -> tuple[Status, str]:
        """What an error of JAX means."""
        first, text = error_words(error)
        if "RESOURCE_EXHAUSTED" in text or isinstance(error, MemoryError):
            return "failed", f"out of memory ({first})"
        missing = isinstance(error, NotImplementedError) or "UNIMPLEMENTED" in text
        return ("unsupported" if missing else "failed"), text

    def clear(self, cases: Sequence[Case]) -> None:
        """The next cases must not find what was compiled."""
        self._jax.clear_caches()

    @contextmanager
    def ready(self, case: Case) -> Iterator[Ready]:
        """A case made ready."""
        if case.precision == "fp64":
            self._jax.config.update("jax_enable_x64", True)
        try:
            made = self._made(case)
            called, given = self._pass(made, case)
            wait = self._jax.block_until_ready

            def run() -> object:
                return wait(called(*given))

            leaves = self._jax.tree_util.tree_leaves((given, run()))
            check_home(leaves if self._own is not None else (), "jax")
            size = sum(getattr(leaf, "nbytes", 0) for leaf in leaves)
            flush = self._flusher() if case.cache == "cold" else None
            yield Ready(run, Entrant(run, flush), size, partial(defined_work, called, *given))
        finally:
            self._jax.config.update("jax_enable_x64", False)

    def _made(self, case: Case) -> Made:
        if self._own is None:
            return KERNELS[case.kernel](case.params, _random(case), case.variant == EAGER)
        eager = case.variant == EAGER
        return own_made(self._own.made(case.params), case.pass_name, eager=eager)

    def _pass(self, made: Made, case: Case) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The timed function of a pass and its arguments; the forward pass ran before backward."""
        jit = self._jax.jit if case.variant == COMPILED else lambda function: function
        if case.pass_name == k.FORWARD:
            return jit(made.function), (made.weights, *made.inputs)
        function, given = made.function, (made.weights, *made.inputs)
        if case.pass_name == k.BACKWARD_INPUT:
            function, given = (lambda *x: made.function(made.weights, *x)), made.inputs
        elif case.pass_name == k.BACKWARD_WEIGHT:
            function, given = (lambda w: made.function(w, *made.inputs)), (made.weights,)
        forward = jit(lambda *x: self._jax.vjp(function, *x))
        result, pull = forward(*given)
        backward = jit(lambda pull, gradient: pull(gradient))
        return backward, (pull, self._jax.tree_util.tree_map(self._like, result))

    def _like(self, array: Any) -> Any:
        """Normal numbers, as many and of the kind of an array."""
        source = np.random.default_rng(1234)
        return self._jax.numpy.asarray(source.standard_normal(array.shape), array.dtype)

    def result(self, case: Case, ready: Ready, sampled: Sampled) -> Result:
        """Samples with what one execution used."""
        count, defined = self._count(case, ready), ready.defined()
        holds = contains(case) if self._own is None else OWN_PASSES[case.pass_name]
        why = partial(because, case, count.contraction_flops, defined)
        flops = None if defined is None else defined.contraction_flops
        told = Told(holds, "the compiled programs that ran (HLO)", why, flops)
        labels = labels_of(case, count, sampled, ready.working_set_bytes, told)
        if flops is not None:
            labels["jaxpr_flops"] = f"{flops:.0f}"
        if self._own is not None:
            labels |= leak_labels(self._own, (), case, count, self._count_again)
        return result_of(case, sampled, count, labels)

    def _count(self, case: Case, ready: Ready) -> Used:
        thunks = xla_counting.executed(ready.run, self._traced)
        if self._own is not None and not thunks:
            return nothing_seen("JAX")
        return xla_counting.used(thunks, self._machine, cold=case.cache == "cold")

    def _count_again(self, case: Case) -> Used:
        with self.ready(case) as ready:
            return self._count(case, ready)

    def _traced(self, run: Callable[[], object], folder: str) -> None:
        profiler = self._jax.profiler
        options = profiler.ProfileOptions()
        options.python_tracer_level = 0
        with profiler.trace(folder, profiler_options=options):
            run()


# A function of the user's.


def own_made(given: own.Made, pass_name: str, *, eager: bool) -> Made:
    """What a user's function returned: a function of its arrays. What is no array is bound, so that
    compiling takes it for a constant."""
    if eager and pass_name == k.FORWARD:
        return Made(lambda weights, *x: given.function(*x, **given.named), (), given.inputs)
    jax = import_module("jax")
    tree: Any = jax.tree_util
    leaves, shape = tree.tree_flatten((given.inputs, dict(given.named)))

    def is_float(dtype: object) -> bool:
        return bool(jax.numpy.issubdtype(dtype, jax.numpy.floating))

    moving = [n for n, leaf in enumerate(leaves) if is_moving(leaf, is_float, pass_name)]
    if not moving and pass_name != k.FORWARD:
        raise OwnError(
            "it has no floating-point inputs, so there is no gradient",
            "return (function, inputs) with arrays as inputs",
        )

    def run(weights: tuple[Any, ...], *arrays: Any) -> Any:
        filled = list(leaves)
        for place, array in zip(moving, arrays, strict=True):
            filled[place] = array
        inputs, named = tree.tree_unflatten(shape, filled)
        return given.function(*inputs, **named)

    arrays = tuple(jax.numpy.asarray(leaves[n]) for n in moving)
    if pass_name == k.FORWARD:
        return Made(run, (), arrays)
    return Made(_floats_of(run, tree), (), arrays)


def _floats_of(run: Callable[..., Any], tree: Any) -> Callable[..., Any]:
    """The results that have a gradient, as one flat list."""
    jnp = import_module("jax.numpy")

    def floats(weights: tuple[Any, ...], *arrays: Any) -> list[Any]:
        found = tree.tree_leaves(run(weights, *arrays))
        return [x for x in found if jnp.issubdtype(jnp.asarray(x).dtype, jnp.floating)]

    return floats


# What a function is defined to compute: its jaxpr, without what nobody needs.


def defined_work(function: Callable[..., Any], *arguments: Any) -> Algorithm | None:
    """The work that a function defines for its arguments; None where it cannot be traced: eager
    JAX may look at numbers."""
    jax = import_module("jax")
    traced = function if hasattr(function, "trace") else jax.jit(function)
    try:
        jaxpr = traced.trace(*arguments).jaxpr.jaxpr
        return algorithm_of(_needed(jaxpr))
    except (UncountableError, IndexError, KeyError, RecursionError):
        trace_ignored("a jaxpr could not be counted")
    except Exception:
        trace_ignored("a function could not be traced")
    return None


def _needed(jaxpr: Any) -> Any:
    """A jaxpr without equations whose results nobody needs; XLA would not run them either."""
    partial_eval = import_module("jax.interpreters.partial_eval")
    remove = getattr(partial_eval, "dce_jaxpr", None)
    if remove is None:
        return jaxpr
    return remove(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)[0]


# Arrays and words.


def _random(case: Case) -> Callable[..., Any]:
    """Normal numbers in the case's format."""
    jnp = import_module("jax.numpy")
    source = np.random.default_rng(1234)
    return lambda *shape: jnp.asarray(source.standard_normal(shape), DTYPES[case.precision])


_HOW = {
    EAGER: "one call of JAX per op, a recurrent layer as a Python loop over its cell",
    COMPILED: "one program by jax.jit, a recurrent layer by lax.scan",
}


def contains(case: Case) -> str:
    """What the timed part of a case contains."""
    return f"{find_kernel(case.kernel).passes[case.pass_name]}; {_HOW[case.variant]}"


def because(
    case: Case, executed: float | None, defined: Algorithm | None, ratio: float
) -> str | None:
    """Why JAX executes other products than the definition needs."""
    asked = None if defined is None else defined.contraction_flops
    if "time_steps" in case.params and case.pass_name != k.FORWARD and ratio < 1:
        return "the gradient of the initial state is left out"
    if asked is not None and executed == asked:
        return "the program itself asks for as many (its jaxpr)"
    if ratio < 1:
        return "products with zeros are left out"
    if defined is not None and defined.in_groups:
        return "the compiler computes the gradient of grouped weights densely and masks it"
    return "the compiler does products that the definition does not need"
