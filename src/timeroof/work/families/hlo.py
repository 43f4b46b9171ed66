"""Instructions of a compiled program, whose cost `timeroof.work.hlo` has found already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from timeroof.work import call as args
from timeroof.work.call import Arg, Call, Tensor
from timeroof.work.cost import Cost
from timeroof.work.registry import formula
from timeroof.work.traced import expression, real

if TYPE_CHECKING:
    from timeroof.work.hlo.formulas import Formula

INSTRUCTION = "hlo::instruction"


def instruction_call(
    found: Cost, operands: Sequence[Tensor] = (), formulas: Sequence[Formula] = ()
) -> Call:
    """A call that is counted as what an instruction costs; it can be compared, unlike a cost.
    Operands are shown with it, and formulas tell how the numbers came about.

    >>> from timeroof.work.counting import count
    >>> count(instruction_call(Cost(contraction={"bf16": 8.0}, bytes_read=4.0))).contraction
    {'bf16': 8.0}
    """
    told = tuple((f.what, f.dtype, f.text, f.sizes) for f in formulas)
    return Call(
        INSTRUCTION,
        (
            _pairs(found.contraction), _pairs(found.other), found.bytes_read, found.bytes_written,
            found.unknown, found.free, found.origin, tuple(operands), told,
        ),
    )  # fmt: skip


def named_inputs(call: Call) -> tuple[Arg, ...]:
    """The arguments of such a call, its numbers with the expressions that they came from."""
    contraction, other, read, wrote, *rest = call.inputs
    told = _expressions(rest[4] if len(rest) > 4 else ())
    return (
        _with_expressions(contraction, "contraction", told),
        _with_expressions(other, "other", told), told.get(("bytes_read", ""), read),
        told.get(("bytes_written", ""), wrote), *rest,
    )  # fmt: skip


def _expressions(formulas: Arg) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for one in formulas if isinstance(formulas, tuple) else ():
        if not isinstance(one, tuple) or len(one) != 4:
            continue
        what, dtype, text, sizes = one
        named: dict[str, float] = {}
        for pair in sizes if isinstance(sizes, tuple) else ():
            if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], int | float):
                named[str(pair[0])] = pair[1]
        # A saved run may hold anything: what is no formula tells nothing.
        with suppress(ValueError, KeyError, SyntaxError, ArithmeticError, RecursionError):
            found[str(what), str(dtype)] = real(expression(str(text), named))
    return found


def _with_expressions(pairs: Arg, what: str, told: Mapping[tuple[str, str], float]) -> Arg:
    if not isinstance(pairs, tuple):
        return pairs
    listed = [pair for pair in pairs if isinstance(pair, tuple) and len(pair) == 2]
    return tuple((dtype, told.get((what, str(dtype)), flops)) for dtype, flops in listed)


def _pairs(flops: Mapping[str, float] | None) -> Arg:
    return None if flops is None else tuple(sorted(flops.items()))


@formula(INSTRUCTION)
def instruction(
    contraction: Arg, other: Arg, bytes_read: Arg, bytes_written: Arg, unknown: Arg, free: Arg,
    origin: Arg = "counted", _operands: Arg = (), _formulas: Arg = (),
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
    return {str(dtype): _number(flops) or 0.0 for dtype, flops in listed}


def _number(value: Arg) -> float | None:
    return real(value) if isinstance(value, int | float) else None
