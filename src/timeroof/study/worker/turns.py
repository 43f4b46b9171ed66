"""Cases of any framework in turns: where each runs, who else runs, how many fit into memory.

A framework gives a `Maker`; everything that does not know it is here.

A thread that wanders to another socket, or reads memory of another node, measures the link between
them. Studies that compare cores, sockets and machines bind both (Czaja et al., 2020).
"""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from timeroof.core.errors import trace_ignored
from timeroof.core.machine import Scope
from timeroof.probe.cpu.topology import Topology, numa_nodes, read_topology
from timeroof.study.case import BUSY, Case, Clock, Plan, Result, Status
from timeroof.study.worker.own import OwnError, line_of_program, traceback_of
from timeroof.study.worker.sampling import (
    Clock as CpuClock,
    Entrant,
    LoadMeter,
    Sampled,
    clock_for,
    cpu_clock,
    overwriter,
    sample,
    share_of_others,
)

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


# Tensors of cases that are ready at the same time; what does not fit waits for the next turn.
MOST_BYTES = 1 << 30


class ReadyCase(Protocol):
    """A case that can be run."""

    @property
    def entrant(self) -> Entrant:
        """One execution, and what it needs around it."""
        ...

    @property
    def working_set_bytes(self) -> int:
        """Bytes of what it works on."""
        ...


R = TypeVar("R", bound=ReadyCase)


class Maker(Protocol[R]):
    """What a framework does with a case."""

    def refusal(self, case: Case) -> str | None:
        """Why a case cannot run here; None where it can, or may."""
        ...

    def use_threads(self, count: int) -> None:
        """Run what follows on so many threads."""
        ...

    def ready(self, case: Case) -> AbstractContextManager[R]:
        """A case made ready; whatever the framework raises is what the case came to."""
        ...

    def outcome(self, error: Exception) -> tuple[Status, str]:
        """What an error of the framework means, and its words."""
        ...

    def result(self, case: Case, ready: R, sampled: Sampled) -> Result:
        """Samples with what one execution used and did."""
        ...

    def clear(self, cases: Sequence[Case]) -> None:
        """Forget what was compiled or kept for these cases."""
        ...


