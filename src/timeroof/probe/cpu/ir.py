"""LLVM IR that every micro-kernel shares: start together, time inside, hand back a checksum.

A micro-kernel is one function `i64 @kernel(ptr a, ptr b, ptr c, i64 count, i64 repetitions)`
in a module of its own. The clock is read next to it, in native code, so that neither Python
nor its lock is in the measured time, and the threads of a team spin on one counter so that
none starts before the last one is there.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from timeroof.core.errors import UsageError

# A thread that waits gives way now and then: the one it waits for may need this very core
# to get started. A power of two, less one.
LOOKS_AT_ONCE = (1 << 12) - 1

# A thread that never arrives must not hang the others for good: after this many looks
# at the counter (some seconds) they start without it.
MOST_LOOKS = 1 << 28

SIGNATURE = "define internal i64 @kernel(ptr %a, ptr %b, ptr %c, i64 %count, i64 %repetitions)"

_POSIX_CLOCK = """
declare i32 @clock_gettime(i32, ptr)
define internal i64 @now() {{
  %time = alloca [2 x i64], align 16
  %status = call i32 @clock_gettime(i32 {clock}, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %rest_at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest_at, align 8
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}}
"""

_WINDOWS_CLOCK = """
declare i32 @QueryPerformanceCounter(ptr)
define internal i64 @now() {
  %time = alloca i64, align 8
  %status = call i32 @QueryPerformanceCounter(ptr %time)
  %now = load i64, ptr %time, align 8
  ret i64 %now
}
"""

# The fields of Job in job order; see threads.py.
_RUN = """
declare i32 @{give_way}()
define void @run(ptr %job) {{
entry:
  %arrived = load ptr, ptr %job, align 8
  %threads_at = getelementptr i64, ptr %job, i64 1
  %threads = load i64, ptr %threads_at, align 8
  %a_at = getelementptr i64, ptr %job, i64 2
  %a = load ptr, ptr %a_at, align 8
  %b_at = getelementptr i64, ptr %job, i64 3
  %b = load ptr, ptr %b_at, align 8
  %c_at = getelementptr i64, ptr %job, i64 4
  %c = load ptr, ptr %c_at, align 8
  %count_at = getelementptr i64, ptr %job, i64 5
  %count = load i64, ptr %count_at, align 8
  %repetitions_at = getelementptr i64, ptr %job, i64 6
  %repetitions = load i64, ptr %repetitions_at, align 8
  %before = atomicrmw add ptr %arrived, i64 1 seq_cst
  br label %wait
wait:
  %looks = phi i64 [ 0, %entry ], [ %looks_next, %look_again ], [ %looks_next, %give_way ]
  %there = load atomic i64, ptr %arrived seq_cst, align 8
  %looks_next = add i64 %looks, 1
  %all_there = icmp uge i64 %there, %threads
  %enough = icmp uge i64 %looks_next, {most_looks}
  %go = or i1 %all_there, %enough
  br i1 %go, label %work, label %look_again
look_again:
  %rest = and i64 %looks_next, {looks_at_once}
  %tired = icmp eq i64 %rest, 0
  br i1 %tired, label %give_way, label %wait
give_way:
  %given = call i32 @{give_way}()
  br label %wait
work:
  %start = call i64 @now()
  %checksum = call i64 @kernel(ptr %a, ptr %b, ptr %c, i64 %count, i64 %repetitions)
  %end = call i64 @now()
  %start_at = getelementptr i64, ptr %job, i64 7
  store i64 %start, ptr %start_at, align 8
  %end_at = getelementptr i64, ptr %job, i64 8
  store i64 %end, ptr %end_at, align 8
  %checksum_at = getelementptr i64, ptr %job, i64 9
  store i64 %checksum, ptr %checksum_at, align 8
  ret void
}}
"""


@dataclass(frozen=True)
class Vector:
    """A vector type of LLVM IR."""

    element: str
    lanes: int

    @property
    def type(self) -> str:
        """The type as IR spells it."""
        return f"<{self.lanes} x {self.element}>"

    @property
    def suffix(self) -> str:
        """How names of intrinsics end for this type, such as v4f64."""
        return f"v{self.lanes}" + {"double": "f64", "float": "f32", "i64": "i64"}[self.element]

    @property
    def bytes(self) -> int:
        """Size of one vector in bytes."""
        return self.lanes * {"double": 8, "float": 4, "i64": 8}[self.element]

    def splat(self, name: str, value: str) -> list[str]:
        """Lines that put one scalar into every lane, as %name."""
        first = f"%{name}_first = insertelement {self.type} poison, {self.element} {value}, i32 0"
        mask = f"<{self.lanes} x i32> zeroinitializer"
        spread = f"%{name} = shufflevector {self.type} %{name}_first, {self.type} poison, {mask}"
        return [first, spread]


def module(kernel: str, *, platform: str = sys.platform, attributes: str = "") -> str:
    """The whole text of a module: the kernel, the clock and the common way in."""
    # CLOCK_MONOTONIC has another number on macOS.
    clock, give_way = _POSIX_CLOCK.format(clock=6 if platform == "darwin" else 1), "sched_yield"
    if platform == "win32":
        clock, give_way = _WINDOWS_CLOCK, "SwitchToThread"
    start = _RUN.format(most_looks=MOST_LOOKS, looks_at_once=LOOKS_AT_ONCE, give_way=give_way)
    return f"{kernel}{clock}{start}attributes #0 = {{ noinline nounwind {attributes} }}\n"


def loop_kernel(
    setup: Sequence[str], phis: Sequence[str], body: Sequence[str], ending: Sequence[str],
    turns: str = "%turns",
) -> str:  # fmt: skip
    """A kernel of one loop that makes so many turns, numbered %i from 0 on."""
    begin = [f"{SIGNATURE} #0 {{", "entry:", *setup, "br label %step", "step:"]
    number = ["%i = phi i64 [ 0, %entry ], [ %i_next, %step ]", *phis, "%i_next = add i64 %i, 1"]
    again = [f"%more = icmp ult i64 %i_next, {turns}", "br i1 %more, label %step, label %out"]
    return "\n".join([*begin, *number, *body, *again, "out:", *ending, "}", ""])


def width_attributes(width_bits: int, architecture: str) -> str:
    """Function attributes that keep vectors of a width whole instead of split in two."""
    if architecture == "aarch64" and width_bits > 128:
        scale = width_bits // 128
        return f'vscale_range({scale},{scale}) "target-features"="+sve"'
    if architecture == "x86_64":
        width = max(width_bits, 128)
        return f'"min-legal-vector-width"="{width}" "prefer-vector-width"="{width}"'
    return ""


# LLVM IR compiled in this process with llvmlite: no compiler on the user's machine.


class Compiled:
    """A compiled micro-kernel; keeps the engine that owns its code alive."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        address = engine.get_function_address("run")
        # A plain CFUNCTYPE call gives up Python's lock while the kernel runs.
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)


