"""Instructions of a compiled program, whose cost `timeroof.work.hlo` has found already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from timeroof.work import call as args
from timeroof.work.call import Arg, Call, Tensor
from timeroof.work.cost import Cost
from timeroof.work.registry import formula

INSTRUCTION = "hlo::instruction"


def instruction_call(found: Cost, operands: Sequence[Tensor] = ()) -> Call:
    """A call that is counted as what an instruction costs; it can be compared, unlike a cost.
    Operands are shown with it.

    >>> from timeroof.work.counting import count
    >>> count(instruction_call(Cost(contraction={"bf16": 8.0}, bytes_read=4.0))).contraction
    {'bf16': 8.0}
    """
    return Call(
        INSTRUCTION,
        (
            _pairs(found.contraction), _pairs(found.other), found.bytes_read, found.bytes_written,
            found.unknown, found.free, found.origin, *([tuple(operands)] if operands else []),
        ),
    )  # fmt: skip


def _pairs(flops: Mapping[str, float] | None) -> Arg:
    return None if flops is None else tuple(sorted(flops.items()))


@formula(INSTRUCTION)
def instruction(
    contraction: Arg, other: Arg, bytes_read: Arg, bytes_written: Arg, unknown: Arg, free: Arg,
    origin: Arg = "counted", _operands: Arg = (),
) -> Cost:  # fmt: skip
    """What was counted before."""
    return Cost(
        contraction=_by_format(contraction),
        other=_by_format(other),
        bytes_read=_number(bytes_read),
        bytes_written=_number(bytes_written),
        unknown=unknown if isinstance(unknown, str) else None,
        free=args.flag(free, "free"),
        origin="modelled" if origin == "modelled" else "counted",
    )


def _by_format(pairs: Arg) -> dict[str, float] | None:
    if not isinstance(pairs, tuple):
        return None
    listed = [pair for pair in pairs if isinstance(pair, tuple) and len(pair) == 2]
    return {str(dtype): args.number(flops, 0.0) for dtype, flops in listed}


def _number(value: Arg) -> float | None:
    return float(value) if isinstance(value, int | float) else None