class Turns(Generic[R]):
    """Measures cases of one framework, together as far as they fit."""

    def __init__(self, maker: Maker[R], alone: CpuClock = cpu_clock) -> None:
        self._maker = maker
        # What is read beside other programs: the CPU time of whatever does the work.
        self._alone = alone

    def measure(
        self, cases: Sequence[Case], plan: Plan, beat: Callable[[], None]
    ) -> Iterator[Result]:
        """Measure cases in turns, and hand over a result of each in their order.

        Beside other programs they run on one thread, by its CPU time. Where others come while all
        threads run, that turn is thrown away: it is never half and half.
        """
        waiting = list(cases)
        while waiting:
            # One thread that was asked for is timed by its CPU time all the same.
            may = plan.one_thread_beside_others or waiting[0].threads == 1
            may = may and waiting[0].device == "cpu"
            alone = may and (share_of_others() or 0.0) > BUSY
            found = self._turn(waiting, plan, beat, alone=alone)
            if may and not alone and any((one.load or 0.0) > BUSY for one in found):
                found = self._turn(waiting[: len(found)], plan, beat, alone=True)
            yield from found
            del waiting[: len(found)]

    def _turn(
        self, waiting: Sequence[Case], plan: Plan, beat: Callable[[], None], *, alone: bool
    ) -> list[Result]:
        """Results of the first cases that fit into memory together."""
        ready: dict[int, R] = {}
        results: dict[int, Result] = {}
        size, taken = 0, [_on_one_thread(c) if alone else c for c in waiting]
        self._maker.use_threads(taken[0].threads)
        placed = bind(taken[0].threads) if plan.bind else {}
        with ExitStack() as stack:
            for place, case in enumerate(taken):
                made = self._made(case, stack)
                beat()
                if isinstance(made, Result):
                    results[place] = made
                else:
                    ready[place] = made
                    size += made.working_set_bytes
                if size > MOST_BYTES:
                    del taken[place + 1 :]
                    break
            results |= self._sampled(taken, ready, plan, beat, alone=alone)
        if placed:
            results = {
                place: msgspec.structs.replace(found, labels=found.labels | placed)
                for place, found in results.items()
            }
        del ready
        self._maker.clear(taken)
        gc.collect()
        give_memory_back()
        return [results[place] for place in range(len(taken))]

    def _made(self, case: Case, stack: ExitStack) -> R | Result:
        reason = self._maker.refusal(case)
        if reason is not None:
            return Result(case=case, status="unsupported", error=reason, created=now())
        try:
            return stack.enter_context(self._maker.ready(case))
        except (Exception, SystemExit) as error:  # what the framework raises is what it came to
            return self._failed(case, error)

    def _failed(self, case: Case, error: Exception | SystemExit) -> Result:
        trace_ignored(f"a case of {case.kernel}")
        status, reason = self._why(error)
        line = line_of_program(error)
        return Result(
            case=case,
            status=status,
            error=f"{reason} ({line})" if line else reason,
            labels={"traceback": traceback_of(error)},
            created=now(),
        )

    def _why(self, error: Exception | SystemExit) -> tuple[Status, str]:
        if isinstance(error, OwnError):
            return "failed", str(error)
        if isinstance(error, SystemExit):
            return "failed", f"the function called sys.exit({error.code!r})"
        return self._maker.outcome(error)

    def _sampled(
        self, cases: Sequence[Case], ready: dict[int, R], plan: Plan, beat: Callable[[], None], *,
        alone: bool,
    ) -> dict[int, Result]:  # fmt: skip
        results: dict[int, Result] = {}
        running = dict(ready)
        for place, one in ready.items():  # what fails at once must not cost the others
            try:
                with one.entrant.setting():
                    one.entrant.run()
            except (Exception, SystemExit) as error:
                results[place] = self._failed(cases[place], error)
                del running[place]
        if not running:
            return results
        meter = LoadMeter()
        clock = self._alone if alone else clock_for(cases[0].device)
        entrants = _flushed([one.entrant for one in running.values()], plan, cases[0].threads)
        samples: list[Sampled] = []
        try:
            samples = sample(entrants, clock, plan, beat=beat)
        except (Exception, SystemExit) as error:
            if len(running) == 1:
                return results | {p: self._failed(cases[p], error) for p in running}
        if not samples:  # one of them fails after some executions: alone it costs nobody else
            for place, one in running.items():
                results |= self._sampled(cases, {place: one}, plan, beat, alone=alone)
            return results
        load = meter.share()
        kind: Clock = "cpu" if alone else "wall"
        turn = {"turn": uuid.uuid4().hex[:12], "clock": kind}
        for (place, one), own in zip(running.items(), samples, strict=True):
            try:
                with one.entrant.setting():
                    found = self._maker.result(cases[place], one, own)
            except (Exception, SystemExit) as error:
                results[place] = self._failed(cases[place], error)
                continue
            doubt = {"doubt": own.doubt} if own.doubt else {}
            results[place] = msgspec.structs.replace(
                found, load=load, labels=found.labels | turn | doubt
            )
            beat()
        return results


def _flushed(entrants: list[Entrant], plan: Plan, threads: int) -> list[Entrant]:
    """Cold cases as the plan clears caches for them."""
    if plan.overwrite_bytes is None or not any(one.flush for one in entrants):
        return entrants
    flush = overwriter(plan.overwrite_bytes, threads)
    return [replace(one, flush=flush) if one.flush else one for one in entrants]


def _on_one_thread(case: Case) -> Case:
    return case if case.threads == 1 else msgspec.structs.replace(case, threads=1)


def now() -> str:
    """When a result came about."""
    return datetime.now(UTC).isoformat(timespec="seconds")
