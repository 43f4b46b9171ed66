"""What recorders wrote, record by record: every process of a run, with its steps and passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from timeroof.live.accounting import LEAST_SHARE, Look
from timeroof.live.calibration import Round
from timeroof.live.frameworks import FilePass, framework_of
from timeroof.live.kind import KindKey, StepSeen
from timeroof.live.recording import CompiledKernel, EventName, PrimitiveStep, TimedStep
from timeroof_recorder.log import SUFFIX, records
from timeroof_recorder.marks import WINDOW
from timeroof_recorder.schedule import Pass
from timeroof_recorder.seen import restored

# What a recorder writes: msgpack of plain values, whose shape each taker knows.
Payload = dict[str, Any]
Record = tuple[Any, ...]


@dataclass
class ProcessSeen:
    """Everything that one process's recorder wrote."""

    pid: int = 0
    parent: int = 0
    forked: bool = False
    command: list[str] = field(default_factory=list)
    ranks: dict[str, str] = field(default_factory=dict)
    frameworks: list[tuple[str, str]] = field(default_factory=list)
    marker: str = ""
    mark: str = ""
    # When the framework was there, and when the first step began.
    arrived_ns: int | None = None
    first_ns: int | None = None
    steps: list[StepSeen] = field(default_factory=list)
    keys: dict[int, KindKey] = field(default_factory=dict)
    later: dict[int, tuple[int, int]] = field(default_factory=dict)
    steps_seen: int = 0
    timed: list[TimedStep] = field(default_factory=list)
    # Timed passes whose events are in files, until they are read; a block's has the number 0.
    files: list[FilePass] = field(default_factory=list)
    described: list[tuple[int, int, Payload]] = field(default_factory=list)
    primitives: list[tuple[int, PrimitiveStep]] = field(default_factory=list)
    devices: list[tuple[int, str]] = field(default_factory=list)
    block: tuple[TimedStep, Payload | None] | None = None
    kernels: list[CompiledKernel] = field(default_factory=list)
    around: Payload = field(default_factory=dict)
    threads: dict[int, tuple[int, int]] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    elsewhere: dict[int, int] = field(default_factory=dict)
    pace_ns: list[int] = field(default_factory=list)
    rounds: dict[str, list[Round]] = field(default_factory=lambda: defaultdict(list))
    notes: list[str] = field(default_factory=list)
    # Costs that the program states of the ops of a described step, by their places.
    stated: dict[int, dict[int, Payload]] = field(default_factory=dict)
    why: str | None = None
    failed: str | None = None
    refused: str | None = None
    # When watching ended, with what was called since the last mark and its sizes.
    over: tuple[int, Any, Any] | None = None
    # None: there is no word of an end; else the name of an exception, or "".
    ended: str | None = None
    # What was taken for steps before whole ones were found.
    former: ProcessSeen | None = None

    @property
    def rank(self) -> int | None:
        """Its rank in the program's process group, or as a launcher says."""
        rank = self.around.get("rank")
        if isinstance(rank, int):
            return rank
        text = self.ranks.get("RANK", "")
        return int(text) if text.isdigit() else None

    @property
    def has_steps(self) -> bool:
        """Whether it did anything that a report can be made of."""
        marked = self.steps_seen and self.marker != WINDOW
        return bool(self.timed or self.block or self.devices or marked)


def read_folder(folder: Path) -> list[ProcessSeen]:
    """The processes of a run in the order in which they began."""
    # The program may have put something else in the place of a file: a folder, a pipe.
    files = [path for path in folder.glob(f"*{SUFFIX}") if path.is_file()]
    written = [records(path.read_bytes()) for path in files]
    # By the first record: the system's time of a file is that of its last.
    written.sort(key=lambda found: found[0][0] if found else 0)  # type: ignore[arg-type,return-value]
    found = [process_of(each) for each in written]
    for seen in found:
        _read_files(seen, folder)
    return found


def _read_files(seen: ProcessSeen, folder: Path) -> None:
    """Read timed passes that are in files, those of parts of steps too: a compiled program comes
    with the first pass after it was made."""
    chain = [seen]
    while chain[-1].former is not None:
        chain.append(chain[-1].former)
    passes = [(owner, one) for owner in reversed(chain) for one in owner.files]
    if not passes or not seen.frameworks:
        return
    found = framework_of(seen.frameworks[0][0]).timed_steps([one for _, one in passes], folder)
    for (owner, one), step in zip(passes, found, strict=True):
        if step is not None and one.number:
            owner.timed.append(step)
        elif step is not None and (owner.block is None or len(step) >= len(owner.block[0])):
            owner.block = (step, None)


