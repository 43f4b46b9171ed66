"""Which kernels are collectives, and what was recorded of their messages."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from timeroof.read.torch.signatures import DTYPES

# Communication has many homes: NCCL and RCCL, DeepEP's "internode" kernels, the multicast
# and custom all-reduces of PyTorch, vLLM and TensorRT-LLM.
_KERNEL = re.compile(
    r"nccl|rccl|multimem_|(one|two)_shot_all_reduce|cross_device_reduce"
    r"|(inter|intra)node::|deep_ep::|all_?(reduce|gather|to_?all)_kernel|allreduce_fusion"
    r"|nvshmem|oneccl",
    re.IGNORECASE,
)
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
