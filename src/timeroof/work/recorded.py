"""Calls from what profilers recorded. Nothing here raises: what is malformed is unrecorded.

A PyTorch trace gives an op's arguments as parallel lists: "Input Dims" (nested for lists
of tensors), "Input type", and in newer traces "Input Strides" and "Concrete Inputs"
(values as text). Older traces have no values at all, and no format inside tensor lists.
"Output Dims" and "Output type" are no words of Kineto: our reader adds them where the
gradient of the same op tells the shape of its result.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from timeroof.work.call import Arg, Call, Tensor, Unrecorded, frozen
from timeroof.work.dtypes import parse_dtype

NO_VALUE = Unrecorded("value not recorded")
NO_LIST = Unrecorded("list of tensors not recorded")
_LISTS = ("TensorList", "GenericList")


def call_from_kineto(
    name: str, args: Mapping[str, object] | None, *, list_dtype: str | None = None
) -> Call:
    """The call behind a cpu_op event of a PyTorch trace.

    `list_dtype` is the format of tensors in lists, which traces do not record, where the
    reader knows it from elsewhere (say, ``bits16`` from a kernel's name).

    >>> call_from_kineto("aten::mm", {"Input Dims": [[2, 3], [3, 4]],
    ...     "Input type": ["c10::Half", "c10::Half"]}).inputs[1]
    Tensor(shape=(3, 4), dtype='fp16', strides=None, alias_of=None)
    """
    args = args if isinstance(args, Mapping) else {}
    if "Collective name" in args:
        return _collective(name, args)
    dims, types = _list(args.get("Input Dims")), _list(args.get("Input type"))
    strides, values = _list(args.get("Input Strides")), args.get("Concrete Inputs")
    known_values = _list(values) if isinstance(values, Sequence) else None
    inputs = [
        _argument(
            dims[i] if i < len(dims) else [],
            types[i] if i < len(types) else "",
            strides[i] if i < len(strides) else None,
            _value(known_values, i),
            list_dtype,
        )
        for i in range(max(len(dims), len(types)))
    ]
    return Call(str(name), tuple(inputs), _results(args))


def _results(args: Mapping[str, object]) -> tuple[Tensor, ...] | None:
    """Results, where a reader knows their shapes; None unless all of them are whole."""
    dims, types = _list(args.get("Output Dims")), _list(args.get("Output type"))
    if not dims or len(dims) != len(types):
        return None
    found = [_argument(d, k, None, NO_VALUE, None) for d, k in zip(dims, types, strict=True)]
    whole = [t for t in found if isinstance(t, Tensor)]
    return tuple(whole) if len(whole) == len(found) else None


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _value(values: Sequence[object] | None, place: int) -> Arg:
    if values is None or place >= len(values):
        return NO_VALUE
    text = values[place]
    return value_from_text(text) if isinstance(text, str) else NO_VALUE


def _argument(
    dims: object, kind: object, strides: object, value: Arg, list_dtype: str | None
) -> Arg:
    kind = kind if isinstance(kind, str) else ""
    if kind in _LISTS or _is_nested(dims):
        return _tensor_list(_list(dims), _list(strides), list_dtype or "")
    if kind.startswith("nullptr"):
        return None
    if kind in ("", "Scalar", "ScalarList") or kind.endswith("List"):
        return value
    return _tensor(dims, parse_dtype(kind) or kind, strides)


def _is_nested(dims: object) -> bool:
    sizes = _list(dims)
    return bool(sizes) and isinstance(sizes[0], Sequence) and not isinstance(sizes[0], str)


def _tensor_list(dims: Sequence[object], strides: Sequence[object], dtype: str) -> Arg:
    if not dims:
        return NO_LIST
    return tuple(
        _tensor(d, dtype, strides[i] if i < len(strides) else None) for i, d in enumerate(dims)
    )


def _tensor(dims: object, dtype: str, strides: object) -> Tensor | Unrecorded:
    sizes = _list(dims)
    strange = [s for s in sizes if type(s) is not int]
    if strange:
        return Unrecorded(f"symbolic size {strange[0]!r}")
    if isinstance(dims, str) or (dims is not None and not isinstance(dims, Sequence)):
        return Unrecorded(f"malformed shape {dims!r}")
    steps = _list(strides)
    fits = len(steps) == len(sizes) and all(type(s) is int for s in steps)
    return Tensor(
        tuple(s for s in sizes if isinstance(s, int)),
        dtype,
        tuple(s for s in steps if isinstance(s, int)) if fits and sizes else None,
    )


_BARE_FLOAT = re.compile(r"(?<![\w.])(inf|nan)(?![\w.])")


def value_from_text(text: str) -> Arg:
    """A value of "Concrete Inputs": a number, a truth, a list of them, or a word.

    >>> [value_from_text(text) for text in ("[1, -1]", "False", "0.", "")]
    [(1, -1), False, 0.0, None]
    """
    text = text.strip()
    if not text or text == "None":
        return None
    try:
        return frozen(ast.literal_eval(_BARE_FLOAT.sub(r"1e999", text)))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text


def _collective(name: str, args: Mapping[str, object]) -> Call:
    dtype = parse_dtype(str(args.get("dtype", ""))) or str(args.get("dtype", ""))
    sizes = [args.get("In msg nelems"), args.get("Out msg nelems")]
    ends = [
        Tensor((s,), dtype) if isinstance(s, int) else Unrecorded("message size not recorded")
        for s in sizes
    ]
    what = re.sub(r"[^a-z]", "", str(args.get("Collective name")).lower()) or name
    return Call.of(f"collective::{what}", *ends, group_size=args.get("Group size"))


_XLA_SHAPE = re.compile(r"\b([a-z]+\d*\w*)\[([\d,\s]*)\](?:\{([\d,]*)[^}]*\})?")


def tensors_from_text(text: str) -> tuple[Tensor, ...]:
    """The tensors in XLA's or JAX's notation, such as ``(f32[8,128]{1,0}, s32[])``.

    >>> tensors_from_text("bf16[8,128]{1,0}")[0].shape, len(tensors_from_text("(f32[2], s32[])"))
    ((8, 128), 2)
    """
    found = []
    for kind, sizes, _ in _XLA_SHAPE.findall(text):
        dtype = parse_dtype(kind)
        if dtype is not None:
            found.append(Tensor(tuple(int(s) for s in sizes.split(",") if s.strip()), dtype))
    return tuple(found)
