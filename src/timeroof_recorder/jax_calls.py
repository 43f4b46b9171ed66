"""Calls of compiled functions, as the program makes them, and the products that they define.

A compiled function of JAX is an object of C++ that tells nobody of its calls. What `jax.jit`
returns is therefore a proxy, which costs half a microsecond per call. Functions that JAX's own
modules have compiled (`jax.numpy`) are left as they are.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from types import MethodType
from typing import TYPE_CHECKING, Any, SupportsIndex

from timeroof_recorder.process import Ignoring

if TYPE_CHECKING:
    from types import ModuleType


Function = Callable[..., object]
_UNSEEN = Ignoring("a call was not seen")
# What is copied from a function to what stands for it.
_KEPT = (
    "__module__", "__name__", "__qualname__", "__doc__", "__wrapped__", "__annotations__",
    "__signature__",
)  # fmt: skip
# Makers of compiled functions, and of functions that train.
_COMPILE, _TRAIN = ("jit", "pmap"), ("grad", "value_and_grad")


class Watch:
    """Who wants to know of calls; nobody, until somebody does."""

    def __init__(self, is_clean: Callable[[], bool]) -> None:
        self.is_clean = is_clean
        self.is_on = False
        self.called: Callable[[Proxy, tuple[object, ...]], None] = lambda proxy, args: None
        self.returned: Callable[[object], None] = lambda result: None
        # The function whose call is under way: what is traced meanwhile is a part of it.
        self.running: Proxy | None = None


class Proxy:
    """Stands for a compiled function; everything but its calls is the function's own."""

    __slots__ = (
        "__dict__", "__weakref__", "_function", "_key", "_watch", "calls", "every", "is_compiled",
        "trains",
    )  # fmt: skip

    def __init__(self, function: Function, watch: Watch, *, differentiates: bool = False) -> None:
        self._function, self._watch = function, watch
        # Whether it computes a gradient or an update, and whether it is compiled as a whole.
        self.trains, self.is_compiled = differentiates, not differentiates
        self._key: int | None = None
        # Calls until now, and how many of them make one update of parameters.
        self.calls, self.every = 0, 1
        for name in _KEPT:
            value = getattr(function, name, None)
            if value is not None:
                setattr(self, name, value)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function, and tell of it where it computes now."""
        watch = self._watch
        if not watch.is_on or not watch.is_clean():
            return self._function(*args, **kwargs)
        with _UNSEEN:
            watch.called(self, args or tuple(kwargs.values()))
        before, watch.running = watch.running, self
        try:
            result = self._function(*args, **kwargs)
        finally:
            watch.running = before
        watch.returned(result)
        return result

    @property
    def lines(self) -> object:
        """The code that it was made from; None where nobody knows."""
        return getattr(self.__dict__.get("__wrapped__"), "__code__", None)

    @property
    def key(self) -> int:
        """The same for functions that are made anew from the same lines in every step."""
        if self._key is None:
            code, own = self.lines, self.__dict__
            names = own.get("__qualname__"), own.get("__name__")
            self._key = id(self) if code is None else hash((id(code), *names))
        return self._key

    def __getattr__(self, name: str) -> object:
        return getattr(object.__getattribute__(self, "_function"), name)

    def __dir__(self) -> list[str]:
        return dir(self._function)

    def __get__(self, instance: object, kind: object = None) -> object:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return repr(self._function)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._function)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[object, ...]:
        """A copy or a pickle is of the function alone: it is read where nobody watches."""
        return self._function.__reduce_ex__(protocol)

    # JAX asks for these by name when it looks whether something is a compiled function.

    @property
    def lower(self) -> object:
        """As the function has it."""
        return self._function.lower  # type: ignore[attr-defined]

    @property
    def trace(self) -> object:
        """As the function has it."""
        return self._function.trace  # type: ignore[attr-defined]

    @property
    def eval_shape(self) -> object:
        """As the function has it."""
        return self._function.eval_shape  # type: ignore[attr-defined]

    @property
    def clear_cache(self) -> object:
        """As the function has it."""
        return self._function.clear_cache  # type: ignore[attr-defined]


def watch_functions(jax: ModuleType, watch: Watch) -> Callable[[], None]:
    """Have what compiles and differentiates tell of calls; returns a way back."""
    backs = [_replace(jax, name, _compiling(getattr(jax, name), watch)) for name in _COMPILE]
    backs += [_replace(jax, name, _training(getattr(jax, name), watch)) for name in _TRAIN]

    def back() -> None:
        watch.is_on = False
        for each in backs:
            each()

    return back


def _replace(owner: ModuleType, name: str, made: Function) -> Callable[[], None]:
    original = getattr(owner, name)
    setattr(owner, name, made)

    def back() -> None:
        if getattr(owner, name) is made:
            setattr(owner, name, original)

    return back


def _compiling(original: Function, watch: Watch) -> Function:
    """`jax.jit` whose functions tell of their calls; with settings alone it is a decorator."""

    @functools.wraps(original)
    def made(*args: object, **kwargs: object) -> object:
        found = original(*args, **kwargs)
        if not callable(found):
            return found
        if args and callable(args[0]):
            return Proxy(found, watch)
        return lambda function: Proxy(found(function), watch)

    return made


def _training(original: Function, watch: Watch) -> Function:
    """`jax.grad` whose functions tell of their calls, and that whoever traces them trains."""

    @functools.wraps(original)
    def made(*args: object, **kwargs: object) -> object:
        proxy = Proxy(original(*args, **kwargs), watch, differentiates=True)  # type: ignore[arg-type]

        @functools.wraps(proxy._function)
        def differentiated(*args: object, **kwargs: object) -> object:
            if watch.running is not None:
                watch.running.trains = True
            return proxy(*args, **kwargs)

        return differentiated

    return made


# The products that compiled functions are defined to do: their jaxprs as plain data, when XLA gets
# them. Only products are kept, and what runs them: loops, conditions, functions inside functions.


# Functions of a program that are kept, and equations of one that are looked at.
_MOST_FUNCTIONS, _MOST_EQUATIONS = 200, 100_000
_MOST_NESTED = 100
_PRODUCTS = frozenset({
    "dot_general", "conv_general_dilated", "ragged_dot", "ragged_dot_general", "symmetric_product",
    "cholesky", "lu", "geqrf", "qr", "householder_product", "triangular_solve",
})  # fmt: skip
_CALLED = ("jaxpr", "call_jaxpr", "fun_jaxpr", "body_jaxpr", "cond_jaxpr", "branches")
# What tells the size of a product, and how often something runs.
_NUMBERS = (
    "dimension_numbers", "window_strides", "padding", "lhs_dilation", "rhs_dilation",
    "feature_group_count", "batch_group_count", "length", "global_axis_size", "axis_size",
)  # fmt: skip
# An equation: primitive, inputs and outputs as (sizes, format), numbers, jaxprs inside by place.
Equation = tuple[str, list[Any], list[Any], dict[str, Any], dict[str, list[int]]]


class Defined:
    """The functions that were lowered since the last time that they were taken."""

    def __init__(self) -> None:
        self._new: list[tuple[str, list[Any], list[list[Equation]]]] = []
        self._count = 0
        # Names of programs that are one op each, called by itself, and of all others.
        self._eager: set[str] = set()
        self._others: set[str] = set()

    @property
    def eager(self) -> list[str]:
        """Programs of single ops that run one by one."""
        return sorted(self._eager - self._others)

    def lowered(self, name: str, jaxpr: Any, *, is_whole: bool) -> None:
        """XLA is about to get a function; its unused parts are gone already. `is_whole`: it is what
        the program compiles, or a part of that."""
        of = self._others if is_whole or not _is_own(jaxpr) else self._eager
        if len(of) < _MOST_FUNCTIONS:
            of.add(_sanitized(name))
        if self._count >= _MOST_FUNCTIONS:
            return
        with Ignoring("the products of a function were not looked at"):
            plain = _Plain()
            if plain.of(jaxpr, 0) is not None:
                self._count += 1
                sizes = [_array(value) for value in jaxpr.invars]
                self._new.append((_sanitized(name), sizes, plain.found))

    def take(self) -> list[tuple[str, list[Any], list[list[Equation]]]]:
        """Functions that nobody has taken yet: name, arguments, and jaxprs, the outermost last."""
        found, self._new = self._new, []
        return found


def _is_own(jaxpr: Any) -> bool:
    """Whether a function is JAX's own: a primitive, or one of `jax.numpy`."""
    told = str(getattr(getattr(jaxpr, "debug_info", None), "func_src_info", ""))
    return "/jax/_src/" in told


