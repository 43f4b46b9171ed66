"""What a call costs: FLOPs by number format and compulsory bytes, or why that is unknown.

Conventions (docs/counting.md): a multiply-add is 2 FLOPs; beside contractions one FLOP per
basic operation of the op's definition, a transcendental counting one. Arithmetic on
integers and booleans is not floating point: it has 0 FLOPs by nature, its bytes count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import prod

import msgspec

from timeroof.core.machine import DRAM, TENSOR_PRECISIONS, Origin
from timeroof.work.call import COMPLEX, REAL_PART, Tensor, bytes_of, is_floating, nature
from timeroof.work.traced import real

# Compulsory bytes: what an op must read and write at least once, however good its cache.
#
# Unique bytes count. A dimension of stride 0 (broadcast) is read once, overlapping
# windows are read once, the same tensor passed twice is read once.


def unique_elements(tensor: Tensor) -> int:
    """Elements of a tensor that lie at different places.

    >>> unique_elements(Tensor((8, 4), "fp32", (0, 1)))  # a row, broadcast
    4
    >>> unique_elements(Tensor((3, 4), "fp32", (1, 1)))  # windows that overlap
    6
    """
    strides = tensor.strides
    if strides is None or len(strides) != len(tensor.shape) or 0 in tensor.shape:
        return tensor.count
    sizes = [(n, s) for n, s in zip(tensor.shape, strides, strict=True) if s != 0]
    reach = 1 + sum((n - 1) * abs(s) for n, s in sizes)
    return min(prod(n for n, _ in sizes), reach)


def unique_bytes(tensor: Tensor) -> int:
    """Bytes of a tensor that lie at different places."""
    return bytes_of(unique_elements(tensor), tensor.dtype)


def read_bytes(tensors: Iterable[Tensor | None]) -> int:
    """Bytes that must be read; a tensor that repeats an earlier one adds nothing."""
    return sum(unique_bytes(t) for t in tensors if t is not None and t.alias_of is None)


def written_bytes(tensors: Iterable[Tensor | None]) -> int:
    """Bytes that must be written: results are dense, whatever strides an operand of their
    shape may have.
    """
    return sum(t.size_bytes for t in tensors if t is not None)


# A complex multiply-add is four real ones; a complex addition two real ones.
_COMPLEX_CONTRACTION, _COMPLEX_OTHER = 4, 2


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one call.

    `contraction` holds the FLOPs of matrix products, convolutions and attention
    products by number format, `other` all further ones; both are None where FLOPs are
    unknown, as are the bytes where those are. `unknown` then says why. `free` marks
    what does no work by nature (views, allocation), `composite` an op whose work is
    done by the ops it calls (see `timeroof.work.counting`). `padding_flops` are those of
    `contraction` that have a convolution's padding as a factor: counted by convention, owed by
    nobody, in no bound.
    """

    contraction: Mapping[str, float] | None = {}
    other: Mapping[str, float] | None = {}
    bytes_read: float | None = 0.0
    bytes_written: float | None = 0.0
    link_bytes: float | None = 0.0
    unknown: str | None = None
    free: bool = False
    composite: bool = False
    origin: Origin = "counted"
    padding_flops: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def contraction_flops(self) -> float | None:
        """FLOPs that torch's FlopCounterMode would count too."""
        return None if self.contraction is None else real(sum(self.contraction.values()))

    @property
    def flops(self) -> float | None:
        """All FLOPs."""
        if self.contraction is None or self.other is None:
            return None
        return real(sum(self.contraction.values()) + sum(self.other.values()))

    @property
    def bytes(self) -> float | None:
        """Bytes read and written."""
        if self.bytes_read is None or self.bytes_written is None:
            return None
        return self.bytes_read + self.bytes_written

    @property
    def known(self) -> bool:
        """Whether FLOPs and bytes are both known."""
        return self.flops is not None and self.bytes is not None


FREE = Cost(free=True)
# No call of a real program does more: sums over many calls stay finite.
MAX_AMOUNT = 1e24


