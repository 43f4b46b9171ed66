"""What torch can say of an op without running it: a fallback for ops without a formula.

The overload is chosen by schema: the first whose arguments fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeroof.core.errors import trace_ignored
from timeroof.live import recording
from timeroof.live.calls import Counted, count_calls
from timeroof.live.recording import CompiledKernel, Described
from timeroof.work import Tensor
from timeroof.work.call import Unrecorded
from timeroof_recorder.torch.beside import is_view
from timeroof_recorder.torch.names import ENGINE, is_glue

if TYPE_CHECKING:
    import torch


def count_ops(ops: Sequence[Described], compiled: Sequence[CompiledKernel] = ()) -> list[Counted]:
    """Every op's own cost, by formula or from what torch says of it."""
    return count_calls(ops, compiled, derive, _surrounds)


def _surrounds(op: Described) -> bool:
    return op.name.startswith(ENGINE) or is_glue(op.name, op.sequence)


_TORCH_NAMES = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
}  # fmt: skip


@dataclass
class MetaResult:
    """Results of an op (shape, format, strides), and what its schema says of its nature."""

    outputs: Sequence[tuple[Sequence[int], str, Sequence[int] | None]]
    pointwise: bool
    moves_nothing: bool
    # It calls other ops and has no kernel of its own.
    composite: bool = False


def derive(op: str, inputs: Sequence[object], kwargs: dict[str, object]) -> MetaResult | None:
    """Run an op on the meta device; None where torch does not know it or refuses."""
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
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    if overloads and all(_only_calls(function) for function in overloads):
        return MetaResult([], pointwise=False, moves_nothing=False, composite=True)
    return None


def _only_calls(function: torch._ops.OpOverload) -> bool:
    """Whether torch has this op only as a function of other ops, on every device."""
    import torch

    schema = function._schema
    name = ".".join(filter(None, (schema.name, schema.overload_name)))
    key = "CompositeImplicitAutograd"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def _attempt(
    function: torch._ops.OpOverload, args: list[object], kwargs: dict[str, object]
) -> MetaResult | None:
    import torch

    schema = function._schema
    placed, named = args[: sum(not a.kwarg_only for a in schema.arguments)], dict(kwargs)
    for argument, value in zip(schema.arguments[len(placed) :], args[len(placed) :], strict=False):
        named.setdefault(argument.name, value)
    if len(args) > len(schema.arguments):
        return None
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*placed, **named)
    except Exception:  # torch raises many kinds where arguments do not fit an overload
        trace_ignored(f"{function} does not take these arguments")
        return None
    results = recording.leaves(tuple(result) if isinstance(result, list) else result)
    tensors = [t for t in results if isinstance(t, torch.Tensor)]
    outputs = [(tuple(t.shape), str(t.dtype), tuple(t.stride())) for t in tensors]
    is_pointwise = torch.Tag.pointwise in function.tags
    return MetaResult(outputs, is_pointwise, is_view(schema), _only_calls(function))


def _meta(value: object) -> object:
    if isinstance(value, Tensor):
        return _meta_tensor(value)
    if isinstance(value, tuple | list):
        return [_meta(v) for v in value]
    if isinstance(value, Unrecorded):
        raise ValueError(f"{value} cannot be passed to torch")
    return value


def _meta_tensor(value: Tensor) -> torch.Tensor:
    import torch

    name = value.dtype.removeprefix("torch.")
    dtype = getattr(torch, _TORCH_NAMES.get(name, name))
    if value.strides and len(value.strides) == len(value.shape):
        return torch.empty_strided(value.shape, value.strides, dtype=dtype, device="meta")
    return torch.empty(value.shape, dtype=dtype, device="meta")