def architecture() -> str:
    """The instruction set as LLVM names it: x86_64, aarch64 or what the system says."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


@functools.cache
def _binding() -> Any:
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise UsageError(
            f"this computer cannot be measured without llvmlite, which cannot be loaded ({reason})",
            advice="install it (pip install llvmlite) or name a machine with --machine",
        ) from error
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def host_cpu_name() -> str:
    """LLVM's name of this CPU's microarchitecture, such as znver4."""
    return str(_binding().get_host_cpu_name())


def host_features() -> frozenset[str]:
    """LLVM's names of the instruction set extensions that this CPU has."""
    return frozenset(name for name, present in _host_features().items() if present)


@functools.cache
def _host_features() -> dict[str, bool]:
    """LLVM cannot tell them on every system; the CPU's name alone is then enough for it."""
    try:
        return dict(_binding().get_host_cpu_features())
    except RuntimeError:
        return {}


def compile_ir(text: str) -> Compiled:
    """Compile a module with a function `run` for this very CPU."""
    llvm = _binding()
    module = llvm.parse_assembly(text)
    module.verify()
    # The engine takes the target machine over, so that each kernel needs one of its own.
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=",".join(f"{'+' if on else '-'}{n}" for n, on in _host_features().items()),
        opt=3,
        jit=True,
    )
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return Compiled(engine)