def process_of(found: Sequence[Record]) -> ProcessSeen:
    """One process from its records; what a later version writes beside them is passed over."""
    seen = ProcessSeen()
    for _, what, *values in found:
        take = _TAKERS.get(str(what))
        if take is not None:
            seen = take(seen, *values) or seen
    return seen


def _process(
    seen: ProcessSeen, pid: int, parent: int, forked: bool, words: list[bytes],
    ranks: dict[str, str], _version: str,
) -> None:  # fmt: skip
    seen.pid, seen.parent, seen.forked, seen.ranks = pid, parent, forked, ranks
    seen.command = [word.decode("utf-8", "replace") for word in words]


def _framework(seen: ProcessSeen, name: str, version: str, now_ns: int | None = None) -> None:
    seen.frameworks.append((name, version))
    if seen.arrived_ns is None:
        seen.arrived_ns = now_ns


def _watched(seen: ProcessSeen, name: str, version: str) -> None:
    """Of several frameworks the one whose steps are looked at is the first."""
    seen.frameworks = list(dict.fromkeys([(name, version), *seen.frameworks]))


def _mark(seen: ProcessSeen, found: str, label: str, first_ns: int | None) -> None:
    seen.marker, seen.mark = found, label
    if seen.first_ns is None:
        seen.first_ns = first_ns


def _steps(seen: ProcessSeen, steps: list[Record]) -> None:
    seen.steps += [StepSeen(*step) for step in steps]
    seen.steps_seen = max(seen.steps_seen, seen.steps[-1].number)


def _later(seen: ProcessSeen, number: int, later: Mapping[int, Sequence[int]]) -> None:
    for kind, (count, total_ns) in later.items():
        before = seen.later.get(kind, (0, 0))
        seen.later[kind] = (before[0] + count, before[1] + total_ns)
    seen.steps_seen = number


def _kind(seen: ProcessSeen, number: int, key: Record) -> None:
    seen.keys[number] = KindKey(*key)


def _restart(seen: ProcessSeen, times: list[int]) -> ProcessSeen:
    """Steps before it were parts of steps: they stand in where no other was timed."""
    kept = (
        "pid", "parent", "forked", "command", "ranks", "frameworks", "around", "threads", "rounds",
        "notes", "kernels", "keys", "pace_ns", "why", "arrived_ns",
    )  # fmt: skip
    fresh = ProcessSeen(**{name: getattr(seen, name) for name in kept})
    seen.notes = list(seen.notes)
    fresh.former = seen if seen.timed or seen.files else seen.former
    fresh.first_ns = seen.first_ns if seen.first_ns is not None else None
    begin = fresh.first_ns
    for number, end_ns in enumerate(times, 1):
        duration_ns = end_ns - begin if begin is not None else 0
        fresh.steps.append(StepSeen(number, Pass.UNSEEN, duration_ns, 0, -1, False, None, end_ns))
        begin = end_ns
    fresh.steps_seen = len(times)
    return fresh


def _overtaken(seen: ProcessSeen) -> ProcessSeen:
    """What was seen was another framework's: preparing batches, not the program's steps."""
    fresh = _restart(seen, [])
    fresh.former, fresh.first_ns, fresh.kernels, fresh.keys = None, None, [], {}
    fresh.rounds = defaultdict(list)
    return fresh


def _timed(seen: ProcessSeen, number: int, events: Any, faults: int, clocks: Any) -> None:
    if isinstance(events, dict):
        seen.files.append(FilePass(number, events, faults, clocks))
        return
    seen.timed.append(timed_step(events, number, faults, clocks))


def _described(seen: ProcessSeen, number: int, kind: int, payload: Payload) -> None:
    _take_kernels(seen, payload)
    seen.described.append((number, kind, payload))


def _take_kernels(seen: ProcessSeen, payload: Payload) -> None:
    kernels = restored(payload.get("kernels"))
    if isinstance(kernels, list):
        seen.kernels[:] = [k for k in kernels if isinstance(k, CompiledKernel)]


def _primitives(seen: ProcessSeen, number: int, events: Any, payload: Payload) -> None:
    if events is not None:
        step = PrimitiveStep(timed_step(events, number), list(payload["lines"]))
        seen.primitives.append((number, step))


def _device(seen: ProcessSeen, number: int, _events: Any, payload: Payload) -> None:
    _take_kernels(seen, payload)
    seen.devices.append((number, str(payload["file"])))


def _block(seen: ProcessSeen, events: Any, payload: Payload | None) -> None:
    """Of a block in pieces (it forked) the largest is kept."""
    if isinstance(events, dict):
        seen.files.append(FilePass(0, events))
        return
    step = timed_step(events)
    if seen.block is None or len(step) >= len(seen.block[0]):
        seen.block = (step, payload)
        _take_kernels(seen, payload or {})


