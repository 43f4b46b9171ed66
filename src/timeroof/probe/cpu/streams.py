"""The patterns of memory traffic: what they move, their data, and proof that they did it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from timeroof.probe.cpu import ir
from timeroof.probe.cpu.ir import Compiled, Vector, compile_ir, loop_kernel, module
from timeroof.probe.cpu.threads import PAGE_BYTES, Region, Work
from timeroof.probe.cpu.topology import Features
from timeroof.probe.sampling import wrong_result

# LLVM IR of the memory micro-kernels: streams, a chain of dependent loads, fresh pages.


# Bytes of one array that a turn of the inner loop covers; arrays are a multiple of it.
BLOCK_BYTES = 512

# The bits of 1.0: written numbers start here, so that read as fp64 they are ordinary.
_ONE_BITS = 0x3FF0000000000000

# Loads in one turn of the latency loop.
CHASE_LOADS = 16


def stream_kernel(pattern: str, width_bits: int, *, fma: bool = True) -> str:
    """One pass over the arrays per repetition; `count` is the blocks of one array.

    read      sum of a                        checksum: the sum over all repetitions
    write     a = the repetition's number, from 1, above the bits of 1.0
    update    a = a + 1                       in place: a line comes in and goes out
    copy      a = b
    triad     a = b + 3·c in fp64
    write-nt, copy-nt, triad-nt: the same with non-temporal stores.

    Nothing here writes zeros: on a Zen 4 server, non-temporal stores of zeros ran at
    84 GB/s where those of any other value ran at 27, which no real data would see.
    """
    name, _, streaming = pattern.partition("-")
    flag = ", !nontemporal !0" if streaming else ""
    lines = [
        *([_FMA_DECLARATION] if name == "triad" and fma else []),
        f"{ir.SIGNATURE} #0 {{",
        *_BODIES[name](width_bits // 64, flag, fma),
        # Non-temporal stores wait in buffers: a fence, so that the time contains their end.
        *(["fence seq_cst"] if streaming else []),
        "ret i64 %checksum",
        "}",
        *(["!0 = !{ i32 1 }"] if streaming else []),
        "",
    ]
    lanes = width_bits // 64
    return "\n".join(lines).replace("<L x", f"<{lanes} x").replace("vLf64", f"v{lanes}f64")


def _loop(setup: list[str], phis: list[str], body: list[str], ending: list[str]) -> list[str]:
    return [
        "entry:",
        *setup,
        "br label %again",
        "again:",
        "%turn = phi i64 [ 0, %entry ], [ %turn_next, %done ]",
        *(line.format(first="%entry", last="%done") for line in phis if "{first}" in line),
        "br label %block",
        "block:",
        "%i = phi i64 [ 0, %again ], [ %i_next, %block ]",
        *(line for line in phis if "{first}" not in line),
        f"%at = mul i64 %i, {BLOCK_BYTES}",
        *body,
        "%i_next = add i64 %i, 1",
        "%more = icmp ult i64 %i_next, %count",
        "br i1 %more, label %block, label %done",
        "done:",
        "%turn_next = add i64 %turn, 1",
        "%once_more = icmp ult i64 %turn_next, %repetitions",
        "br i1 %once_more, label %again, label %out",
        "out:",
        *ending,
    ]


def _address(array: str, j: int, size: int) -> list[str]:
    return [
        f"%{array}_off{j} = add i64 %at, {j * size}",
        f"%{array}_at{j} = getelementptr i8, ptr %{array}, i64 %{array}_off{j}",
    ]


def _read(lanes: int, _flag: str, _fma: bool) -> list[str]:
    vector = Vector("i64", lanes)
    per_block = BLOCK_BYTES // vector.bytes
    sums = min(per_block, 8)
    phis, body, ending = [], [], []
    for k in range(sums):
        last = f"%s{per_block - sums + k}"
        phis.append(f"%o{k} = phi <L x i64> [ zeroinitializer, {{first}} ], [ {last}, {{last}} ]")
        phis.append(f"%p{k} = phi <L x i64> [ %o{k}, %again ], [ {last}, %block ]")
    for j in range(per_block):
        left = f"%p{j}" if j < sums else f"%s{j - sums}"
        body += _address("a", j, vector.bytes)
        body.append(f"%v{j} = load <L x i64>, ptr %a_at{j}, align {vector.bytes}")
        body.append(f"%s{j} = add <L x i64> {left}, %v{j}")
    total = "zeroinitializer"
    for k in range(sums):
        ending.append(f"%t{k} = add <L x i64> {total}, %s{per_block - sums + k}")
        total = f"%t{k}"
    for lane in range(lanes):
        ending.append(f"%e{lane} = extractelement <L x i64> {total}, i32 {lane}")
        ending.append(f"%f{lane} = add i64 {'0' if lane == 0 else f'%f{lane - 1}'}, %e{lane}")
    ending.append(f"%checksum = add i64 %f{lanes - 1}, 0")
    return _loop([], phis, body, ending)


def _write(lanes: int, flag: str, _fma: bool) -> list[str]:
    vector = Vector("i64", lanes)
    body = [f"%number = add i64 %turn, {_ONE_BITS + 1}", *vector.splat("value", "%number")]
    for j in range(BLOCK_BYTES // vector.bytes):
        body += _address("a", j, vector.bytes)
        body.append(f"store <L x i64> %value, ptr %a_at{j}, align {vector.bytes}{flag}")
    return _loop([], [], body, _WALKED)


def _update(lanes: int, flag: str, _fma: bool) -> list[str]:
    vector = Vector("i64", lanes)
    body = []
    for j in range(BLOCK_BYTES // vector.bytes):
        body += _address("a", j, vector.bytes)
        body.append(f"%v{j} = load <L x i64>, ptr %a_at{j}, align {vector.bytes}")
        body.append(f"%w{j} = add <L x i64> %v{j}, %one")
        body.append(f"store <L x i64> %w{j}, ptr %a_at{j}, align {vector.bytes}{flag}")
    return _loop(vector.splat("one", "1"), [], body, _WALKED)


def _copy(lanes: int, flag: str, _fma: bool) -> list[str]:
    vector = Vector("i64", lanes)
    body = []
    for j in range(BLOCK_BYTES // vector.bytes):
        body += _address("a", j, vector.bytes) + _address("b", j, vector.bytes)
        body.append(f"%v{j} = load <L x i64>, ptr %b_at{j}, align {vector.bytes}")
        body.append(f"store <L x i64> %v{j}, ptr %a_at{j}, align {vector.bytes}{flag}")
    return _loop([], [], body, _WALKED)


def _triad(lanes: int, flag: str, fma: bool) -> list[str]:
    vector = Vector("double", lanes)
    body = []
    for j in range(BLOCK_BYTES // vector.bytes):
        for array in "abc":
            body += _address(array, j, vector.bytes)
        body.append(f"%v{j} = load <L x double>, ptr %b_at{j}, align {vector.bytes}")
        body.append(f"%w{j} = load <L x double>, ptr %c_at{j}, align {vector.bytes}")
        body += _multiply_add(j, fma=fma)
        body.append(f"store <L x double> %z{j}, ptr %a_at{j}, align {vector.bytes}{flag}")
    return _loop(vector.splat("factor", "3.0"), [], body, _WALKED)


def _multiply_add(j: int, *, fma: bool) -> list[str]:
    """%z = %w · factor + %v; a CPU without the instruction would call a slow function for it."""
    if not fma:
        product = f"%m{j} = fmul <L x double> %w{j}, %factor"
        return [product, f"%z{j} = fadd <L x double> %m{j}, %v{j}"]
    call = f"@llvm.fma.vLf64(<L x double> %w{j}, <L x double> %factor, <L x double> %v{j})"
    return [f"%z{j} = call <L x double> {call}"]


_FMA_DECLARATION = "declare <L x double> @llvm.fma.vLf64(<L x double>, <L x double>, <L x double>)"

# What a pass that returns no sum gives back: the blocks it walked.
_WALKED = ["%checksum = mul i64 %i_next, %turn_next"]

_BODIES = {"read": _read, "write": _write, "update": _update, "copy": _copy, "triad": _triad}


def chase_kernel() -> str:
    """Follow a ring of pointers, each load needing the last one's result. `count` × repetitions
    turns of CHASE_LOADS loads; b points to where the walk starts and keeps where it ended, so that
    the next one goes on. The checksum is that address."""
    lasts = ["%p", *(f"%n{k}" for k in range(CHASE_LOADS))]
    loads = [f"%n{k} = load ptr, ptr {lasts[k]}, align 8" for k in range(CHASE_LOADS)]
    end = lasts[-1]
    setup = ["%first = load ptr, ptr %b, align 8", "%turns = mul i64 %count, %repetitions"]
    phis = [f"%p = phi ptr [ %first, %entry ], [ {end}, %step ]"]
    kept = [f"store ptr {end}, ptr %b, align 8", f"%checksum = ptrtoint ptr {end} to i64"]
    return loop_kernel(setup, phis, loads, [*kept, "ret i64 %checksum"])


def touch_kernel(page_bytes: int) -> str:
    """Write one value to each of `count` pages from a on; the checksum counts them."""
    at = [f"%at = mul i64 %i, {page_bytes}", "%page = getelementptr i8, ptr %a, i64 %at"]
    body = [*at, "store i64 %i_next, ptr %page, align 8"]
    return loop_kernel([], [], body, ["ret i64 %i_next"], turns="%count")


# Eight-byte values of one block; between 1 and 2, so that sums and products are exact and
# never denormal, and none is zero.
BLOCK_VALUES = BLOCK_BYTES // 8
TEMPLATE = 1.0 + np.arange(BLOCK_VALUES) / BLOCK_VALUES
TEMPLATE_BITS = TEMPLATE.view(np.uint64)
ONE_BITS = int(np.float64(1.0).view(np.uint64))
FACTOR = 3.0
MANY_BLOCKS = 1 << 14


@dataclass(frozen=True)
class Pattern:
    """A pattern: how many arrays it uses and how many loads and stores it makes of each value."""

    name: str
    arrays: int
    loads: int
    stores: int

    @property
    def streaming(self) -> bool:
        """Whether its stores go past the caches."""
        return self.name.endswith("-nt")

    @property
    def traffic_per_byte(self) -> float:
        """Useful bytes moved in one pass per byte of working set."""
        return (self.loads + self.stores) / self.arrays


PATTERNS = {
    pattern.name: pattern
    for pattern in (
        Pattern("read", 1, 1, 0),
        Pattern("write", 1, 0, 1),
        Pattern("update", 1, 1, 1),
        Pattern("copy", 2, 1, 1),
        Pattern("triad", 3, 2, 1),
        Pattern("write-nt", 1, 0, 1),
        Pattern("copy-nt", 2, 1, 1),
        Pattern("triad-nt", 3, 2, 1),
    )
}


@functools.cache
def _compiled(name: str, width_bits: int, fma: bool, architecture: str) -> Compiled:
    kernel = stream_kernel(name, width_bits, fma=fma)
    return compile_ir(module(kernel, attributes=ir.width_attributes(width_bits, architecture)))


def compiled_stream(pattern: Pattern, width_bits: int, features: Features) -> Compiled:
    """The machine code of a pattern with vectors of a width."""
    return _compiled(pattern.name, width_bits, features.fma, features.architecture)


@dataclass(frozen=True)
class Stream:
    """The arrays of a pattern inside one thread's region."""

    pattern: Pattern
    region: Region
    blocks: int

    @classmethod
    def of_size(cls, pattern: Pattern, region: Region, size_bytes: int) -> Stream:
        """Arrays that together take a size, rounded down to whole blocks."""
        return cls(pattern, region, max(1, size_bytes // pattern.arrays // BLOCK_BYTES))

    @property
    def size_bytes(self) -> int:
        """The working set: all arrays together."""
        return self.blocks * BLOCK_BYTES * self.pattern.arrays

    @property
    def moved_bytes(self) -> float:
        """Useful bytes of one pass."""
        return self.size_bytes * self.pattern.traffic_per_byte

    @property
    def work(self) -> Work:
        """The kernel's arguments."""
        a, b, c = (self.region.address + self._offset(index) for index in range(3))
        return Work(a, b, c, self.blocks)

    def fill(self) -> None:
        """Put known data into every array."""
        for index in range(self.pattern.arrays):
            self._array(index)[:] = TEMPLATE

    def check(self, passes: int) -> None:
        """Raise unless the arrays hold what this many passes since the fill leave behind."""
        # All of a small array; of a large one every 16th block and the last.
        step = 16 if self.blocks > MANY_BLOCKS else 1
        bits = self._array(0).view(np.uint64)[::-step]
        expected = self._expected(passes)
        if expected is not None and not (bits == expected).all():
            raise wrong_result(self.pattern.name)

    def check_sum(self, checksum: int, passes: int) -> None:
        """Raise unless a kernel's checksum is what the data give."""
        block = int(TEMPLATE_BITS.astype(object).sum()) if self.pattern.name == "read" else 1
        if checksum != passes * self.blocks * block % (1 << 64):
            raise wrong_result(self.pattern.name)

    def _expected(self, passes: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]] | None:
        name = self.pattern.name.removesuffix("-nt")
        if name == "write":
            return np.full(BLOCK_VALUES, ONE_BITS + passes, dtype=np.uint64)
        if name == "update":
            return TEMPLATE_BITS + np.uint64(passes)
        return (TEMPLATE + FACTOR * TEMPLATE).view(np.uint64) if name == "triad" else TEMPLATE_BITS

    def _offset(self, index: int) -> int:
        """Arrays begin on pages of their own, so that no two share a line."""
        size = self.blocks * BLOCK_BYTES
        return index * (-(-size // PAGE_BYTES) * PAGE_BYTES)

    def _array(self, index: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        flat = self.region.array(self._offset(index), self.blocks * BLOCK_VALUES)
        return flat.reshape(self.blocks, BLOCK_VALUES)
