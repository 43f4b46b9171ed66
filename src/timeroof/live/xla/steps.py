"""A timed step from a trace of XLA's profiler: its events by what they are, with true ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from timeroof.core.errors import TimeroofError
from timeroof.live.frameworks import FilePass
from timeroof.live.recording import Ints, TimedStep
from timeroof.read.xla.programs import Linked, Programs, Thunk, op_of_event, thunks_of
from timeroof.read.xla.space import MAX_PS, Event, Line, Plane, planes
from timeroof.work.hlo import COLLECTIVES
from timeroof_recorder.process import trace_ignored

BEGIN, FINISH = "timeroof#begin", "timeroof#finish"
HOST = "/host:CPU"
# Steps are read until they have so many events together: the rest would tell the same.
MOST_EVENTS = 600_000


class Level(IntEnum):
    """What an event is. An instant belongs to the first of these that is under way in it."""

    KERNEL = 0
    COLLECTIVE = 1
    # The program waits for its next batch.
    DATA = 2
    # The runtime hands kernels to its threads.
    RUNTIME = 3
    COMPILE = 4
    # The program reads a result: it waits, and copies.
    READING = 5
    # A call finds its compiled program and its arguments, which may have to be copied.
    DISPATCH = 6
    # It says nothing of an instant, but recording it took its time.
    NOTHING = 7


@dataclass(frozen=True)
class Kernel:
    """What ran: an instruction of a compiled program, or an op of a framework's own."""

    name: str
    linked: Linked | None = None
    is_whole: bool = False
    device: int = 0
    # What a framework says of an op that is no instruction.
    op: object = None
    # Whether devices or workers send one another something.
    is_collective: bool = False
    # Whether it is one op that the program calls by itself, in no function that is compiled.
    is_eager: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """The same for whatever is the same work."""
        if self.linked is not None:
            return id(self.linked.instruction), self.is_whole, self.device
        return self.name, self.op, self.device


@dataclass(frozen=True)
class XlaStep(TimedStep):
    """A timed step whose events are of XLA's profiler. `level` says what an event is, `charged`
    on which event's account the recording of it went (-1: between events of the stepping thread,
    -2: of another one, -3: it was not recorded but told)."""

    level: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    charged: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    kernels: Mapping[int, Kernel] = field(default_factory=dict)
    # Where the program waited for results or copied them: begin, end and line.
    waits: Sequence[tuple[int, int, str]] = ()


class _Kept(Line):
    """A line whose events are decoded once."""

    @classmethod
    def of(cls, line: Line) -> _Kept:
        """Decode a line's events; those whose times cannot be true are left out."""
        made = cls(line.plane, line.name, line.id, line.timestamp_ns)
        made.decoded = [e for e in line.events() if 0 <= e.duration_ps < MAX_PS > abs(e.offset_ps)]
        return made

    decoded: list[Event]

    def events(self) -> Any:
        """The events again."""
        return iter(self.decoded)


# Tells what an event of a line is that ran no instruction; None: nobody knows.
Tell = Callable[[Line, Event], "Level | Kernel | None"]

_RUNTIME = ("ThunkExecutor::Execute", "CpuExecutable::", "while", "conditional", "call")
_COMPILE = re.compile(
    r"^(?:backend_compile|lower_sharding_computation|\w*Client::Compile|compile_or_get_cached"
    r"|XlaCompile|xla::.*Compile)"
)
_COMPILER_LINE = re.compile(r"(?i)compil|codegen")
_DISPATCH = re.compile(
    r"^(?:P(?:jit|map)Function|ExecuteReplicated|CommonPjRt|PjRt|TfrtCpu|ParseArguments|DevicePut"
    r"|shard_args|batched_|Batched|PythonRefManager|AllocateOutput|Handle input|H2D)"
)
_READING = re.compile(
    r"^(?:np\.asarray\(jax|(?:ArrayImpl\.)?copy_to_host|Transfer|\w*ToLiteral|Transpose::|D2H)"
)


def level_of(line: Line, event: Event) -> Level:
    """What an event of XLA's own is by its name and its thread."""
    if op_of_event(event) is not None or event.name.startswith(_RUNTIME[:2]):
        return Level.RUNTIME
    if _COMPILER_LINE.search(line.name) or _COMPILE.match(event.name):
        return Level.COMPILE
    if _READING.match(event.name):
        return Level.READING
    return Level.DISPATCH if _DISPATCH.match(event.name) else Level.NOTHING


def read_steps(
    passes: Sequence[FilePass],
    folder: Path,
    tell: Tell | None = None,
    most_events: int = MOST_EVENTS,
) -> list[TimedStep | None]:
    """The steps of a process's traces. A compiled program is in one of them."""
    spaces: list[list[Plane]] = []
    events = 0
    for one in passes:
        events += int(one.payload.get("events", 0))
        is_read = events <= most_events or not any(spaces)
        spaces.append(_planes(folder / Path(str(one.payload["file"])).name) if is_read else [])
    programs = Programs(plane for space in spaces for plane in space)
    return [
        _step(one, space, programs, tell) if space else None
        for one, space in zip(passes, spaces, strict=True)
    ]


def _planes(path: Path) -> list[Plane]:
    try:
        return list(planes(path.read_bytes()))
    except (OSError, TimeroofError, ValueError):
        trace_ignored("a timed step was lost")
        return []