def _threads(
    seen: ProcessSeen, threads: dict[int, tuple[int, int]], elsewhere: dict[int, int],
    cpus: tuple[int, int] | None = None,
) -> None:  # fmt: skip
    if cpus is not None:
        seen.looks.append(Look(threads, *cpus))
    # Of threads that have ended since, the last word.
    seen.threads |= threads
    seen.elsewhere |= elsewhere


def _round(
    seen: ProcessSeen, which: str, bare: Any, watched: Any, events: int, length_ns: int
) -> None:
    seen.rounds[which].append(Round(tuple(bare), tuple(watched), events, length_ns))


def _note(seen: ProcessSeen, code: str, _more: object) -> None:
    seen.notes.append(code)


def _set(name: str) -> Any:
    def take(seen: ProcessSeen, value: object, *_rest: object) -> None:
        setattr(seen, name, value)

    return take


def _over(seen: ProcessSeen, now_ns: int, items: object = (), sizes: object = ()) -> None:
    seen.over = (now_ns, items, sizes)


def _around(seen: ProcessSeen, around: Payload) -> None:
    """What is known later stands; what is not known any more (the process group is gone) stays."""
    seen.around = seen.around | {k: v for k, v in around.items() if v is not None}


def _ended(seen: ProcessSeen, error: str | None, _cpu_ns: int) -> None:
    seen.ended = error or ""


_TAKERS: Payload = {
    "process": _process,
    "framework": _framework,
    "watched": _watched,
    "mark": _mark,
    "steps": _steps,
    "later": _later,
    "kind": _kind,
    "restart": _restart,
    "overtaken": _overtaken,
    "timed": _timed,
    "described": _described,
    "primitives": _primitives,
    "device": _device,
    "block": _block,
    "around": _around,
    "over": _over,
    "threads": _threads,
    "pace": lambda seen, taken_ns: seen.pace_ns.append(taken_ns),
    "round": _round,
    "note": _note,
    "why": _set("why"),
    "failed": _set("failed"),
    "refused": _set("refused"),
    "stated": lambda seen, number, costs: seen.stated.update({number: costs}),
    "ended": _ended,
}


# Events and clocks of a step.


def timed_step(events: Record, number: int = 0, faults: int = 0, clocks: Any = None) -> TimedStep:
    """A step from the rows that instruments gave, outer events before inner ones."""
    names, rows, begin_ns, finish_ns, thread = events
    table = np.array(rows, np.int64).reshape(-1, 6)
    start, end = table[:, 1], table[:, 1] + table[:, 2]
    # An event that was open at the end (the optimizer's step holds our hook) ends there.
    end = np.where((table[:, 2] < 0) | (end > finish_ns), finish_ns, end)
    order = np.lexsort((-end, start))
    return TimedStep(
        names=tuple(name for name, *_ in names),
        name=table[order, 0],
        start_ns=start[order],
        end_ns=end[order],
        thread=table[order, 3],
        sequence=table[order, 4],
        scope=table[order, 5],
        begin_ns=begin_ns,
        finish_ns=finish_ns,
        main_thread=thread,
        faults=faults,
        number=number,
        told=tuple(EventName(*rest) for _, *rest in names),
        **clock_fields(clocks),
    )


def clock_fields(clocks: Any) -> Payload:
    """What the clocks around a step tell, by the names of a timed step's fields."""
    elapsed, own, queued, switches, others = clocks or (0, 0, 0, 0, 0)
    return {
        "asleep_ns": slept_ns(elapsed, own, queued, switches, others),
        "sleeps": switches,
        "waited_ns": max(0, min(queued, elapsed - own)) if clocks else 0,
        "others_waited_ns": others,
    }


def slept_ns(elapsed: int, own: int, queued: int, switches: int | None, others: int) -> int:
    """How long a thread neither ran nor wanted to; 0 where that is too little to be believed.

    Pauses of a virtual machine and a container's quota stop a thread too, and no clock of its own
    tells them from sleep. But a thread that sleeps gives its CPU up itself: without a voluntary
    context switch nothing was slept, however long the step stood still. Nor is it the program that
    sleeps where an op waits for its other threads and those wait for a CPU: as much as they waited
    is left out.

    >>> slept_ns(100, 70, 0, 3, 0), slept_ns(100, 70, 0, 0, 0), slept_ns(100, 70, 0, 3, 20)
    (30, 0, 10)
    """
    asleep_ns = elapsed - own - queued - others
    return asleep_ns if asleep_ns >= LEAST_SHARE * elapsed and switches != 0 else 0
