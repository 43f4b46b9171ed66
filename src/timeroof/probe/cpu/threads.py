"""A team of threads, one pinned to each core, that start a micro-kernel at the same time."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import platform
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from timeroof.probe.cpu.ir import Compiled

# No kernel runs longer: a pass over the largest working set takes a fraction of a second.
LONGEST_KERNEL_S = 30.0


class Job(ctypes.Structure):
    """What one thread is to run, and what it found; the layout that ir.py reads."""

    _fields_ = [
        ("arrived", ctypes.c_void_p),
        ("threads", ctypes.c_int64),
        ("a", ctypes.c_void_p),
        ("b", ctypes.c_void_p),
        ("c", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("repetitions", ctypes.c_int64),
        ("start", ctypes.c_int64),
        ("end", ctypes.c_int64),
        ("checksum", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class Work:
    """The arguments of a kernel for one thread: addresses and a count."""

    a: int
    b: int
    c: int
    count: int


@dataclass(frozen=True)
class Outcome:
    """How long a team took, and each thread's checksum."""

    time_s: float
    checksums: list[int]


T = TypeVar("T")
Tasks = queue.SimpleQueue[Callable[[int], None] | None]
Finished = BaseException | None


class Team:
    """Pinned worker threads that live as long as the `with` block.

    >>> with Team([None]) as team:
    ...     team.call(lambda index: index + 1)
    [1]
    """

    def __init__(self, cpus: Sequence[int | None]) -> None:
        self.cpus = list(cpus)
        self.pinned = True
        self._tasks: list[Tasks] = []
        self._results: queue.SimpleQueue[Finished] = queue.SimpleQueue()

    @property
    def size(self) -> int:
        """Number of threads."""
        return len(self.cpus)

    def __enter__(self) -> Self:
        for index, cpu in enumerate(self.cpus):
            tasks: Tasks = queue.SimpleQueue()
            self._tasks.append(tasks)
            # Daemons, so that an error elsewhere never leaves the program hanging.
            threading.Thread(target=self._serve, args=(index, cpu, tasks), daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        for tasks in self._tasks:
            tasks.put(None)
        self._tasks.clear()

    def call(self, function: Callable[[int], T]) -> list[T]:
        """Run a function of the thread's number on every thread; the results in order."""
        results: dict[int, T] = {}
        ended = [False] * self.size

        def task(index: int) -> None:
            try:
                results[index] = function(index)
            finally:
                ended[index] = True

        failure: BaseException | None = None
        try:
            for tasks in self._tasks:
                tasks.put(task)
            for _ in range(self.size):
                failure = self._results.get() or failure
        except BaseException:
            self._wait_for(ended)
            raise
        if failure is not None:
            raise failure
        return [results[index] for index in range(self.size)]

    def _wait_for(self, ended: list[bool]) -> None:
        """After Ctrl-C: wait for kernels that still run, whose memory is about to go. By flags, as
        Ctrl-C takes the result with it that the queue was about to hand over."""
        patience = time.monotonic() + LONGEST_KERNEL_S
        while not all(ended) and time.monotonic() < patience:
            time.sleep(0.005)

    def run(self, kernel: Compiled, work: Sequence[Work], repetitions: int) -> Outcome:
        """Run a kernel on every thread, from the last arrival to the last end."""
        arrived = ctypes.c_int64(0)
        jobs = [
            Job(ctypes.addressof(arrived), self.size, w.a, w.b, w.c, w.count, repetitions)
            for w in work
        ]
        self.call(lambda index: kernel.run(ctypes.addressof(jobs[index])))
        ticks = max(job.end for job in jobs) - min(job.start for job in jobs)
        return Outcome(ticks / _ticks_per_second(), [job.checksum for job in jobs])

    def _serve(self, index: int, cpu: int | None, tasks: Tasks) -> None:
        if not pin_this_thread(cpu):
            self.pinned = False
        while (function := tasks.get()) is not None:
            try:
                function(index)
                self._results.put(None)
            except BaseException as error:
                self._results.put(error)


def pin_this_thread(cpu: int | None) -> bool:
    """Keep the calling thread on one CPU; False where the system has no such call."""
    if cpu is None or not hasattr(os, "sched_setaffinity"):
        return False
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {cpu})
        return True
    return False


def _ticks_per_second() -> float:
    if platform.system() != "Windows":
        return 1e9
    frequency = ctypes.c_int64()
    windll = getattr(ctypes, "windll")  # noqa: B009 - not there on other systems
    windll.kernel32.QueryPerformanceFrequency(ctypes.byref(frequency))
    return float(frequency.value)


# Memory for the micro-kernels: one region per thread, first touched by that thread.


PAGE_BYTES = 4096
HUGE_BYTES = 2 * 1024 * 1024


class Region:
    """Fresh anonymous memory with a known address."""

    def __init__(self, size_bytes: int, *, huge: bool = True) -> None:
        """`huge`: ask for huge pages, or take what comes."""
        self.size_bytes = size_bytes
        # Twice a huge page of slack, so that the start can be moved to the next one.
        self._map = private_map(size_bytes + 2 * HUGE_BYTES)
        if huge and hasattr(mmap, "MADV_HUGEPAGE"):
            # A kernel without them gives small ones.
            with contextlib.suppress(OSError):
                self._map.madvise(mmap.MADV_HUGEPAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.address = (start + HUGE_BYTES - 1) // HUGE_BYTES * HUGE_BYTES

    def array(self, offset: int, count: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
        """A view of the memory as numbers."""
        size = count * np.dtype(dtype).itemsize
        buffer = (ctypes.c_char * size).from_address(self.address + offset)
        # The buffer points into the map without holding it: the array must keep it alive.
        buffer.keep = self._map
        return np.frombuffer(buffer, dtype=dtype)


def private_map(size_bytes: int) -> mmap.mmap:
    """Anonymous memory of this process alone: Python's default is shared, without huge pages."""
    if platform.system() == "Windows":
        return mmap.mmap(-1, size_bytes)
    return mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def regions(team: Team, size_bytes: int) -> list[Region]:
    """One region per thread of a team, in the memory nearest to each thread."""

    def make(_index: int) -> Region:
        region = Region(size_bytes)
        ctypes.memset(region.address, 1, size_bytes)
        return region

    return team.call(make)


SIZE_BYTES = 8 * HUGE_BYTES
MAPS = Path("/proc/self/smaps")
HUGE, SMALL, MIXED = "huge (2 MB)", "4 kB", "both huge (2 MB) and 4 kB"


def pages_of_region() -> str | None:
    """The pages of memory that is made as the micro-kernels' is; None where nobody can tell."""
    region = Region(SIZE_BYTES)
    ctypes.memset(region.address, 1, SIZE_BYTES)
    try:
        text = MAPS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return pages_at(text, region.address, SIZE_BYTES)


def pages_at(smaps: str, address: int, size_bytes: int) -> str | None:
    """What `smaps` says of the mapping that holds an address.

    >>> text = "1000-5000 rw-p 0 00:00 0\\nAnonHugePages:        12 kB\\n"
    >>> pages_at(text, 0x2000, 12 << 10), pages_at(text, 0x9000, 1)
    ('huge (2 MB)', None)
    """
    inside = False
    for line in smaps.splitlines():
        head = line.partition(" ")[0]
        low, dash, high = head.partition("-")
        if dash and not head.endswith(":"):
            inside = int(low, 16) <= address < int(high, 16)
        elif inside and head == "AnonHugePages:":
            held = int(line.split()[1]) * 1024
            return HUGE if held >= 0.9 * size_bytes else MIXED if held else SMALL
    return None
