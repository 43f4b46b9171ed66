"""XLA's work on the host's threads (thunks), each with the end of its work.

A thunk may be asynchronous: a convolution's event covers only how it is handed to a pool of
threads. Its work has ended when its ``end:`` event comes, but that may come late, or after the
recording; it has ended at the latest when a thunk that needs its result begins, and when its
execution ends. The earliest of these counts.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from timeroof.read.xla.programs import Key, Linked, Programs, key_of_event, op_of_event
from timeroof.read.xla.space import MAX_PS, Event, Line
from timeroof.work.hlo import CONTAINERS
from timeroof.work.hlo.cost import Program

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
