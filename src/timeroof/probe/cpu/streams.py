"""The patterns of memory traffic: what they move, their data, and proof that they did it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from timeroof.probe.cpu.features import Features
from timeroof.probe.cpu.ir import module, width_attributes
from timeroof.probe.cpu.ir_memory import BLOCK_BYTES, stream_kernel
from timeroof.probe.cpu.jit import Compiled, compile_ir
from timeroof.probe.cpu.memory import PAGE_BYTES, Region
from timeroof.probe.cpu.threads import Work
from timeroof.probe.problems import wrong_result

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
    return compile_ir(module(kernel, attributes=width_attributes(width_bits, architecture)))


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
        if self.pattern.name == "read":
            expected = passes * self.blocks * (int(TEMPLATE_BITS.astype(object).sum()))
        else:
            expected = passes * self.blocks
        if checksum != expected % (1 << 64):
            raise wrong_result(self.pattern.name)

    def _expected(self, passes: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]] | None:
        name = self.pattern.name.removesuffix("-nt")
        if name == "write":
            return np.full(BLOCK_VALUES, ONE_BITS + passes, dtype=np.uint64)
        if name == "update":
            return TEMPLATE_BITS + np.uint64(passes)
        if name == "triad":
            return (TEMPLATE + FACTOR * TEMPLATE).view(np.uint64)
        return TEMPLATE_BITS

    def _offset(self, index: int) -> int:
        """Arrays begin on pages of their own, so that no two share a line."""
        size = self.blocks * BLOCK_BYTES
        return index * (-(-size // PAGE_BYTES) * PAGE_BYTES)

    def _array(self, index: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        flat = self.region.array(self._offset(index), self.blocks * BLOCK_VALUES)
        return flat.reshape(self.blocks, BLOCK_VALUES)
