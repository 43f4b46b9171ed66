"""Which kernels are collectives, and what was recorded of their messages."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from timeroof.read.events import COLLECTIVE
from timeroof.read.torch.json_stream import DECODE_ERRORS

# What an op was called with: the recorded text, and a shape and a dtype to read.


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


_KERNEL = re.compile(COLLECTIVE)
# The share of a message that every one of n ranks sends at least (nccl-tests' bus bandwidth).
_TWICE, _REST = "allreduce", ("allgather", "reducescatter", "alltoall")

_BYTES = {
    "double": 8,
    "float": 4,
    "half": 2,
    "bfloat16": 2,
    "long": 8,
    "int": 4,
    "short": 2,
    "char": 1,
    "byte": 1,
    "bool": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}


class Message(NamedTuple):
    """What a collective moves: its kind, bytes of the larger side, ranks, and what each sends."""

    kind: str
    message_bytes: float | None
    group_size: int | None
    group: str | None
    dtype: str | None
    link_bytes: float | None


def is_collective(kernel: str) -> bool:
    """Whether a kernel communicates, by its name.

    >>> is_collective("ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)"), is_collective("sgemm")
    (True, False)
    """
    return bool(_KERNEL.search(kernel))


def message(recorded: tuple[Any, ...]) -> Message:
    """The message of a collective from what the trace says of it.

    >>> message(("allreduce", 10, 10, "Float", 4, "0", "[0, 1, 2, 3]")).link_bytes
    60.0
    """
    name, sent, received, dtype, ranks, group, listed = recorded
    kind = re.sub(r"[^a-z]", "", str(name).lower())
    size = _BYTES.get(str(dtype).lower().removeprefix("c10::"))
    elements = [n for n in (sent, received) if isinstance(n, int | float) and n >= 0]
    total = float(max(elements) * size) if elements and size else None
    count = ranks if isinstance(ranks, int) and ranks > 0 else None
    share = _share(kind, count)
    return Message(
        kind,
        total,
        count,
        " ".join(str(v) for v in (group, listed) if v not in (None, "")) or None,
        DTYPES.get(_spelled(dtype)),
        None if total is None or share is None else total * share,
    )


def _spelled(dtype: object) -> str:
    text = str(dtype)
    return text if text in DTYPES else text.lower()


def _share(kind: str, ranks: int | None) -> float | None:
    if ranks is None:
        return None
    rest = (ranks - 1) / ranks
    if _TWICE in kind:
        return 2 * rest
    return rest if any(k in kind for k in _REST) else float(ranks > 1)
