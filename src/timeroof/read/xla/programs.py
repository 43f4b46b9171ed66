"""The compiled programs in an xplane, and which of their instructions an event ran.

XLA's work on the host's threads (thunks) may be asynchronous: a convolution's event covers only how
it is handed to a pool of threads. Its work has ended when its ``end:`` event comes, but that may
come late, or after the recording; it has ended at the latest when a thunk that needs its result
begins, and when its execution ends. The earliest of these counts.
"""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from timeroof.core.errors import trace_ignored
from timeroof.core.wire import BrokenMessageError
from timeroof.read.xla.space import MAX_PS, Event, Line, Plane
from timeroof.work.hlo import CONTAINERS
from timeroof.work.hlo.cost import Program
from timeroof.work.hlo.proto import Instruction, read_hlo

_NAMED = re.compile(r"^(.*)\((\d+)\)$")
_ON_CHIP_OF_A_TPU = 1
# On a TPU an event is called by the text of its instruction: "%fusion.1 = f32[8] fusion(…)".
_TEXT = re.compile(r"^%?([\w.\-]+)(?: = |$)")


class Linked(NamedTuple):
    """An instruction of a program."""

    program: Program
    instruction: Instruction


class Key(NamedTuple):
    """What an event says of its program: number and name of the module."""

    program: int | None
    module: str


class Programs:
    """The programs of a file, decoded when an event asks for one."""

    def __init__(self, planes: Iterable[Plane], *, tpu: bool = False) -> None:
        self._on_chip = _ON_CHIP_OF_A_TPU if tpu else None
        self._raw: list[tuple[Key, bytes]] = []
        for plane in planes:
            for number, stats in plane.event_stats.items():
                for value in stats.values():
                    if isinstance(value, bytes) and value:
                        self._raw.append((key_of_name(plane.event_names.get(number, "")), value))
        self._decoded: dict[int, Program | None] = {}
        self._chosen: dict[Key, Program | None] = {}
        self.broken = 0

    def __bool__(self) -> bool:
        return bool(self._raw)

    def choose(self, events: Iterable[tuple[Key, str]]) -> None:
        """Find the program of every key that events carry with the instructions they name.

        The number tells it. A program from a cache of compiled ones runs under another number
        than its HLO is filed under: then it is the one of that name that has all
        instructions; where several differ, none.
        """
        named: dict[Key, set[str]] = defaultdict(set)
        for key, op in events:
            named[key].add(op)
        for key, wanted in named.items():
            self._chosen[key] = self._best(key, wanted)

    def _best(self, key: Key, wanted: set[str]) -> Program | None:
        told = key.program is not None
        places = [i for i, (k, _) in enumerate(self._raw) if told and k.program == key.program]
        alike = [i for i, (k, _) in enumerate(self._raw) if k.module == key.module]
        for group in (places, alike):
            found = [p for p in map(self._program, group) if p is not None and _has(p, wanted, key)]
            if found and _same_work(found):
                return found[0]
        return None

    def _program(self, place: int) -> Program | None:
        if place not in self._decoded:
            try:
                self._decoded[place] = Program(read_hlo(self._raw[place][1]), self._on_chip)
            except (BrokenMessageError, ValueError, RecursionError):
                trace_ignored("a program in the file could not be decoded")
                self.broken += 1
                self._decoded[place] = None
        return self._decoded[place]

    def find(self, key: Key, op: str, kernel: str | None = None) -> Linked | None:
        """The instruction that an event of this program names; a kernel's own name may help."""
        program = self._chosen.get(key)
        found = program.find(op, kernel) if program is not None else None
        return Linked(program, found) if program is not None and found is not None else None


def key_of_name(name: str) -> Key:
    """Number and name of a module as XLA writes them.

    >>> key_of_name("jit_step(14)")
    Key(program=14, module='jit_step')
    """
    parts = _NAMED.match(name)
    return Key(int(parts[2]) % 2**64, parts[1]) if parts else Key(None, name)