def unknown(reason: str) -> Cost:
    """A cost that nobody could count, and why."""
    return Cost(contraction=None, other=None, bytes_read=None, bytes_written=None, link_bytes=None,
                unknown=reason)  # fmt: skip


def possible(found: Cost) -> Cost:
    """The cost, or an unknown one where sizes are such that no machine could do it."""
    known = [n for n in (found.flops, found.bytes, found.link_bytes) if n is not None]
    if any(n > MAX_AMOUNT for n in known):
        return unknown("sizes that no program can have")
    return found


def cost(
    reads: Iterable[Tensor | None],
    writes: Iterable[Tensor | None],
    *,
    contraction: float = 0,
    other: float = 0,
    dtype: str | None = None,
    origin: Origin = "counted",
    notes: tuple[str, ...] = (),
) -> Cost:
    """The cost of a call that reads and writes these tensors and computes in one format.

    The format is that of the first floating-point tensor unless `dtype` says another.

    >>> c = cost([Tensor((4,), "fp16")], [Tensor((4,), "fp16")], other=4)
    >>> c.other, c.bytes
    ({'fp16': 4.0}, 16.0)
    """
    reads, writes = list(reads), list(writes)
    computed = dtype or computing_dtype([*reads, *writes])
    return Cost(
        contraction=contraction_in(computed, contraction),
        other=other_in(computed, other),
        bytes_read=real(read_bytes(reads)),
        bytes_written=real(written_bytes(writes)),
        origin=origin,
        notes=notes,
    )


def computing_dtype(tensors: Iterable[Tensor | None]) -> str:
    """The format that a call computes in: that of its first floating-point tensor."""
    present = [t for t in tensors if t is not None]
    floating = [t.dtype for t in present if is_floating(t.dtype)]
    return next(iter(floating), present[0].dtype if present else "fp32")


def contraction_in(dtype: str, flops: float) -> dict[str, float]:
    """FLOPs of a contraction by format; complex numbers as the real operations they are."""
    if nature(dtype) == COMPLEX:
        return {REAL_PART[dtype]: real(flops * _COMPLEX_CONTRACTION)} if flops else {}
    if dtype == "uint8":
        dtype = "int8"
    return {dtype: real(flops)} if flops else {}


def other_in(dtype: str, flops: float) -> dict[str, float]:
    """FLOPs outside contractions by format; none for integers and booleans."""
    if not flops or not is_floating(dtype):
        return {}
    if nature(dtype) == COMPLEX:
        return {REAL_PART[dtype]: real(flops * _COMPLEX_OTHER)}
    return {dtype: real(flops)}


def merged(*parts: Mapping[str, float] | None) -> dict[str, float] | None:
    """FLOPs by format, added up; None where one part is unknown.

    >>> merged({"fp32": 1}, {"fp32": 2, "fp16": 1})
    {'fp32': 3.0, 'fp16': 1.0}
    """
    total: dict[str, float] = {}
    for part in parts:
        if part is None:
            return None
        for dtype, flops in part.items():
            total[dtype] = total.get(dtype, 0.0) + real(flops)
    return total


def together(costs: Iterable[Cost]) -> Cost:
    """Several costs one after the other: everything adds up, bytes too."""
    parts = list(costs)
    reasons = [p.unknown for p in parts if p.unknown]
    return Cost(
        contraction=merged(*(p.contraction for p in parts)),
        other=merged(*(p.other for p in parts)),
        bytes_read=_sum([p.bytes_read for p in parts]),
        bytes_written=_sum([p.bytes_written for p in parts]),
        link_bytes=_sum([p.link_bytes for p in parts]),
        unknown=reasons[0] if reasons else None,
        free=bool(parts) and all(p.free for p in parts),
        origin="counted" if all(p.origin == "counted" for p in parts) else "modelled",
        padding_flops=sum(p.padding_flops for p in parts),
        notes=tuple(dict.fromkeys(n for p in parts for n in p.notes)),
    )


