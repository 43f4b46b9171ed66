"""The names of what a kernel uses and a machine offers: one vocabulary for the whole package."""

from __future__ import annotations

import re
from typing import Literal, get_args

Origin = Literal[
    "measured", "counted", "modelled", "inferred", "user", "datasheet", "theoretical", "published"
]
Phase = Literal["forward", "backward", "optimizer", "data", "other"]
Kind = Literal["kernel", "op", "primitive", "copy", "memset", "collective", "unit"]
Scope = Literal["all", "core", "socket"]

ORIGINS: tuple[str, ...] = get_args(Origin)
PHASES: tuple[str, ...] = get_args(Phase)
KINDS: tuple[str, ...] = get_args(Kind)
SCOPES: tuple[str, ...] = get_args(Scope)

VECTOR_PRECISIONS = ("fp64", "fp32", "fp16", "bf16", "int8")
TENSOR_PRECISIONS = tuple(
    f"{p}-tensor" for p in ("fp64", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")
)
PRECISIONS = VECTOR_PRECISIONS + TENSOR_PRECISIONS
LEVELS = ("l1", "l2", "l3", "dram")
CACHE_LEVELS = LEVELS[:-1]

LAUNCH = "launch"
FAULT = "fault"
# No resource: neither known work nor launching explains a row's time.
LATENCY = "latency"
DRAM = "byte/dram"

# A vendor's own throughput percentages, where a file has them and no amounts: an amount is the
# seconds that the pipe would take at its peak.
PIPES = ("pipe/compute", "pipe/memory")

_LINK = re.compile(r"^link/[A-Za-z0-9][A-Za-z0-9._-]*$")

RESOURCES = (*(f"flop/{p}" for p in PRECISIONS), *(f"byte/{m}" for m in LEVELS), LAUNCH, FAULT)


def is_resource(name: str) -> bool:
    """Whether a name is a resource: one of `RESOURCES` or `PIPES`, or a link of any name.

    >>> is_resource("flop/fp32"), is_resource("link/nvlink"), is_resource("flop/fp17")
    (True, True, False)
    """
    return name in RESOURCES or name in PIPES or bool(_LINK.match(name))


def limiter_kind(resource: str) -> str:
    """The kind of limit a resource sets: compute, memory, launch, latency, fault, link, unknown.

    >>> limiter_kind("flop/fp32"), limiter_kind("byte/l2"), limiter_kind("pipe/memory")
    ('compute', 'memory', 'memory')
    """
    return KIND_OF_HEAD.get(resource.removeprefix("pipe/").split("/", 1)[0], "unknown")


# What the first part of a resource's name says of the kind of limit that it sets; a pipe's name
# is its kind.
KIND_OF_HEAD = {
    "flop": "compute",
    "byte": "memory",
    "launch": "launch",
    "latency": "latency",
    "fault": "fault",
    "link": "link",
    "compute": "compute",
    "memory": "memory",
}
LIMITER_KINDS = ("compute", "memory", "launch", "latency", "fault", "link", "unknown")
