"""Calls of compiled functions, as the program makes them: `jax.jit` and its like return proxies.

A compiled function of JAX is an object of C++ that tells nobody of its calls. What `jax.jit`
returns is therefore a proxy, which costs half a microsecond per call. Functions that JAX's own
modules have compiled (`jax.numpy`) are left as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, SupportsIndex

from timeroof_recorder.process import Ignoring

if TYPE_CHECKING:
    from types import ModuleType

Function = Callable[..., object]
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
        "__dict__", "__weakref__", "_function", "_key", "_watch", "calls", "every", "trains",
    )  # fmt: skip

    def __init__(self, function: Function, watch: Watch, *, trains: bool = False) -> None:
        self._function, self._watch, self.trains = function, watch, trains
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
        with Ignoring("a call was not seen"):
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
        proxy = Proxy(original(*args, **kwargs), watch, trains=True)  # type: ignore[arg-type]

        @functools.wraps(proxy._function)
        def differentiated(*args: object, **kwargs: object) -> object:
            if watch.running is not None:
                watch.running.trains = True
            return proxy(*args, **kwargs)

        return differentiated

    return made