def _sum(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return real(sum(known)) if len(known) == len(values) else None


# From a cost to amounts of resources (docs/model.md): which unit of a device does which FLOPs.


# Vector arithmetic runs in single precision for every narrower format: torch, XLA and
# TensorFlow convert 16-bit elements to fp32, compute, and convert back ("opmath").
_VECTOR = {"fp64": "fp64"}
# Which tensor unit a contraction uses, best first, and the vector unit where there is none.
_CONTRACTION: dict[str, tuple[tuple[str, ...], str]] = {
    "fp64": (("fp64-tensor",), "fp64"),
    "fp32": ((), "fp32"),
    "tf32": (("tf32-tensor",), "fp32"),
    "fp16": (("fp16-tensor",), "fp16"),
    "bf16": (("bf16-tensor",), "bf16"),
    "fp8": (("fp8-tensor", "fp16-tensor"), "fp32"),
    "fp4": (("fp4-tensor", "fp8-tensor", "fp16-tensor"), "fp32"),
    "int8": (("int8-tensor",), "int8"),
    "int4": (("int8-tensor",), "int8"),
}
_NOT_FLOPS = ("int64", "int32", "int16", "uint64", "uint32", "uint16", "bool")


def contraction_precision(
    dtype: str, matrix_units: Collection[str] = (), *, tf32: bool = False
) -> str | None:
    """The precision whose unit does a contraction in this format.

    `matrix_units` are the device's tensor precisions, `tf32` says that fp32 contractions
    may use TF32. None for whole numbers wider than a byte: no unit has a name for them.

    >>> contraction_precision("fp16", ["fp16-tensor"]), contraction_precision("fp16")
    ('fp16-tensor', 'fp16')
    >>> contraction_precision("fp32", ["tf32-tensor"], tf32=True)
    'tf32-tensor'
    """
    if dtype in _NOT_FLOPS:
        return None
    if dtype == "fp32" and tf32:
        dtype = "tf32"
    units, vector = _CONTRACTION.get(dtype, ((), "fp32"))
    return next((u for u in units if u in matrix_units), vector)


def vector_precision(dtype: str) -> str:
    """The precision whose unit does element-wise work in this format."""
    return _VECTOR.get(dtype, "fp32")


def amounts(
    cost: Cost,
    matrix_units: Collection[str] | bool = (),
    *,
    tf32: bool = False,
    link: str | None = None,
) -> dict[str, float | None]:
    """Amounts of one call: ``flop/<precision>``, ``byte/dram``, ``contraction_flops``.

    `matrix_units` names the device's tensor precisions; True means all of them. There
    is always a flop entry, 0 where nothing is computed, None where it is unknown.
    ``padding_flops`` appear where there are any. With `link`, bytes of collectives appear
    as ``link/<name>``.

    >>> from timeroof.work.cost import Cost
    >>> amounts(Cost(contraction={"fp16": 8.0}, bytes_read=4.0), ["fp16-tensor"])
    {'flop/fp32': 0.0, 'flop/fp16-tensor': 8.0, 'contraction_flops': 8.0, 'byte/dram': 4.0}
    """
    units: Collection[str] = matrix_units if not isinstance(matrix_units, bool) else ()
    if matrix_units is True:
        units = TENSOR_PRECISIONS
    found: dict[str, float | None] = {"flop/fp32": 0.0}
    if cost.contraction is None or cost.other is None:
        found["flop/fp32"] = None
    else:
        for precision, flops in _by_precision(cost, units, tf32).items():
            found[f"flop/{precision}"] = flops
    found["contraction_flops"] = cost.contraction_flops
    if cost.padding_flops:
        found["padding_flops"] = cost.padding_flops
    found[DRAM] = cost.bytes
    if link is not None:
        found[f"link/{link}"] = cost.link_bytes
    return found


def _by_precision(cost: Cost, units: Collection[str], tf32: bool) -> dict[str, float]:
    found: dict[str, float] = {"fp32": 0.0}
    for dtype, flops in (cost.contraction or {}).items():
        precision = contraction_precision(dtype, units, tf32=tf32)
        if precision is not None:
            found[precision] = found.get(precision, 0.0) + flops
    for dtype, flops in (cost.other or {}).items():
        precision = vector_precision(dtype)
        found[precision] = found.get(precision, 0.0) + flops
    return found
