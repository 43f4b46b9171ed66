"""Floating-point peaks and the clock, from the micro-kernels of ir_compute."""

from __future__ import annotations

import ctypes
import functools

from timeroof.probe.cpu.features import Features
from timeroof.probe.cpu.ir import module, width_attributes
from timeroof.probe.cpu.ir_compute import CHAIN_ADDS, accumulators, chain_kernel, compute_kernel
from timeroof.probe.cpu.jit import Compiled, compile_ir
from timeroof.probe.cpu.threads import Outcome, Team, Work
from timeroof.probe.problems import wrong_result
from timeroof.probe.rates import Figure
from timeroof.probe.sampling import Plan, sample

PRECISIONS = ("fp64", "fp32")
ELEMENT_BITS = {"fp64": 64, "fp32": 32}

# Steps per repetition: long against starting anew, short enough to count exactly in fp32.
STEPS = 4096

# What the kernels read at run time so that the compiler knows nothing.
_ONE = {"fp64": ctypes.c_double(1.0), "fp32": ctypes.c_float(1.0)}
_ZERO_WORD, _ONE_WORD = ctypes.c_int64(0), ctypes.c_int64(1)


def variant_name(width_bits: int, *, fma: bool) -> str:
    """How a variant is called in tables: scalar, 256-bit FMA, …

    >>> variant_name(0, fma=False), variant_name(256, fma=True)
    ('scalar', '256-bit FMA')
    """
    return (f"{width_bits}-bit" if width_bits else "scalar") + (" FMA" if fma else "")


def variants(features: Features, *, quick: bool) -> list[tuple[int, bool]]:
    """Width in bits (0: scalar) and with or without FMA, of what this CPU has."""
    widths = [0, *features.widths_bits]
    fused = [(width, True) for width in widths] if features.fma else []
    plain = [(width, False) for width in widths]
    if quick:
        return (fused or plain)[-2:]
    return fused + plain


@functools.cache
def _compute(precision: str, width_bits: int, fma: bool, architecture: str) -> Compiled:
    lanes = max(1, width_bits // ELEMENT_BITS[precision])
    chains = accumulators(architecture)
    kernel = compute_kernel(precision, lanes, fma=fma, chains=chains)
    return compile_ir(module(kernel, attributes=width_attributes(width_bits, architecture)))


@functools.cache
def _chain() -> Compiled:
    return compile_ir(module(chain_kernel()))


def measure_flops(
    team: Team, precision: str, width_bits: int, *, fma: bool, features: Features, plan: Plan
) -> Figure:
    """FLOPs per second of a team with one kind of instruction."""
    kernel = _compute(precision, width_bits, fma, features.architecture)
    lanes = max(1, width_bits // ELEMENT_BITS[precision])
    values = lanes * accumulators(features.architecture) * STEPS
    one = ctypes.addressof(_ONE[precision])

    def run(repetitions: int) -> float:
        outcome = team.run(kernel, [Work(one, one, 0, STEPS)] * team.size, repetitions)
        _check(outcome, values * repetitions, f"{precision} {variant_name(width_bits, fma=fma)}")
        return outcome.time_s

    return Figure.of(sample(run, plan), amount=2.0 * values * team.size)


def measure_clock(team: Team, plan: Plan) -> Figure:
    """Cycles per second of the slowest core of a team, from a chain of dependent adds."""
    work = [Work(ctypes.addressof(_ZERO_WORD), ctypes.addressof(_ONE_WORD), 0, 16)] * team.size

    def run(repetitions: int) -> float:
        outcome = team.run(_chain(), work, repetitions)
        _check(outcome, 16 * repetitions * CHAIN_ADDS // 2, "clock")
        return outcome.time_s

    return Figure.of(sample(run, plan), amount=16.0 * CHAIN_ADDS)


def _check(outcome: Outcome, expected: int, name: str) -> None:
    if any(checksum != expected for checksum in outcome.checksums):
        raise wrong_result(name)
