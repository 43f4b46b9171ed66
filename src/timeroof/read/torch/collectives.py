"""Which kernels are collectives, and what was recorded of their messages."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from timeroof.core.shapes import Shape, tensor_shape
from timeroof.read.events import BESIDE_COLLECTIVE, COLLECTIVE
from timeroof.read.torch.json_stream import DECODE_ERRORS
from timeroof.work.call import FORMATS, parse_dtype
from timeroof.work.recorded import KINETO_ARGUMENTS

_FLOATING = ("fp", "bf", "complex")


class Signature(NamedTuple):
    """What an op was called with: as recorded, as values, and how to show it."""

    texts: tuple[str | None, ...]
    arguments: dict[str, object]
    shape: Shape | None
    dtype: str | None


def signature(recorded: tuple[bytes, ...]) -> Signature:
    """The signature that the raw texts of dims, types, strides and values say.

    Texts of the result's shape and type may follow, where somebody knows them.

    >>> signature((b"[[2, 3], [3, 4], []]", b'["float", "float", "Scalar"]', b"", b""))[2:]
    (((2, 3), (3, 4)), 'fp32')
    """
    texts = [t.decode("utf-8", "replace") or None for t in recorded]
    arguments = {k: decoded(t) for k, t in zip(KINETO_ARGUMENTS, texts, strict=False) if t}
    sizes, kinds = (_list(arguments.get(key)) for key in KINETO_ARGUMENTS[:2])
    shape = tensor_shape(sizes)
    known = [d for k in kinds if isinstance(k, str) and (d := parse_dtype(k))]
    floating = [k for k in known if k.startswith(_FLOATING)]
    dtype = next(iter(floating or known), None)
    return Signature((*texts, *[None] * (6 - len(texts))), arguments, shape, dtype)


def decoded(text: str | bytes) -> object:
    """What a JSON text says, None where it says nothing."""
    try:
        return msgspec.json.decode(text)
    except DECODE_ERRORS:
        return None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


_KERNEL, _BESIDE = re.compile(COLLECTIVE), re.compile(BESIDE_COLLECTIVE)
# The share of a message that every one of n ranks sends at least (nccl-tests' bus bandwidth).
_TWICE, _REST = "allreduce", ("allgather", "reducescatter", "alltoall")


class Message(NamedTuple):
    """What a collective moves: its kind, bytes of the larger side, ranks, and what each sends."""

    kind: str
    message_bytes: float | None
    group_size: int | None
    group: str | None
    link_bytes: float | None


def is_collective(kernel: str) -> bool:
    """Whether a kernel communicates, by its name.

    >>> is_collective("ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)"), is_collective("sgemm")
    (True, False)
    """
    return bool(_KERNEL.search(kernel)) and not _BESIDE.search(kernel)


def message(recorded: tuple[object, ...]) -> Message:
    """The message of a collective from what the trace says of it.

    >>> message(("allreduce", 10, 10, "Float", 4, "0", "[0, 1, 2, 3]")).link_bytes
    60.0
    """
    name, sent, received, dtype, ranks, group, listed = recorded
    kind = re.sub(r"[^a-z]", "", str(name).lower())
    number = parse_dtype(str(dtype))
    size = FORMATS[number].bits / 8 if number else None
    elements = [n for n in (sent, received) if isinstance(n, int | float) and n >= 0]
    total = float(max(elements) * size) if elements and size else None
    count = ranks if isinstance(ranks, int) and ranks > 0 else None
    share = _share(kind, count)
    sends = None if total is None or share is None else total * share
    named = " ".join(str(v) for v in (group, listed) if v not in (None, "")) or None
    return Message(kind, total, count, named, sends)


def _share(kind: str, ranks: int | None) -> float | None:
    if ranks is None:
        return None
    rest = (ranks - 1) / ranks
    if _TWICE in kind:
        return 2 * rest
    return rest if any(k in kind for k in _REST) else float(ranks > 1)
