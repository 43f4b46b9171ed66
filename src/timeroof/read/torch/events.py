"""One event of a Chrome trace as it is decoded, and what its arguments say: an op's signature, a
collective's message.

Values are any objects because writers disagree (numbers as text, missing fields); `tables`
makes numbers of them. Arguments stay raw until a category that needs them asks, and what
an op was called with stays raw text: it is compared, and parsed once per signature.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from timeroof.core.shapes import Shape, tensor_shape
from timeroof.read.events import BESIDE_COLLECTIVE, COLLECTIVE
from timeroof.work.call import FORMATS, parse_dtype
from timeroof.work.recorded import KINETO_ARGUMENTS

NOTHING = msgspec.Raw(b"")
DECODE_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)

# What each spelling of a category is; torch 1.8 and other back ends spell them differently.
OPS = frozenset({"cpu_op", "Operator", "mtia_op", "hpu_op"})
KERNELS = frozenset({"kernel", "Kernel", "mtia_ccp_events", "concurrent_kernel", "gpu_op"})
COPIES = frozenset({"gpu_memcpy", "Memcpy"})
MEMSETS = frozenset({"gpu_memset", "Memset"})
LAUNCHES = frozenset(
    {
        "cuda_runtime", "cuda_driver", "Runtime", "hip_runtime", "xpu_runtime", "xpu_driver",
        "mtia_runtime", "privateuse1_runtime", "privateuse1_driver",
    }
)  # fmt: skip
ANNOTATION = "user_annotation"
PYTHON = "python_function"
OVERHEAD = "overhead"
RANGE = "cuda_profiler_range"
# Known and of no use here: arrows, device copies of annotations, memory events, the span itself.
UNUSED = frozenset(
    {
        "ac2g", "fwdbwd", "async_cpu_to_gpu", "gpu_user_annotation", "cpu_instant_event", "Trace",
        "cuda_sync", "cuda_event", "collective_comm",
    }
)  # fmt: skip


class Event(msgspec.Struct, frozen=True, gc=False):
    """A phase letter, a category, a name, a place, and a time in microseconds."""

    ph: object = None
    cat: object = None
    name: object = None
    pid: object = None
    tid: object = None
    ts: object = None
    dur: object = None
    args: msgspec.Raw = NOTHING


class MessageArgs(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "collective": "Collective name",
        "in_elements": "In msg nelems",
        "out_elements": "Out msg nelems",
        "group_size": "Group size",
        "group": "Process Group Name",
        "group_ranks": "Process Group Ranks",
    },
):
    """What a collective moves, at an op or at a kernel."""

    collective: object = None
    in_elements: object = None
    out_elements: object = None
    dtype: object = None
    group_size: object = None
    group: object = None
    group_ranks: object = None


class OpArgs(
    MessageArgs,
    frozen=True,
    gc=False,
    rename={
        "external_id": "External id",
        "dims": "Input Dims",
        "old_dims": "Input dims",
        "types": "Input type",
        "strides": "Input Strides",
        "values": "Concrete Inputs",
        "record_id": "Record function id",
        "sequence": "Sequence number",
    },
):
    """What an op was called with, and the numbers that tie it to others."""

    external_id: object = None
    dims: msgspec.Raw = NOTHING
    # The name of PyTorch 1.8.
    old_dims: msgspec.Raw = NOTHING
    types: msgspec.Raw = NOTHING
    strides: msgspec.Raw = NOTHING
    values: msgspec.Raw = NOTHING
    record_id: object = None
    sequence: object = None


class LaunchArgs(msgspec.Struct, frozen=True, gc=False):
    """A call of the device's runtime; HIP says here how large a copy is."""

    correlation: object = None
    size: object = None


class DeviceArgs(MessageArgs, frozen=True, gc=False, rename={"external_id": "External id"}):
    """A kernel, copy or memset on a device."""

    correlation: object = None
    external_id: object = None
    stream: object = None
    device: object = None
    bytes: object = None
    grid: msgspec.Raw = NOTHING


class PlainArgs(msgspec.Struct, frozen=True, gc=False, rename={"task": "Task Type"}):
    """Arguments of events without a category: names of processes, what XLA and CANN write."""

    name: object = None
    task: object = None
    hlo_op: object = None
    hlo_module: object = None
    tf_op: object = None


NO_OP_ARGS = OpArgs()
NO_LAUNCH_ARGS = LaunchArgs()
NO_DEVICE_ARGS = DeviceArgs()
NO_PLAIN_ARGS = PlainArgs()

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
