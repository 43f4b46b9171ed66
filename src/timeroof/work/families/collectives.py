"""Collectives: bytes over a link per rank, and the memory they pass through.

The least that a rank of n must send when every rank sends alike (the factors of
nccl-tests' "bus bandwidth"): all-reduce 2·(n−1)/n of the message, all-gather and
reduce-scatter (n−1)/n of the whole, all-to-all (n−1)/n, broadcast, reduce and
point-to-point all of it. Reductions in a switch (NVLink multicast) need one message.
"""

from __future__ import annotations

import msgspec

from timeroof.work.call import Arg, Call, Tensor, UncountableError, tensors
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import Rule, pattern

# Share of the message that goes over the link, as a function of the group's size; and
# whether elements are added up on the way.
_KINDS: dict[str, tuple[str, bool]] = {
    "multimemallreduce": ("whole", True), "allreduce": ("twice", True),
    "reducescatter": ("rest", True), "allgather": ("rest", False), "alltoall": ("rest", False),
    "broadcast": ("whole", False), "reduce": ("whole", True), "gather": ("rest", False),
    "scatter": ("rest", False), "send": ("whole", False), "recv": ("whole", False),
    "barrier": ("nothing", False),
}  # fmt: skip
_SPACES = ("c10d", "nccl", "rccl", "collective", "symm_mem", "_c10d_functional", "c10d_functional",
           "vllm", "tf", "jax", "xla")  # fmt: skip


def link_share(kind: str, group_size: int) -> float:
    """The part of a message that a rank must send.

    >>> link_share("twice", 8), link_share("rest", 4), link_share("whole", 4)
    (1.75, 0.75, 1.0)
    """
    rest = (group_size - 1) / group_size
    return {"twice": 2 * rest, "rest": rest, "whole": float(group_size > 1), "nothing": 0.0}[kind]


def collective_kind(name: str) -> str | None:
    """The collective that a name means, or None.

    >>> collective_kind("c10d::allreduce_"), collective_kind("collective::_allgather_base")
    ('allreduce', 'allgather')
    """
    word = name.rsplit("::", maxsplit=1)[-1].lower().replace("_", "").replace("-", "")
    return next((k for k in _KINDS if k in word), None)


def collective(call: Call) -> Cost:
    """A collective over its largest side; the group's size is the argument `group_size`."""
    kind = collective_kind(call.op) or ""
    way, adds = _KINDS[kind]
    sides = [_listed(v) for v in call.inputs[:2]]
    sizes = [sum(t.size_bytes for t in s) for s in sides]
    if not any(sides) and way != "nothing":
        raise UncountableError("the message's size is not recorded")
    message = max(sizes, default=0)
    first = sides[0] if sides else ()
    moved = cost(first, sides[1] if len(sides) > 1 and sides[1] else first)
    group = dict(call.kwargs).get("group_size", _group_of_sides(way, sizes))
    if not isinstance(group, int) or group < 1:
        why = f"{call.op}: the group's size is not recorded"
        nothing = dict.fromkeys(("other", "contraction", "link_bytes"))
        return msgspec.structs.replace(moved, **nothing, unknown=why)
    added = sum(t.count for t in first) * (group - 1) / group if adds else 0
    summed = cost(first, [], other=added).other if first else {}
    return msgspec.structs.replace(moved, other=summed, link_bytes=message * link_share(way, group))


def _group_of_sides(way: str, sizes: list[int]) -> int | None:
    """The group's size where one side has every rank's part and the other one rank's.

    >>> _group_of_sides("rest", [64, 16]), _group_of_sides("twice", [64, 64])
    (4, None)
    """
    most, least = max(sizes, default=0), min(sizes, default=0)
    parts = way == "rest" and len(sizes) == 2 and 0 < least < most and most % least == 0
    return most // least if parts else None


def _listed(value: Arg) -> tuple[Tensor, ...]:
    if isinstance(value, Tensor) or (isinstance(value, tuple) and value):
        flat = value if not isinstance(value, tuple) else tuple(_flat(value))
        return tensors(flat, "the message")
    return ()


def _flat(value: tuple[Arg, ...]) -> list[Arg]:
    return [w for v in value for w in (_flat(v) if isinstance(v, tuple) else [v])]


_RULE = Rule(collective, (), True, False)


def is_collective(op: str) -> bool:
    """Whether an op is a collective by its name.

    >>> is_collective("c10d::_allgather_base_"), is_collective("aten::gather")
    (True, False)
    """
    return by_name(op) is not None


@pattern
def by_name(name: str) -> Rule | None:
    """Collectives by the words in their name, in the name spaces that have them."""
    space = name.split("::", maxsplit=1)[0]
    known = space in _SPACES or name.startswith(("nccl", "rccl", "record_param_comms"))
    return _RULE if known and collective_kind(name) is not None else None
