"""The registry of formulas: which function counts which op, under all its names.

A formula is a plain function whose parameters carry the names of the op's arguments,
in the op's order; arguments that were not passed keep their defaults. If its first
parameter is called ``call`` it gets the whole call too. A parameter of type `Tensor` (as
text: annotations come from `__future__`) gets a tensor of known format, or the call cannot be
counted; `Tensor | None` gets it where there is one.

    @formula("aten::mm", "onednn::matmul")
    def mm(a: Tensor, b: Tensor) -> Cost: ...
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from types import FunctionType

import msgspec

from timeroof.core.errors import UsageError
from timeroof.core.vocabulary import LONGEST_REMEMBERED, remembered
from timeroof.work.call import Arg, Call, optional, tensor
from timeroof.work.cost import Cost

Function = Callable[..., Cost]


# What messages call a formula's tensors; any other goes by its parameter's name.
_TENSORS = {
    "x": "the input", "grad": "the gradient", "out": "the result", "this": "the tensor",
    "a": "the first operand", "b": "the second operand",
}  # fmt: skip


class Rule(msgspec.Struct, frozen=True):
    """A formula with what is known of it; `kinds` are its parameters' types."""

    function: Function
    parameters: tuple[str, ...]
    takes_call: bool
    composite: bool
    kinds: dict[str, str] = {}
    # What the sizes of tensors are called, by parameter: see `formula`.
    sizes: dict[str, tuple[str, ...]] = {}
    # It works on what the ops that it calls have copied: a sort sorts its copy.
    itself: bool = False

    def apply(self, call: Call) -> Cost:
        """Bind the call's arguments to the formula's parameters and count."""
        given: dict[str, Arg] = dict(zip(self.parameters, call.inputs, strict=False))
        given.update((k, v) for k, v in call.kwargs if k in self.parameters)
        bound = {k: self._typed(k, v) for k, v in given.items() if k in self.kinds}
        found = self.function(call, **bound) if self.takes_call else self.function(**bound)
        return msgspec.structs.replace(found, composite=True) if self.composite else found

    def _typed(self, name: str, value: Arg) -> Arg:
        if self.kinds[name] == "Tensor":
            return tensor(value, _TENSORS.get(name, f"the {name.replace('_', ' ')}"))
        return optional(value) if self.kinds[name] == "Tensor | None" else value


_RULES: dict[str, Rule] = {}


def formula(
    *names: str, composite: bool = False, order: str = "", sizes: str = "", itself: bool = False
) -> Callable[[Function], Function]:
    """Register a function as the formula of one op under all these names.

    A composite op only calls others; see `timeroof.work.counting`. One that works `itself` does so
    even where ops that it calls move all of its bytes (a sort copies, then sorts). `order` names
    the op's arguments where they are not the function's parameters in order; `_` is of no interest.
    `sizes` names the sizes of its tensors, as the formula's text shows them ("a=M,K b=K,N");
    those that it leaves out are called after their parameter and place (x0, x1). A family whose
    formulas share names states them once, as `SIZES`.
    """

    def register(function: Function) -> Function:
        kinds = _annotations(function)
        takes_call = kinds.pop("call", None) is not None
        parameters = tuple(order.split()) or tuple(kinds)
        named = sizes or function.__globals__.get("SIZES", "")
        named_sizes = _size_names(named)
        rule = Rule(function, parameters, takes_call, composite, kinds, named_sizes, itself)
        for name in names:
            if name in _RULES:
                raise UsageError(
                    f"{name} already has a formula", advice="an op has one formula only"
                )
            _RULES[name] = rule
        _loaded_rule.cache_clear()
        return function

    return register


def _annotations(function: Function) -> dict[str, str]:
    """The annotations of a function's parameters, in order.

    `inspect.signature` takes ten times as long, and is for what is no plain function.
    """
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        import inspect

        return {n: p.annotation for n, p in inspect.signature(function).parameters.items()}
    code, stated = function.__code__, function.__annotations__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: stated.get(name, "") for name in names}


def _size_names(text: str) -> dict[str, tuple[str, ...]]:
    """Names of sizes by parameter.

    >>> _size_names("a=M,K b=K,N")
    {'a': ('M', 'K'), 'b': ('K', 'N')}
    """
    pairs = (part.split("=") for part in text.split())
    return {parameter: tuple(names.split(",")) for parameter, names in pairs}


_DOTTED = re.compile(r"^(?:torch\.ops\.)?([A-Za-z_]\w*)\.([A-Za-z_]\w*)(?:\.\w+)?$")


@remembered(65536)
def plain_name(op: str) -> str:
    """An op's name without its overload, in the way of profilers.

    >>> plain_name("aten::add.Tensor"), plain_name("torch.ops.aten.add.out"), plain_name("aten.mm")
    ('aten::add', 'aten::add', 'aten::mm')
    """
    name = op.strip()
    if "::" not in name:
        dotted = _DOTTED.match(name)
        return f"{dotted[1]}::{dotted[2]}" if dotted else name
    space, _, rest = name.partition("::")
    return f"{space}::{rest.split('.', 1)[0]}" if "<" not in rest else name


def is_in_place(op: str) -> bool:
    """Whether a name says that the first argument is overwritten.

    >>> is_in_place("aten::add_"), is_in_place("aten::__and__"), is_in_place("aten::relu")
    (True, False, False)
    """
    name = plain_name(op)
    return name.endswith("_") and not name.endswith("__")


def find_rule(op: str) -> Rule | None:
    """The formula of an op, whatever its overload; in-place ops share the plain op's."""
    load_families()
    return _loaded_rule(plain_name(op)[:LONGEST_REMEMBERED])


@lru_cache(maxsize=65536)
def _loaded_rule(name: str) -> Rule | None:
    if name in _RULES:
        return _RULES[name]
    if is_in_place(name) and name[:-1] in _RULES:
        return _RULES[name[:-1]]

    return rule_by_pattern(name)


@lru_cache(maxsize=1)
def load_families() -> None:
    """Import every family, which registers its formulas."""
    families = import_module("timeroof.work.families")
    for module in iter_modules(families.__path__):
        import_module(f"timeroof.work.families.{module.name}")


def registered() -> dict[str, Rule]:
    """All names that have a formula of their own."""
    load_families()
    return dict(_RULES)


# Ops that are recognised by the form of their name instead of by the whole of it.


Pattern = Callable[[str], Rule | None]

_PATTERNS: list[Pattern] = []


def pattern(function: Pattern) -> Pattern:
    """Register a function that may know a rule for a name."""
    _PATTERNS.append(function)
    return function


def rule_by_pattern(name: str) -> Rule | None:
    """The rule of the first pattern that knows the name."""
    return next((rule for known in _PATTERNS if (rule := known(name)) is not None), None)
