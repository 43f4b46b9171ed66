"""FLOPs of one HLO instruction, by its opcode. Bytes: `traffic`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2, prod

from timeroof.work.call import UncountableError
from timeroof.work.cost import Cost, contraction_in, other_in
from timeroof.work.hlo import opcodes as ops
from timeroof.work.hlo.products import (
    convolution_flops,
    custom_elements,
    custom_flops,
    dot_flops,
    ragged_dot_flops,
    result_of,
)
from timeroof.work.hlo.proto import Instruction, Shape

# As in work.families.normalization.
_BATCH_NORM_FLOPS = 7

Operands = Sequence[Shape]


def flops_of(one: Instruction, operands: Operands, reducer: int) -> Cost:
    """The FLOPs of an instruction that is no fusion, as a cost without bytes.

    `reducer` are the FLOPs that the instruction's own computation does for one element.
    """
    if one.opcode in ops.FREE or one.opcode in ops.MOVES:
        return Cost()
    if one.opcode in _PRODUCTS:
        return _product(one, operands)
    if one.opcode in ops.ELEMENTWISE:
        of = operands[0] if one.opcode in ops.TRUTHS and operands else one.shape
        return Cost(other=other_in(of.format, ops.ELEMENTWISE[one.opcode] * one.shape.count))
    if one.opcode in _OTHERS:
        return Cost(other=other_in(operands[0].format, _OTHERS[one.opcode](one, operands, reducer)))
    return Cost(contraction=None, other=None, unknown=f"the instruction {one.opcode}")


def _product(one: Instruction, operands: Operands) -> Cost:
    flops = _PRODUCTS[one.opcode](one, operands)
    if flops is not None:
        return Cost(contraction=contraction_in(operands[0].format if operands else "fp32", flops))
    each = custom_elements(one, operands)
    if each is not None:
        return Cost(other=other_in(operands[0].format, each))
    return Cost(contraction=None, other=None, unknown=f"the custom call {one.target}")


def _convolution(one: Instruction, operands: Operands) -> float:
    if len(operands) < 2:
        raise UncountableError("a convolution without its operands")
    return convolution_flops(one, operands[0], operands[1], result_of(one))


_PRODUCTS: dict[str, Callable[[Instruction, Operands], float | None]] = {
    "dot": dot_flops,
    "scaled-dot": dot_flops,
    "ragged-dot": lambda _, operands: ragged_dot_flops(operands),
    "convolution": _convolution,
    "custom-call": custom_flops,
}


def _windows(one: Instruction) -> int:
    return prod(dim.size for dim in one.window)


def transform_flops(
    given: int, found: int, lengths: Sequence[int], is_complex: Sequence[bool]
) -> float:
    """5 n log2(n) per Fourier transform of n complex numbers, half of it where one side is real;
    as operations in the operand's format, of which complex numbers count two each."""
    numbers = max(given, found) * (1.0 if all(is_complex) else 0.5)
    return numbers * 5 * log2(max(prod(lengths), 2)) / (2 if is_complex[0] else 1)


def _fft(one: Instruction, operands: Operands, _: int) -> float:
    is_complex = [s.dtype.startswith("c") for s in (operands[0], one.shape)]
    return transform_flops(operands[0].count, one.shape.count, one.fft_length, is_complex)


_OTHERS: dict[str, Callable[[Instruction, Operands, int], float]] = {
    "reduce": lambda one, operands, each: float(operands[0].count * each),
    "reduce-window": lambda one, operands, each: float(result_of(one).count * _windows(one) * each),
    # A comparison per element of the window, and the addition of what is scattered.
    "select-and-scatter": lambda one, operands, _: float(operands[1].count * (_windows(one) + 1)),
    "scatter": lambda one, operands, each: float(operands[-1].count * each),
    "batch-norm-training": lambda one, operands, _: float(_BATCH_NORM_FLOPS * operands[0].count),
    "batch-norm-inference": lambda one, operands, _: float(_BATCH_NORM_FLOPS * operands[0].count),
    "batch-norm-grad": lambda one, operands, _: float(_BATCH_NORM_FLOPS * operands[0].count),
    "fft": _fft,
    "cholesky": lambda one, operands, _: one.shape.count * one.shape.dims[-1] / 3,
    "triangular-solve": lambda one, operands, _: float(one.shape.count * operands[0].dims[-1]),
}
