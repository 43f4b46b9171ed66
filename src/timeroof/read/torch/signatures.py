"""What an op was called with: the recorded text, and a shape and a dtype to read."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from timeroof.read.torch.repairing import DECODE_ERRORS

# PyTorch's names of types to ours, those of `core.resources.PRECISIONS` and their neighbours.
DTYPES = {
    "double": "fp64",
    "float": "fp32",
    "c10::Half": "fp16",
    "Half": "fp16",
    "c10::BFloat16": "bf16",
    "BFloat16": "bf16",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::Float8_e5m2fnuz": "fp8",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short int": "int16",
    "short": "int16",
    "signed char": "int8",
    "char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
}
_FLOATING = ("fp", "bf", "complex")
_MAX_SHOWN = 8


class Signature(NamedTuple):
    """The arguments of a call as JSON text, as recorded; and how to show them."""

    dims: str | None = None
    types: str | None = None
    strides: str | None = None
    values: str | None = None
    result_dims: str | None = None
    result_types: str | None = None
    shape: str | None = None
    dtype: str | None = None


def signature(recorded: tuple[bytes, ...]) -> Signature:
    """The signature that the raw texts of dims, types, strides and values say.

    Texts of the result's shape and type may follow, where somebody knows them.

    >>> signature((b"[[2, 3], [3, 4], []]", b'["float", "float", "Scalar"]', b"", b""))[6:]
    ('2x3, 3x4', 'fp32')
    """
    texts: list[str | None] = [t.decode("utf-8", "replace") or None for t in recorded]
    texts += [None] * (6 - len(texts))
    dims, types, strides, values, result_dims, result_types = texts[:6]
    shown = _shown(dims, types)
    return Signature(dims, types, strides, values, result_dims, result_types, *shown)


def _shown(dims: str | None, types: str | None) -> tuple[str | None, str | None]:
    sizes, kinds = _list(dims), _list(types)
    tensors = [_tensor(s) for s in sizes if isinstance(s, list) and s]
    more = f", … {len(tensors) - _MAX_SHOWN} more" if len(tensors) > _MAX_SHOWN else ""
    shape = ", ".join(tensors[:_MAX_SHOWN]) + more
    known = [DTYPES[k] for k in kinds if isinstance(k, str) and k in DTYPES]
    floating = [k for k in known if k.startswith(_FLOATING)]
    return shape or None, next(iter(floating or known), None)


def _tensor(sizes: list[Any]) -> str:
    if all(isinstance(s, list) for s in sizes):
        shown = ", ".join(_tensor(s) for s in sizes[:_MAX_SHOWN] if s)
        return f"[{shown}{', …' if len(sizes) > _MAX_SHOWN else ''}]"
    return "x".join(str(s) for s in sizes)


def _list(text: str | None) -> list[Any]:
    try:
        found = msgspec.json.decode(text or "[]")
    except DECODE_ERRORS:
        return []
    return found if isinstance(found, list) else []