def _has(program: Program, wanted: set[str], key: Key) -> bool:
    """Whether a program is the one: of that name, where one is told, with all instructions."""
    if key.module and program.module.name != key.module:
        return False
    return all(op in program.instructions for op in wanted)


def _same_work(found: list[Program]) -> bool:
    """Whether programs that fit alike do the same, so that any may stand for all."""
    if len(found) == 1:
        return True
    totals = [program.total().cost for program in found]
    return len({(cost.flops, cost.bytes) for cost in totals}) == 1


def key_of_event(event: Event) -> Key:
    """Which program an event says it belongs to."""
    number, module = event.stats.get("program_id"), event.stats.get("hlo_module")
    return Key(
        number % 2**64 if isinstance(number, int) else None,
        _NAMED.sub(r"\1", module) if isinstance(module, str) else "",
    )


def op_of_event(event: Event, *, by_name: bool = False) -> str | None:
    """The instruction that an event names: by its statistic, or by its own name on a TPU."""
    op = event.stats.get("hlo_op")
    if isinstance(op, str) and op.strip():
        return op.strip()
    found = _TEXT.match(event.name) if by_name else None
    return found[1] if found else None


_END = "end: "
# The callback of a synchronous thunk follows its event within this.
_AT_ONCE_PS = 2_000_000
# Executions of a program: JAX's carry the number of the run, TensorFlow's are told by time.
_EXECUTIONS = ("ThunkExecutor::Execute", "CpuExecutable::ExecuteAsyncOnStream")
_THROUGH = ("bitcast", "get-tuple-element", "tuple", "copy-done", "opt-barrier")


@dataclass(slots=True)
class Thunk:
    """One thunk: its event, its thread, when its work began and ended."""

    event: Event
    line: Line
    start_ps: int
    end_ps: int
    key: Key
    op: str
    linked: Linked | None = None
    # A loop, a call or a condition that ran as one kernel: nothing is seen inside of it.
    is_whole: bool = False

    @property
    def device(self) -> str:
        """Which of the host's devices ran it: XLA can divide a host into several."""
        return str(self.event.stats.get("device_ordinal", 0))

    @property
    def is_container(self) -> bool:
        """Whether it only contains others: a loop, a call, a condition."""
        if self.linked is not None:
            return self.linked.instruction.opcode in CONTAINERS
        return self.op.split(".", 1)[0] in CONTAINERS


@dataclass
class _Seen:
    """What the host's threads show: thunks, their callbacks, and executions of programs."""

    thunks: list[Thunk] = field(default_factory=list)
    ends: dict[object, int] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)
    limits: dict[Hashable, int] = field(default_factory=dict)

    def add(self, line: Line, event: Event) -> None:
        """Note an event."""
        start = line.timestamp_ns * 1000 + event.offset_ps
        end, op = start + event.duration_ps, op_of_event(event)
        if event.name.startswith(_END):
            if "_c" in event.stats:
                self.ends[event.stats["_c"]] = start
        elif op is not None:
            self.thunks.append(Thunk(event, line, start, end, key_of_event(event), op))
        elif event.name.startswith(_EXECUTIONS):
            self.spans.append((start, end))
            run = _run(event)
            if run is not None:
                self.limits[run] = max(end, self.limits.get(run, 0))


def thunks_of(lines: Iterable[Line], programs: Programs) -> list[Thunk]:
    """All thunks of the host's threads that do work of their own, with their true ends. A small
    loop is compiled into one kernel: nothing is seen in it, and it is a thunk like others."""
    seen = _Seen()
    for line in lines:
        for event in line.events():
            if 0 <= event.duration_ps < MAX_PS > abs(event.offset_ps):
                seen.add(line, event)
    programs.choose((thunk.key, thunk.op) for thunk in seen.thunks)
    for thunk in seen.thunks:
        thunk.linked = programs.find(thunk.key, thunk.op)
    if seen.ends:
        _extend(seen)
    _find_whole(seen.thunks)
    return [thunk for thunk in seen.thunks if thunk.is_whole or not thunk.is_container]


