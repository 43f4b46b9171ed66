"""From a cost to amounts of resources (docs/model.md): which unit of a device does which FLOPs."""

from __future__ import annotations

from collections.abc import Collection

from timeroof.core.resources import DRAM, TENSOR_PRECISIONS
from timeroof.work.cost import Cost

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
