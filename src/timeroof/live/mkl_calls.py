"""Which op made which call of MKL: by order, with the sizes of products as landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from timeroof.live.calls import flat
from timeroof.sources.live.torch_run.alignment import pairs
from timeroof.sources.live.torch_run.recording import Described, MklCall, TensorSeen
from timeroof.work import Call, Cost, Tensor, count

# Ops that are one product: where their two operands are.
_PRODUCTS = {
    "aten::mm": 0, "aten::mv": 0, "aten::dot": 0, "aten::addmm": 1, "aten::addmv": 1,
    "aten::addmm_": 1, "aten::_addmm_activation": 1,
}  # fmt: skip
_FORMATS = {"s": "fp32", "d": "fp64", "c": "complex64", "z": "complex128"}
NOBODY = -1
# The formula of an op may count a little less than the library does (rows of padding).
ROUNDING = 1.01


@dataclass(frozen=True)
class Caller:
    """An op that may call MKL: its event, its own time, its op, and its products where counted."""

    event: int
    self_ns: float
    op: Described
    flops: float | None = None


def callers_of(calls: Sequence[MklCall], callers: Sequence[Caller]) -> list[int]:
    """The event behind every call, or NOBODY.

    A product and a call of the same sizes are the same one, in order. Calls between two such
    pairs belong to the ops between them that make many (attention, a convolution image by
    image), as many as do the op's products; where these are not known, as its time allows.
    """
    ours = [_product_key(c.op) or f"many {i}" for i, c in enumerate(callers)]
    theirs = [_call_key(call) for call in calls]
    anchors = _rising(pairs(ours, theirs))
    found = [NOBODY] * len(calls)
    for mine, other in anchors:
        found[other] = callers[mine].event
    edges = [(-1, -1), *anchors, (len(callers), len(calls))]
    for (left, first), (right, last) in pairwise(edges):
        between = [c for c in callers[left + 1 : right] if _product_key(c.op) is None]
        _deal(found, calls, range(first + 1, last), between)
    return found


def _deal(
    found: list[int], calls: Sequence[MklCall], places: range, callers: Sequence[Caller]
) -> None:
    """Calls in order to ops in order: an op takes calls until it has all its work."""
    at, taken = 0, 0.0
    for place in places:
        if not callers:
            return
        while at + 1 < len(callers) and taken + _size(calls[place], callers[at]) > _room(
            callers[at]
        ):
            at, taken = at + 1, 0.0
        found[place] = callers[at].event
        taken += _size(calls[place], callers[at])


def _size(call: MklCall, caller: Caller) -> float:
    """What a call takes of an op's room: FLOPs, or nanoseconds where the op's are not known."""
    if not caller.flops:
        return float(call.duration_ns)
    cost = mkl_cost(call.routine, call.sizes)
    return (cost.contraction_flops or 0.0) if cost is not None else 0.0


def _room(caller: Caller) -> float:
    return caller.flops * ROUNDING if caller.flops else caller.self_ns


def _rising(matched: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs in order on both sides; what would cross is left out."""
    kept: list[tuple[int, int]] = []
    for pair in sorted(matched):
        if not kept or pair[1] > kept[-1][1]:
            kept.append(pair)
    return kept


def _product_key(op: Described) -> str | None:
    place = _PRODUCTS.get(op.name.removesuffix(".out"))
    tensors = flat(op.inputs)
    if place is None or len(tensors) < place + 2:
        return None
    first, second = tensors[place : place + 2]
    if not isinstance(first, TensorSeen) or not isinstance(second, TensorSeen):
        return None
    rows = first.shape[0] if len(first.shape) > 1 else 1
    columns = second.shape[-1] if len(second.shape) > 1 else 1
    return _key((rows, columns, first.shape[-1] if first.shape else 1))


def _call_key(call: MklCall) -> str:
    return _key((*call.sizes, 1, 1)[:3]) if call.sizes else call.routine


def _key(sizes: Sequence[int]) -> str:
    """MKL may see a product transposed: sizes in rising order."""
    return "x".join(map(str, sorted(sizes)))


def mkl_cost(routine: str, sizes: Sequence[int]) -> Cost | None:
    """The cost of one call; None where its sizes are not in its line.

    >>> mkl_cost("sgemm", (128, 32, 64)).contraction
    {'fp32': 524288.0}
    """
    dtype = _FORMATS.get(routine[:1])
    if dtype is None or "gem" not in routine or len(sizes) < 2:
        return None
    m, n, k = (*sizes, 1)[:3] if "gemm" in routine else (sizes[0], 1, sizes[1])
    return count(Call("aten::mm", (Tensor((m, k), dtype), Tensor((k, n), dtype))))
