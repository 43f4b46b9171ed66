"""One event of a Chrome trace as it is decoded: the fields that Kineto and XLA write and we read.

Values are any objects because writers disagree (numbers as text, missing fields); columns.py
makes numbers of them. Arguments stay raw until a category that needs them asks, and what
an op was called with stays raw text: it is compared, and parsed once per signature.
"""

from __future__ import annotations

import msgspec

NOTHING = msgspec.Raw(b"")

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


class Message(
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
    Message,
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


class DeviceArgs(Message, frozen=True, gc=False, rename={"external_id": "External id"}):
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