class _Plain:
    """Jaxprs as lists, each once; those without a product are left out."""

    def __init__(self) -> None:
        self.found: list[list[Equation]] = []
        # With the jaxpr itself, so that no other gets its number.
        self._known: dict[int, tuple[Any, int | None]] = {}
        self._seen = 0

    def of(self, jaxpr: Any, depth: int) -> int | None:
        """Its place; None without a product."""
        if id(jaxpr) not in self._known:
            self._seen += len(jaxpr.eqns)
            if depth > _MOST_NESTED or self._seen > _MOST_EQUATIONS:
                raise ValueError("too large to be looked at")
            kept = [one for e in jaxpr.eqns if (one := self._equation(e, depth)) is not None]
            place = len(self.found) if kept else None
            if kept:
                self.found.append(kept)
            self._known[id(jaxpr)] = jaxpr, place
        return self._known[id(jaxpr)][1]

    def _equation(self, equation: Any, depth: int) -> Equation | None:
        name, params = str(equation.primitive.name), equation.params
        inner = {
            key: [n for one in _jaxprs(params[key]) if (n := self.of(one, depth + 1)) is not None]
            for key in _CALLED
            if key in params
        }
        if name not in _PRODUCTS and not any(inner.values()):
            return None
        numbers = {key: _plain(params[key]) for key in _NUMBERS if key in params}
        if "mesh" in params:
            numbers["mesh"] = int(getattr(params["mesh"], "size", 1))
        if "grid_mapping" in params:
            numbers["grid"] = _plain(getattr(params["grid_mapping"], "grid", ()))
        values = [[_array(v) for v in of] for of in (equation.invars, equation.outvars)]
        if name not in _PRODUCTS:
            values = [[], []]
        return name, values[0], values[1], numbers, {k: v for k, v in inner.items() if v}


def _sanitized(name: str) -> str:
    """As XLA calls the module.

    >>> _sanitized("jit(train_step)"), _sanitized("jit(<lambda>)")
    ('jit_train_step', 'jit__lambda')
    """
    return re.sub(r"[^\w.-]", "_", name).rstrip("_")


def _jaxprs(value: Any) -> Iterator[Any]:
    for one in value if isinstance(value, (tuple, list)) else (value,):
        found = getattr(one, "jaxpr", one)
        if hasattr(found, "eqns"):
            yield found


def _array(value: Any) -> tuple[list[int], str]:
    aval = getattr(value, "aval", value)
    return [int(n) for n in getattr(aval, "shape", ())], str(getattr(aval, "dtype", ""))


def _plain(value: Any) -> Any:
    """Numbers and lists of them; anything else as its text."""
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    if isinstance(value, bool) or value is None:
        return value
    return int(value) if hasattr(value, "__index__") else str(value)
