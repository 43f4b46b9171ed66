"""Costs that the user states: they win over everything derived.

@cost_of("mylib::fused_mlp")
def fused_mlp(call):
    x, w = call.inputs[:2]
    return {"flops": 2 * x.count * w.shape[1], "bytes": x.size_bytes + w.size_bytes}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from timeroof.work.args import UncountableError, every_tensor
from timeroof.work.call import Call
from timeroof.work.cost import Cost, computing_dtype, unknown
from timeroof.work.dtypes import parse_dtype
from timeroof.work.registry import plain_name

Stated = Cost | Mapping[str, object]
UserFunction = Callable[[Call], Stated]

_STATED: dict[str, UserFunction] = {}
_LISTENERS: list[Callable[[], None]] = []


def cost_of(*names: str) -> Callable[[UserFunction], UserFunction]:
    """State the cost of an op: the function gets a `Call`, and returns FLOPs and bytes.

    It returns a `Cost` or a mapping with ``flops`` (a number, or numbers by format),
    ``bytes`` (or ``bytes_read`` and ``bytes_written``) and perhaps ``contraction`` (which
    part of the FLOPs are contractions; all unless it says otherwise). What it leaves out
    is unknown. Stating a cost again replaces the former statement.
    """

    def state(function: UserFunction) -> UserFunction:
        for name in names:
            _STATED[plain_name(name)] = function
        _tell()
        return function

    return state


def forget(*names: str) -> None:
    """Take statements back; without names, all of them."""
    for name in [plain_name(n) for n in names] or list(_STATED):
        _STATED.pop(name, None)
    _tell()


def when_changed(listener: Callable[[], None]) -> None:
    """Call a function whenever a statement comes or goes."""
    _LISTENERS.append(listener)


def _tell() -> None:
    for listener in _LISTENERS:
        listener()


def stated_cost(call: Call) -> Cost | None:
    """The cost that the user stated for this call, or None if there is none."""
    function = _STATED.get(plain_name(call.op))
    if function is None:
        return None
    try:
        return as_cost(function(call), call)
    except Exception as error:  # the user's code may raise anything
        return unknown(f"the stated cost of {call.op} failed: {type(error).__name__}: {error}")


def as_cost(stated: Stated, call: Call | None = None) -> Cost:
    """A statement as a cost of origin `user`.

    >>> as_cost({"flops": {"bf16": 10}, "bytes": 4}).contraction
    {'bf16': 10.0}
    """
    if isinstance(stated, Cost):
        return Cost(
            **{f: getattr(stated, f) for f in stated.__struct_fields__} | {"origin": "user"}
        )
    flops = _by_format(stated.get("flops"), call)
    contraction = _by_format(stated.get("contraction", stated.get("flops")), call)
    other = None
    if flops is not None and contraction is not None:
        rest = {d: n - contraction.get(d, 0.0) for d, n in flops.items()}
        other = {d: n for d, n in rest.items() if n > 0}
    read, written = _number(stated.get("bytes_read")), _number(stated.get("bytes_written"))
    if stated.get("bytes") is not None:
        read, written = _number(stated["bytes"]), 0.0
    lacking = [w for w, v in (("FLOPs", flops), ("bytes", read)) if v is None]
    return Cost(
        contraction=contraction,
        other=other,
        bytes_read=read,
        bytes_written=written,
        link_bytes=_number(stated.get("link_bytes", 0.0)),
        unknown=f"the user states no {' and no '.join(lacking)}" if lacking else None,
        origin="user",
    )


def _by_format(value: object, call: Call | None) -> dict[str, float] | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {parse_dtype(str(k)) or str(k): float(v) for k, v in value.items()}
    try:
        dtype = computing_dtype(every_tensor(*call.inputs)) if call else "fp32"
    except UncountableError:
        dtype = "fp32"
    number = _number(value)
    return None if number is None else {dtype: number}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
