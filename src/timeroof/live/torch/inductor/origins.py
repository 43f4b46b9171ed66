"""Where a compiled kernel comes from: the program's ops, module and line, from FX nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from timeroof.live.torch.lines import libraries, shown_path
from timeroof.live.torch.recording import Described, TensorSeen

_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_ATTRIBUTE = re.compile(r"\.(\w+)|\['([^']+)'\]|\[(\d+)\]|, '([^']+)'\)")
_SKIPPED = ("_modules", "_orig_mod")


def op_name(target: Any) -> str | None:
    """``aten::add`` for ``aten.add.Tensor``; None for what is no op."""
    schema = schema_of(target)
    return str(schema.name) if schema is not None else None


def schema_of(target: Any) -> Any:
    """The schema of an op, or of the first overload where Inductor names no overload."""
    schema = getattr(target, "_schema", None)
    if schema is None and hasattr(target, "overloads"):
        schema = getattr(target, target.overloads()[0])._schema
    return schema


def fused_ops(nodes: Iterable[Any]) -> tuple[str, ...]:
    """The program's ops that are in a kernel, as the program called them, each once."""
    found: dict[str, None] = {}
    for node in nodes:
        name = op_name(node.meta.get("original_aten")) or op_name(node.target)
        if name is not None and not is_view(node.target):
            found[name] = None
    return tuple(found)


def is_view(target: Any) -> bool:
    """Whether every result is another look at an argument."""
    schema = schema_of(target)
    infos = [r.alias_info for r in schema.returns] if schema is not None else []
    return bool(infos) and all(i is not None and not i.is_write for i in infos)


def module_of_nodes(nodes: Iterable[Any]) -> str | None:
    """The innermost module that holds all of the nodes, seen from the compiled one ("")."""
    paths = [p for p in map(_module_path, nodes) if p is not None]
    if not paths:
        return None
    return ".".join(paths[0][: _shared(paths)])


def _shared(paths: list[list[str]]) -> int:
    """How many words the paths have in common at their beginning."""
    for place, words in enumerate(zip(*paths, strict=False)):
        if len(set(words)) > 1:
            return place
    return min(map(len, paths))


def _module_path(node: Any) -> list[str] | None:
    if node.op != "call_function" or is_view(node.target):
        return None
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return [] if node.meta.get("stack_trace") else None
    return path_words(str(next(reversed(stack.values()))[0]))


def path_words(text: str) -> list[str]:
    """Dynamo's name of a module as a path below the compiled one.

    >>> path_words("L['self'].layers.0._modules['fc']"), path_words("L['self']")
    (['layers', '0', 'fc'], [])
    """
    inside = re.sub(r"^L\['[^']*'\]|^[A-Za-z_]\w*", "", text)
    words = [next(w for w in match if w) for match in _ATTRIBUTE.findall(inside)]
    return [w for w in words if w not in _SKIPPED]


def line_of_nodes(nodes: Iterable[Any]) -> str | None:
    """File and line of the program that the first node came from; torch's own are not."""
    skipped = libraries()
    for node in nodes:
        found = _LINE.findall(node.meta.get("stack_trace") or "")
        lines = [(file, line) for file, line in found if not file.startswith(skipped)]
        if lines:
            return f"{shown_path(lines[-1][0])}:{lines[-1][1]}"
    return None


def described_node(node: Any) -> Described | None:
    """An FX node as a described op; None where it is no op or its shapes are not known."""
    name = op_name(node.target)
    if name is None:
        return None
    places: dict[Any, int] = {}
    arguments = [_value(a, places) for a in _by_schema(node)]
    outputs = _value(node.meta.get("val"), places)
    return Described(
        name=name, parent=None, thread=0, sequence=-1, scope=0, schema=str(schema_of(node.target)),
        inputs=tuple(arguments), outputs=outputs if isinstance(outputs, tuple) else (outputs,),
    )  # fmt: skip


def _by_schema(node: Any) -> list[Any]:
    """All arguments in the order of the schema."""
    given = list(node.args)
    for argument in schema_of(node.target).arguments[len(given) :]:
        default = argument.default_value if argument.has_default_value() else None
        given.append(node.kwargs.get(argument.name, default))
    return given


def _value(value: Any, places: dict[Any, int]) -> Any:
    import torch

    if isinstance(value, torch.fx.Node):
        found = value.meta.get("val")
        if isinstance(found, torch.Tensor):
            return _tensor(found, places.setdefault(value, len(places) + 1))
        return found
    if isinstance(value, torch.Tensor):
        return _tensor(value, places.setdefault(id(value), len(places) + 1))
    if isinstance(value, list | tuple):
        return tuple(_value(v, places) for v in value)
    return str(value) if isinstance(value, torch.dtype | torch.device) else value


def _tensor(tensor: Any, place: int) -> TensorSeen | None:
    """A fake tensor as it would be passed; None where a size is not known yet."""
    sizes, strides = [*tensor.shape], [*tensor.stride()]
    if not all(isinstance(s, int) for s in (*sizes, *strides)):
        return None
    return TensorSeen(
        tuple(sizes), str(tensor.dtype), tuple(strides), place, 0, tensor.element_size(),
        str(tensor.device),
    )  # fmt: skip
