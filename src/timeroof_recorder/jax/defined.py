"""The products that compiled functions are defined to do: their jaxprs as plain data, when XLA gets
them. Only products are kept, and what runs them: loops, conditions, functions inside functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from timeroof_recorder.process import Ignoring

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

    def lowered(self, name: str, jaxpr: Any) -> None:
        """XLA is about to get a function; its unused parts are gone already."""
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
