"""The compiled programs in an xplane, and which of their instructions an event ran."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from timeroof.core.errors import trace_ignored
from timeroof.core.wire import BrokenMessageError
from timeroof.read.xla.space import Event, Plane
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
