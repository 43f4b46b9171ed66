"""What a function in JAX is defined to compute: its jaxpr, without what nobody needs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from timeroof.core.errors import trace_ignored
from timeroof.work.call import UncountableError
from timeroof.work.jaxpr import Algorithm, algorithm_of


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