def _step(
    one: FilePass, space: Sequence[Plane], programs: Programs, tell: Tell | None
) -> XlaStep | None:
    from timeroof.live.records import clock_fields

    lines = [_Kept.of(line) for p in space if p.name.startswith(HOST) for line in p.lines()]
    window = _window(lines)
    if window is None:
        return None
    main, begin_ns, finish_ns = window
    thunks = {id(thunk.event): thunk for thunk in thunks_of(lines, programs)}
    table = _Table(begin_ns, finish_ns)
    for thread, line in enumerate(lines):
        table.add_line(thread, line, thunks, tell)
    for start_ns, length_ns in one.payload.get("compile", ()):
        table.add_told(main, begin_ns + start_ns, length_ns, "compile", Level.COMPILE)
    for start_ns, length_ns, line in one.payload.get("waits", ()):
        table.add_told(main, begin_ns + start_ns, length_ns, line, Level.READING)
    return table.step(one.number, one.faults, main, clock_fields(one.clocks))


def _window(lines: Sequence[_Kept]) -> tuple[int, int, int] | None:
    """The stepping thread's place, and when the step began and ended."""
    for place, line in enumerate(lines):
        begins = [e for e in line.decoded if e.name == BEGIN]
        ends = [e for e in line.decoded if e.name == FINISH]
        if begins and ends:
            # The inner ones: beside other frameworks a block has edges of its own.
            first = max(e.offset_ps + e.duration_ps for e in begins)
            return place, _ns(line, first), _ns(line, min(e.offset_ps for e in ends))
    return None


def _ns(line: Line, offset_ps: int) -> int:
    return line.timestamp_ns + offset_ps // 1000


class _Table:
    """Events of all threads, within the step."""

    def __init__(self, begin_ns: int, finish_ns: int) -> None:
        self._begin_ns, self._finish_ns = begin_ns, finish_ns
        self._rows: list[tuple[int, int, int, int, int, int]] = []
        self._names: dict[str, int] = {}
        self._kernels: dict[int, Kernel] = {}
        self._waits: list[tuple[int, int, str]] = []

    def add_line(
        self, thread: int, line: _Kept, thunks: Mapping[int, Thunk], tell: Tell | None
    ) -> None:
        """All events of a thread, each charged to the one around it that means something."""
        order = sorted(line.decoded, key=lambda e: (e.offset_ps, -e.duration_ps))
        stack: list[tuple[int, int]] = []
        for event in order:
            start, end = _ns(line, event.offset_ps), _ns(line, event.offset_ps + event.duration_ps)
            while stack and stack[-1][0] <= start:
                stack.pop()
            if not self._begin_ns <= start < self._finish_ns or event.name in (BEGIN, FINISH):
                continue
            around = stack[-1][1] if stack else -1
            thunk = thunks.get(id(event))
            what = _kernel(thunk) if thunk is not None else None
            found = what or (tell(line, event) if tell is not None else None)
            found = level_of(line, event) if found is None else found
            place = self._add(thread, event.name, start, end, found, thunk, around)
            if found is not Level.NOTHING:
                stack.append((end, place))

    def _add(
        self, thread: int, name: str, start: int, end: int, found: Level | Kernel,
        thunk: Thunk | None, around: int,
    ) -> int:  # fmt: skip
        place = len(self._rows)
        level = found
        if isinstance(found, Kernel):
            self._kernels[place] = found
            level = Level.COLLECTIVE if found.is_collective else Level.KERNEL
            name = found.name
        if thunk is not None:
            end = max(end, thunk.end_ps // 1000)
        number = self._names.setdefault(name, len(self._names))
        self._rows.append((number, start, end, thread, int(level), around))  # type: ignore[arg-type]
        return place

    def add_told(self, thread: int, start: int, length_ns: int, name: str, level: Level) -> None:
        """A compilation, or waiting for a result, that the framework's instruments tell of."""
        start = max(start, self._begin_ns)
        number = self._names.setdefault(name, len(self._names))
        self._rows.append((number, start, start + length_ns, thread, int(level), -3))
        if level is Level.READING:
            self._waits.append((start, min(start + length_ns, self._finish_ns), name))

    def step(self, number: int, faults: int, main: int, clocks: Mapping[str, Any]) -> XlaStep:
        """The step as columns, in the order of the rows' beginnings."""
        table = np.array(self._rows, np.int64).reshape(-1, 6)
        order = np.lexsort((-table[:, 2], table[:, 1]))
        place_of = np.empty(len(order) + 3, np.int64)
        place_of[order] = np.arange(len(order))
        around = table[order, 5]
        elsewhere = (around == -1) & (table[order, 3] != main)
        charged = np.where(around >= 0, place_of[np.maximum(around, 0)], around)
        zeros = np.zeros(len(order), np.int64)
        return XlaStep(
            names=tuple(self._names),
            name=table[order, 0],
            start_ns=table[order, 1],
            end_ns=np.minimum(table[order, 2], self._finish_ns),
            thread=table[order, 3],
            sequence=zeros - 1,
            scope=zeros,
            begin_ns=self._begin_ns,
            finish_ns=self._finish_ns,
            main_thread=main,
            faults=faults,
            number=number,
            level=table[order, 4],
            charged=np.where(elsewhere, -2, charged),
            kernels={int(place_of[place]): kernel for place, kernel in self._kernels.items()},
            waits=tuple(self._waits),
            **clocks,
        )


def _kernel(thunk: Thunk) -> Kernel:
    device = int(thunk.device) if thunk.device.isdigit() else 0
    linked = thunk.linked
    sends = linked is not None and linked.instruction.opcode in COLLECTIVES
    return Kernel(thunk.op, linked, thunk.is_whole, device, is_collective=sends)


def kernels_in_order(step: XlaStep) -> Iterable[tuple[int, Kernel]]:
    """Places of kernels by their beginning."""
    return sorted(step.kernels.items())
