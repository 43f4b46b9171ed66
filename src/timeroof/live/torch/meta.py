"""What torch can say of an op without running it: results on the meta device.

A fallback for ops without a formula. The overload is chosen by schema: the first whose
arguments fit. Tensors are described by anything that has `shape`, `dtype` (a neutral or
a torch name) and `strides`; nothing here knows how amounts are counted.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_TORCH_NAMES = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
}  # fmt: skip


@dataclass(frozen=True)
class MetaResult:
    """Results of an op (shape, format, strides), and what its schema says of its nature."""

    outputs: Sequence[tuple[Sequence[int], str, Sequence[int] | None]]
    pointwise: bool
    moves_nothing: bool


def derive(op: str, inputs: Sequence[object], kwargs: dict[str, object]) -> MetaResult | None:
    """Run an op on the meta device; None where torch does not know it or refuses.

    >>> derive("nothing::like_this", [], {}) is None
    True
    """
    try:
        import torch
    except ImportError:
        return None
    space, _, name = op.partition("::")
    packet = getattr(getattr(torch.ops, space, None), name.split(".", 1)[0], None) if name else None
    if packet is None:
        return None
    try:
        args = [_meta(v) for v in inputs]
        named = {k: _meta(v) for k, v in kwargs.items()}
    except (TypeError, ValueError, RuntimeError):
        return None
    for overload in packet.overloads():
        found = _attempt(getattr(packet, overload), args, named)
        if found is not None:
            return found
    return None


def _attempt(function: Any, args: list[object], kwargs: dict[str, object]) -> MetaResult | None:
    import torch

    schema = function._schema
    placed, named = args[: _positional(schema)], dict(kwargs)
    for argument, value in zip(schema.arguments[len(placed) :], args[len(placed) :], strict=False):
        named.setdefault(argument.name, value)
    if len(args) > len(schema.arguments):
        return None
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*placed, **named)
    except Exception:  # torch raises many kinds where arguments do not fit an overload
        return None
    tensors = [t for t in _flat(result) if isinstance(t, torch.Tensor)]
    return MetaResult(
        outputs=[(tuple(t.shape), str(t.dtype), tuple(t.stride())) for t in tensors],
        pointwise=torch.Tag.pointwise in function.tags,
        moves_nothing=_is_view(schema),
    )


def _positional(schema: Any) -> int:
    return sum(not a.kwarg_only for a in schema.arguments)


def _is_view(schema: Any) -> bool:
    """Whether every result is another look at an argument that is not written."""
    infos = [r.alias_info for r in schema.returns]
    return bool(infos) and all(i is not None and not i.is_write for i in infos)


def _flat(value: object) -> list[object]:
    if isinstance(value, list | tuple):
        return [w for v in value for w in _flat(v)]
    return [value]


def _meta(value: object) -> object:
    """A described tensor as one on the meta device; other values as they are."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _meta_tensor(value)
    if isinstance(value, tuple | list):
        return [_meta(v) for v in value]
    if type(value).__name__ == "Unrecorded":
        raise ValueError(f"{value} cannot be passed to torch")
    return value


def _meta_tensor(value: Any) -> torch.Tensor:
    import torch

    name = str(value.dtype).removeprefix("torch.")
    dtype = getattr(torch, _TORCH_NAMES.get(name, name))
    strides = getattr(value, "strides", None)
    if strides and len(strides) == len(value.shape):
        return torch.empty_strided(tuple(value.shape), tuple(strides), dtype=dtype, device="meta")
    return torch.empty(tuple(value.shape), dtype=dtype, device="meta")
