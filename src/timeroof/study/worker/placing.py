"""Where a case runs: one core, the first socket or all of them, with memory of their own nodes.

A thread that wanders to another socket, or reads memory of another node, measures the link between
them. Studies that compare cores, sockets and machines bind both (Czaja et al., 2020).
"""

from __future__ import annotations

import ctypes
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from timeroof.core.machine import Scope
from timeroof.probe.cpu.topology import Topology, numa_nodes, read_topology

# set_mempolicy(2): its number by architecture, and what it does with the nodes of a mask.
_CALLS = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261, "s390x": 270}
_BIND, _INTERLEAVE = 2, 3
_MASK_BITS = 1024
# mallopt(3): what is served by the heap alone, and when its end goes back to the system.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8


class Placement(NamedTuple):
    """The cores that a case may use, and the nodes that its memory comes from."""

    scope: Scope
    cores: tuple[int, ...]
    nodes: tuple[int, ...]

    @property
    def words(self) -> str:
        """In words.

        >>> Placement("socket", (0, 1, 2, 3), (0,)).words
        '1 socket, cores 0-3, memory of node 0'
        """
        kind = {"core": "1 core", "socket": "1 socket", "all": "all cores"}[self.scope]
        many = "s" * (len(self.cores) != 1)
        memory = ""
        if self.nodes:
            spread = "interleaved over nodes" if len(self.nodes) > 1 else "of node"
            memory = f", memory {spread} {_ranges(self.nodes)}"
        return f"{kind}, core{many} {_ranges(self.cores)}{memory}"


def placement(topology: Topology, nodes: dict[int, frozenset[int]], threads: int) -> Placement:
    """The cores and nodes of a number of threads: as few sockets as hold them.

    >>> two = Topology((0, 1, 2, 3), ((0, 1), (2, 3)), (), "")
    >>> nodes = {0: frozenset({0, 1}), 1: frozenset({2, 3})}
    >>> [placement(two, nodes, n)[:3] for n in (1, 2)]
    [('core', (0,), (0,)), ('socket', (0, 1), (0,))]
    >>> placement(two, nodes, 4).words
    'all cores, cores 0-3, memory interleaved over nodes 0-1'
    """
    in_order = [core for socket in topology.sockets for core in socket]
    cores = tuple((in_order or list(topology.cores))[:threads])
    several = len(topology.sockets) > 1
    scope: Scope = "core" if threads == 1 else "all"
    if threads > 1 and several and threads <= len(topology.sockets[0]):
        scope = "socket"
    held = tuple(sorted(node for node, cpus in nodes.items() if cpus & set(cores)))
    return Placement(scope, cores, held)


def place_counts(topology: Topology) -> list[int]:
    """Numbers of threads that are compared: one core, one socket, all sockets.

    >>> place_counts(Topology((0, 1, 2, 3), ((0, 1), (2, 3)), (), ""))
    [1, 2, 4]
    """
    sizes = [1, len(topology.cores)]
    if len(topology.sockets) > 1:
        sizes.insert(1, len(topology.sockets[0]))
    return list(dict.fromkeys(sizes))


def bind(threads: int) -> dict[str, str]:
    """Bind this process to the place of so many threads; labels that say what came of it."""
    found = placement(_TOPOLOGY, numa_nodes(), threads)
    held = _pin(found.cores)
    kept = bind_memory(found.nodes)
    words = found.words if kept or len(numa_nodes()) < 2 else f"{found.words} (refused)"
    return {"scope": found.scope, "placed": words if held else "the system binds no cores"}


# Before anything is bound: a bound process sees its own cores only.
_TOPOLOGY = read_topology()


def _pin(cores: tuple[int, ...]) -> bool:
    if not hasattr(os, "sched_setaffinity") or not cores:
        return False
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError, ValueError):
            os.sched_setaffinity(int(thread.name), cores)
    return os.sched_getaffinity(0) <= set(cores)


def bind_memory(nodes: tuple[int, ...]) -> bool:
    """Take new memory from these nodes: bound to one, interleaved over several."""
    number = _CALLS.get(platform.machine())
    if number is None or not nodes or platform.system() != "Linux":
        return False
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask = (ctypes.c_ulong * (_MASK_BITS // bits))()
    for node in nodes:
        mask[node // bits] |= 1 << (node % bits)
    how = _BIND if len(nodes) == 1 else _INTERLEAVE
    return int(ctypes.CDLL(None).syscall(number, how, mask, _MASK_BITS + 1)) == 0


def _ranges(numbers: tuple[int, ...]) -> str:
    """Numbers as the kernel writes them.

    >>> _ranges((0, 1, 2, 5))
    '0-2,5'
    """
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def keep_memory() -> None:
    """Have malloc keep what is freed, as the allocators of GPUs, jemalloc and tcmalloc do: results
    are then written to pages that the execution before has mapped. glibc maps large ones anew each
    time, and page faults would hide the memory level behind them. A user's own setting stays."""
    given = " ".join(name for name in os.environ if name.startswith("MALLOC_"))
    if given or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_MAX, 0)
        # Other arenas are mapped in pieces of 64 MB: what is larger would be mapped anew.
        libc.mallopt(_ARENA_MAX, 1)
        libc.mallopt(_TRIM_THRESHOLD, -1)


def give_memory_back() -> None:
    """What malloc kept goes back to the system."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