def _find_whole(thunks: list[Thunk]) -> None:
    """Mark containers during which no thunk of their own program's run began."""
    runs: dict[Hashable, list[Thunk]] = defaultdict(list)
    for thunk in thunks:
        runs[thunk.key, _run(thunk.event)].append(thunk)
    for members in runs.values():
        containers = [thunk for thunk in members if thunk.is_container]
        if not containers:
            continue
        begins = sorted(thunk.start_ps for thunk in members)
        for thunk in containers:
            first = bisect.bisect_right(begins, thunk.start_ps)
            # One that began at the same instant, and before whose end another did, contains it.
            thunk.is_whole = first == len(begins) or begins[first] >= thunk.end_ps


def _run(event: Event) -> Hashable:
    """The run that an event belongs to; None where it does not say so."""
    run = event.stats.get("run_id", -1)
    return None if run in (-1, 0) else (run, event.stats.get("device_ordinal", 0))


def _extend(seen: _Seen) -> None:
    """Move the ends of asynchronous thunks to where their work ends."""
    spans = sorted(seen.spans)
    starts = [start for start, _ in spans]
    runs: dict[tuple[Key, Hashable], list[Thunk]] = defaultdict(list)
    for thunk in seen.thunks:
        run = _run(thunk.event)
        if run is None:
            place = bisect.bisect_right(starts, thunk.start_ps) - 1
            run = ("at", place)
            if place >= 0 and spans[place][1] >= thunk.start_ps:
                seen.limits[run] = spans[place][1]
        runs[thunk.key, run].append(thunk)
    for (_, run), members in runs.items():
        _extend_run(members, seen.ends, seen.limits.get(run))


def _extend_run(members: list[Thunk], ends: dict[object, int], limit: int | None) -> None:
    last = max(thunk.end_ps for thunk in members)
    late = {
        index: ends.get(thunk.event.stats["_p"])
        for index, thunk in enumerate(members)
        if "_p" in thunk.event.stats and not thunk.is_container
    }
    # No callback was seen: it came after the recording.
    slow = [i for i, end in late.items() if end is None or end > members[i].end_ps + _AT_ONCE_PS]
    if not slow:
        return
    begins: dict[str, list[int]] = defaultdict(list)
    for thunk in members:
        begins[thunk.op].append(thunk.start_ps)
    for listed in begins.values():
        listed.sort()
    users: dict[int, dict[str, set[str]]] = {}
    for index in slow:
        thunk = members[index]
        end = min(e for e in (late[index], limit, None if late[index] else last) if e is not None)
        if thunk.linked is not None:
            program = thunk.linked.program
            if id(program) not in users:
                users[id(program)] = users_by_name(program)
            needed_by = users[id(program)].get(thunk.op, set())
            end = min([end, *_first_uses(needed_by, begins, thunk.end_ps)])
        thunk.end_ps = max(thunk.end_ps, end)


def _first_uses(users: Iterable[str], begins: dict[str, list[int]], after: int) -> list[int]:
    """When each user first begins after a time."""
    found = []
    for user in users:
        listed = begins.get(user, [])
        place = bisect.bisect_left(listed, after)
        found += listed[place : place + 1]
    return found


def users_by_name(program: Program) -> dict[str, set[str]]:
    """Instructions that need an instruction's result, through views and tuples."""
    found: dict[str, set[str]] = {}
    for computation in program.module.computations.values():
        above: dict[int, list[int]] = defaultdict(list)
        own = computation.instructions
        for one in own.values():
            for operand in one.operands:
                above[operand].append(one.id)
        for one in own.values():
            reached: set[str] = set()
            todo, seen = list(above[one.id]), set[int]()
            while todo:
                user = own[todo.pop()]
                if user.id in seen:
                    continue
                seen.add(user.id)
                if user.opcode in _THROUGH:
                    todo += above[user.id]
                else:
                    reached.add(user.name)
            found[one.name] = reached
    return found
