"""Numbers that remember how they came about, so that a formula's text and value are one.

A formula is a plain Python function of sizes. Given plain integers it gives a number; given
integers from `size` it gives the same number, and `written` tells the expression that it ran
through. Nothing is written twice.

>>> m, n, k = size("M", 512), size("N", 4864), size("K", 896)
>>> flops = 2 * m * n * k
>>> int(flops), written(flops).text
(4462739456, '2·M·N·K')
>>> written(flops).sizes
{'M': 512, 'N': 4864, 'K': 896}

Where a function leaves the trace (``int()``, ``len()``, a branch), the number goes on as a
constant: the text stays true, it only says less.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar

Number = int | float

# Longer texts, and sums of more terms, are told by the values of their parts.
MAX_TEXT = 240
MAX_TERMS = 12
# How tightly a text holds together: a sum, a product, a name.
_SUM, _PRODUCT, _NAME = range(3)


class Node(NamedTuple):
    """An operation and what it was applied to; a name or a constant has nothing below it."""

    kind: str
    parts: tuple[Node, ...] = ()
    value: Number = 0
    name: str = ""


Binary = Callable[[Number, Number], Number]


class Written(NamedTuple):
    """A formula as text, and the sizes in it by name."""

    text: str
    sizes: dict[str, Number]


class TracedInt(int):
    """A whole number with the expression that it came from."""

    node: Node

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        """Copies and pickles are plain numbers."""
        return int, (int(self),)


class TracedFloat(float):
    """A number with the expression that it came from."""

    node: Node

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        """Copies and pickles are plain numbers."""
        return float, (float(self),)


Traced = TypeVar("Traced", TracedInt, TracedFloat)


def size(name: str, value: int) -> int:
    """A size under a name."""
    return _noted(TracedInt(value), Node("name", value=value, name=name))


def times(name: str, value: float) -> float:
    """A number that need not be whole under a name: how often something ran."""
    return _traced(value, Node("name", value=value, name=name))


def called(name: str, value: int) -> int:
    """A number that follows from sizes under a name of its own; a plain one stays as it is.

    >>> windows = called("P", size("H", 56) + 2 - 2)
    >>> written(3 * windows), called("P", 56)
    (Written(text='3·P', sizes={'P': 56}), 56)
    """
    return size(name, int(value)) if is_traced(value) else value


def is_traced(value: object) -> bool:
    """Whether a number knows its expression."""
    return isinstance(value, TracedInt | TracedFloat)


def real(value: Number) -> float:
    """A number as a float; one that knows its expression keeps it.

    >>> real(3), real(size("n", 3)) * 2 == 6.0
    (3.0, True)
    """
    # Of a float and a traced integer Python makes a plain float; two floats ask the traced one.
    if isinstance(value, TracedInt | TracedFloat):
        return _noted(TracedFloat(value), value.node)
    return float(value)


def _traced(value: Number, node: Node) -> Number:
    if isinstance(value, float):
        return _noted(TracedFloat(value), node)
    return _noted(TracedInt(value), node)


def _noted(found: Traced, node: Node) -> Traced:
    found.node = node
    return found


def _node(value: Number) -> Node:
    if isinstance(value, TracedInt | TracedFloat):
        return value.node
    return Node("constant", value=int(value) if isinstance(value, bool) else value)


def _operation(kind: str, run: Binary, *, swapped: bool = False) -> Callable[..., object]:
    def apply(self: Number, other: object) -> object:
        if not isinstance(other, int | float):
            return NotImplemented
        first, second = (other, self) if swapped else (self, other)
        value = run(_plain(first), _plain(second))
        return _traced(value, _joined(kind, _node(first), _node(second), value))

    return apply


def _plain(value: Number) -> Number:
    return float(value) if isinstance(value, float) else int(value)


def _joined(kind: str, first: Node, second: Node, value: Number) -> Node:
    """Sums and products as flat lists, without terms of 0 and factors of 1."""
    if kind == "-" and first == second:
        return Node("constant", value=0)
    if kind in ("+", "*"):
        neutral = 0 if kind == "+" else 1
        parts = [
            part
            for node in (first, second)
            for part in (node.parts if node.kind == kind else (node,))
            if not (part.kind == "constant" and part.value == neutral)
        ]
        if kind == "*":
            parts = _constant_first(parts)
        if len(parts) < 2:
            return parts[0] if parts else Node("constant", value=value)
        return Node(kind, tuple(parts), value)
    if second.kind == "constant" and second.value == 1 and kind in ("//", "/"):
        return first
    if kind == "-" and second.kind == "constant" and second.value == 0:
        return first
    return Node(kind, (first, second), value)


def _constant_first(parts: list[Node]) -> list[Node]:
    constants = [p for p in parts if p.kind == "constant"]
    if not constants:
        return parts
    if any(part.value == 0 for part in constants):
        return [Node("constant", value=0)]
    product: Number = 1
    for part in constants:
        product *= part.value
    rest = [p for p in parts if p.kind != "constant"]
    return rest if product == 1 else [Node("constant", value=product), *rest]


_OPERATORS: Mapping[str, tuple[str, Binary]] = {
    "add": ("+", operator.add), "sub": ("-", operator.sub), "mul": ("*", operator.mul),
    "truediv": ("/", operator.truediv), "floordiv": ("//", operator.floordiv),
    "mod": ("%", operator.mod),
}  # fmt: skip
for _kind in (TracedInt, TracedFloat):
    for _name, (_sign, _run) in _OPERATORS.items():
        setattr(_kind, f"__{_name}__", _operation(_sign, _run))
        setattr(_kind, f"__r{_name}__", _operation(_sign, _run, swapped=True))
    setattr(_kind, "__neg__", lambda self: self * -1)  # noqa: B010


def written(value: Number) -> Written:
    """The expression of a number, and the sizes in it.

    >>> n = size("n", 7)
    >>> written(-(-n * 4 // 8))
    Written(text='ceil(4·n / 8)', sizes={'n': 7})
    >>> written(12.5)
    Written(text='12.5', sizes={})
    """
    writer = _Writer()
    text, _ = writer.text(_node(value))
    if len(text) > MAX_TEXT:
        # What is too long to read stands as the values of its terms.
        writer = _Writer(short=True)
        text, _ = writer.text(_node(value))
    return Written(text, writer.sizes)


class _Writer:
    """Writes an expression, and collects its sizes."""

    def __init__(self, *, short: bool = False) -> None:
        self.sizes: dict[str, Number] = {}
        self.short = short

    def text(self, node: Node, depth: int = 0) -> tuple[str, int]:
        """The text of an expression, and how tightly it holds together."""
        if not node.parts:
            return self._leaf(node)
        if (self.short and depth >= 2) or len(node.parts) > MAX_TERMS or depth > 8:
            return self._as_part(node)
        if (rounded := _rounded_up(node)) is not None:
            over, under = (self.text(part, depth + 1) for part in rounded)
            return f"ceil({_held(over, _PRODUCT)} / {_held(under, _NAME)})", _NAME
        if node.kind == "+":
            return self._sum(node, depth), _SUM
        if node.kind == "*":
            parts = [_held(self.text(p, depth + 1), _PRODUCT) for p in node.parts]
            return "·".join(parts), _PRODUCT
        return self._division(node, depth)

    def _leaf(self, node: Node) -> tuple[str, int]:
        if node.kind == "name":
            self.sizes[node.name] = node.value
            return node.name, _NAME
        return _digits(node.value), _PRODUCT if node.value < 0 else _NAME

    def _sum(self, node: Node, depth: int) -> str:
        found = ""
        for part in node.parts:
            text = _held(self.text(part, depth + 1), _SUM)
            minus = text.startswith("-")
            sign = " - " if minus else " + "
            found += (sign if found else "-" if minus else "") + text.removeprefix("-")
        return found

    def _division(self, node: Node, depth: int) -> tuple[str, int]:
        first, second = (self.text(part, depth + 1) for part in node.parts)
        if node.kind == "-":
            return f"{_held(first, _SUM)} - {_held(second, _PRODUCT)}", _SUM
        over, under = _held(first, _PRODUCT), _held(second, _NAME)
        if node.kind == "//":
            return f"floor({over} / {under})", _NAME
        sign = "/" if node.kind == "/" else "mod"
        # Only a whole division may stand inside a product without brackets.
        return (f"({over} {sign} {under})", _NAME)

    def _as_part(self, node: Node) -> tuple[str, int]:
        """A part that is too long, under a name of its own."""
        place = 1 + sum(name.startswith("part") for name in self.sizes)
        known = [n for n, v in self.sizes.items() if n.startswith("part") and v == node.value]
        name = known[0] if known else f"part{place}"
        self.sizes[name] = node.value
        return name, _NAME


def _rounded_up(node: Node) -> tuple[Node, Node] | None:
    """What a division that rounds up divides: Python writes it as -(-a // b)."""
    if node.kind != "*" or len(node.parts) != 2 or node.parts[0].value != -1:
        return None
    inner = node.parts[1]
    if node.parts[0].kind != "constant" or inner.kind != "//":
        return None
    over, under = inner.parts
    if over.kind != "*" or over.parts[0].kind != "constant" or over.parts[0].value >= 0:
        return None
    constant = Node("constant", value=-over.parts[0].value)
    parts = tuple(_constant_first([constant, *over.parts[1:]]))
    return (Node("*", parts, -over.value) if len(parts) > 1 else parts[0]), under


def _held(text: tuple[str, int], tightness: int) -> str:
    return text[0] if text[1] >= tightness else f"({text[0]})"


def _digits(value: Number) -> str:
    """All digits of a number, without an exponent that a reader would have to undo."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return repr(value)


# Reading a formula back: what a reader with a calculator would do.


def evaluated(text: str, sizes: Mapping[str, Number]) -> float:
    """The value of a formula as `written` writes it.

    >>> evaluated("2·M·N + ceil(M / 8)", {"M": 9, "N": 10})
    182.0
    """
    return float(_value(_parsed(text), sizes))


def expression(text: str, sizes: Mapping[str, Number]) -> Number:
    """A formula as `written` writes it, as a number that knows it.

    >>> written(expression("2·M·N", {"M": 9, "N": 10}))
    Written(text='2·M·N', sizes={'M': 9, 'N': 10})
    """
    named = {name: times(name, value) for name, value in sizes.items()}
    return _value(_parsed(text), named)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr:
    """A formula's expression: rows of one op share its text, and differ in their sizes."""
    return ast.parse(_plain_text(text), mode="eval").body


def _plain_text(text: str) -> str:
    return text.replace("·", "*").replace("×", "*").replace(" mod ", " % ").replace("\u2009", "")


_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "floor": lambda a, b: a // b, "ceil": lambda a, b: -(-a // b), "max": max, "min": min,
}  # fmt: skip
_BINARY: dict[type[ast.operator], Binary] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Mod: operator.mod,
}  # fmt: skip


def _value(node: ast.expr, sizes: Mapping[str, Number]) -> Number:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, sizes)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, sizes), _value(node.right, sizes))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _called(node.func.id, node.args, sizes)
    raise ValueError(f"{ast.dump(node)} is no part of a formula")


def _called(name: str, args: list[ast.expr], sizes: Mapping[str, Number]) -> Number:
    """Rounding divides whole numbers exactly, as the formula did."""
    rounds = name in ("floor", "ceil") and len(args) == 1
    if rounds and isinstance(args[0], ast.BinOp) and isinstance(args[0].op, ast.Div):
        return _FUNCTIONS[name](_value(args[0].left, sizes), _value(args[0].right, sizes))
    return _FUNCTIONS[name](*(_value(a, sizes) for a in args), *((1,) if rounds else ()))
