"""Floating-point peaks and the clock: LLVM IR of their micro-kernels, and what they reach."""

from __future__ import annotations

import ctypes
import functools

from timeroof.probe.cpu import ir
from timeroof.probe.cpu.ir import Compiled, Vector, compile_ir, loop_kernel, module
from timeroof.probe.cpu.threads import Outcome, Team, Work
from timeroof.probe.cpu.topology import Features
from timeroof.probe.sampling import Figure, Plan, sample, wrong_result

ELEMENTS = {"fp64": "double", "fp32": "float"}

# Adds in one turn of the clock's loop: enough that the loop's own branch is nothing.
CHAIN_ADDS = 256


def accumulators(architecture: str) -> int:
    """How many chains run side by side: above latency × ports, below the registers. x86 needs 4 × 2
    of its 16; ARM cores go up to 4 × 4 (Neoverse V) and 9 × 2 (A64FX) of 32."""
    return 24 if architecture == "aarch64" else 12


def compute_kernel(precision: str, lanes: int, *, fma: bool, chains: int) -> str:
    """Every step is x = x·a + b in all lanes of all chains, `count` steps per repetition.

    The caller passes a = 1 and b = 1 at run time, which the compiler cannot know, so the
    sum over all lanes is count × chains × lanes per repetition: exact, and zero if skipped.
    Each repetition starts at 0 so that the count stays exact in fp32.
    """
    vector = Vector(ELEMENTS[precision], lanes)
    return "\n".join(
        [
            *_declarations(vector, fma=fma),
            f"{ir.SIGNATURE} #0 {{",
            "entry:",
            f"%a_value = load {vector.element}, ptr %a, align 8",
            f"%b_value = load {vector.element}, ptr %b, align 8",
            *vector.splat("av", "%a_value"),
            *vector.splat("bv", "%b_value"),
            "br label %again",
            *_repetition(vector, chains, fma=fma),
            "}",
            "",
        ]
    )


def _declarations(vector: Vector, *, fma: bool) -> list[str]:
    kind, suffix = vector.type, vector.suffix
    reduce = f"@llvm.vector.reduce.fadd.{suffix}({vector.element}, {kind})"
    lines = [f"declare {kind} @llvm.fma.{suffix}({kind}, {kind}, {kind})"] if fma else []
    return [*lines, f"declare {vector.element} {reduce}"]


def _repetition(vector: Vector, chains: int, *, fma: bool) -> list[str]:
    kind = vector.type
    phis = [
        f"%x{j} = phi {kind} [ zeroinitializer, %again ], [ %y{j}, %step ]" for j in range(chains)
    ]
    steps = [line for j in range(chains) for line in _step(vector, j, fma=fma)]
    return [
        "again:",
        "%turn = phi i64 [ 0, %entry ], [ %turn_next, %done ]",
        "%total = phi i64 [ 0, %entry ], [ %total_next, %done ]",
        "br label %step",
        "step:",
        "%i = phi i64 [ 0, %again ], [ %i_next, %step ]",
        *phis,
        *steps,
        "%i_next = add i64 %i, 1",
        "%more = icmp ult i64 %i_next, %count",
        "br i1 %more, label %step, label %done",
        "done:",
        *_sum(vector, chains),
        "%total_next = add i64 %total, %sum_count",
        "%turn_next = add i64 %turn, 1",
        "%once_more = icmp ult i64 %turn_next, %repetitions",
        "br i1 %once_more, label %again, label %out",
        "out:",
        "ret i64 %total_next",
    ]


def _step(vector: Vector, j: int, *, fma: bool) -> list[str]:
    kind, suffix = vector.type, vector.suffix
    if fma:
        call = f"@llvm.fma.{suffix}({kind} %x{j}, {kind} %av, {kind} %bv)"
        return [f"%y{j} = call {kind} {call}"]
    return [f"%m{j} = fmul {kind} %x{j}, %av", f"%y{j} = fadd {kind} %m{j}, %bv"]


def _sum(vector: Vector, chains: int) -> list[str]:
    lines = []
    for j in range(chains):
        zero = f"{vector.element} -0.0"
        call = f"@llvm.vector.reduce.fadd.{vector.suffix}({zero}, {vector.type} %y{j})"
        # `reassoc` allows the sum as a tree, which has an instruction on every target.
        lines.append(f"%r{j} = call reassoc {vector.element} {call}")
        lines.append(f"%n{j} = fptoui {vector.element} %r{j} to i64")
        left = "0" if j == 0 else f"%s{j - 1}"
        lines.append(f"%s{j} = add i64 {left}, %n{j}")
    lines.append(f"%sum_count = add i64 %s{chains - 1}, 0")
    return lines


def chain_kernel() -> str:
    """A chain in which every instruction needs the last one's result: one cycle each.

    x = (x ^ a) + b with values from memory: the compiler can fold neither, and cores that
    drop an add of a constant while renaming registers (Golden Cove) cannot drop these.
    With a = 0 and b = 1 the result counts the turns.
    """
    lines = []
    for k in range(CHAIN_ADDS // 2):
        last = "%x" if k == 0 else f"%p{k - 1}"
        lines += [f"%q{k} = xor i64 {last}, %av", f"%p{k} = add i64 %q{k}, %bv"]
    end = f"%p{CHAIN_ADDS // 2 - 1}"
    loads = ["%av = load i64, ptr %a, align 8", "%bv = load i64, ptr %b, align 8"]
    setup = [*loads, "%turns = mul i64 %count, %repetitions"]
    phis = [f"%x = phi i64 [ 0, %entry ], [ {end}, %step ]"]
    return loop_kernel(setup, phis, lines, [f"ret i64 {end}"])


PRECISIONS = ("fp64", "fp32")
ELEMENT_BITS = {"fp64": 64, "fp32": 32}

# Steps per repetition: long against starting anew, short enough to count exactly in fp32.
STEPS = 4096

# What the kernels read at run time so that the compiler knows nothing.
_ONE = {"fp64": ctypes.c_double(1.0), "fp32": ctypes.c_float(1.0)}
_ZERO_WORD, _ONE_WORD = ctypes.c_int64(0), ctypes.c_int64(1)


def variant_name(width_bits: int, *, fma: bool) -> str:
    """How a variant is called in tables.

    >>> variant_name(256, fma=True)
    '256-bit FMA'
    """
    return f"{width_bits}-bit" + (" FMA" if fma else "")


@functools.cache
def _compute(precision: str, width_bits: int, fma: bool, architecture: str) -> Compiled:
    lanes = width_bits // ELEMENT_BITS[precision]
    chains = accumulators(architecture)
    kernel = compute_kernel(precision, lanes, fma=fma, chains=chains)
    return compile_ir(module(kernel, attributes=ir.width_attributes(width_bits, architecture)))


@functools.cache
def _chain() -> Compiled:
    return compile_ir(module(chain_kernel()))


def measure_flops(
    team: Team, precision: str, width_bits: int, features: Features, plan: Plan
) -> Figure:
    """FLOPs per second of a team with vectors of a width."""
    fma = features.fma
    kernel = _compute(precision, width_bits, fma, features.architecture)
    lanes = width_bits // ELEMENT_BITS[precision]
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
