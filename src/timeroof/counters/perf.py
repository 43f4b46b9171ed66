"""perf: FLOPs and bytes of a program on a CPU, or of one region of it.

A region is what two repetitions count beyond one (Czaja et al., "Applying the Roofline model
for Deep Learning performance optimizations", 2020): start-up, imports and preparation cancel.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from timeroof.core.errors import InputError
from timeroof.core.machine import FAULT
from timeroof.core.profile import Profile, Source
from timeroof.counters.options import (
    Collected,
    CollectOptions,
    MetricSet,
    Selection,
    find_set,
    forecast,
    select,
)
from timeroof.counters.processes import Ran, Workspace, finished, run, workspace
from timeroof.counters.tools import PATIENCE_S, Tool, chip_here, failed, find_tool, recognised
from timeroof.read.events import shown_list
from timeroof_recorder.counted import RANGE_NAME, REPETITIONS

# `perf stat`: its command line, its values, and which events this machine counts.


SEPARATOR = ";"
# Counted by the kernel itself, so that they are there on every machine.
SOFTWARE = ("task-clock", "page-faults")
# perf says so where counters took turns; beyond this the scaled value is an estimate.
WHOLE_TIME = 0.99
_UNITS = {"MiB": 2.0**20, "KiB": 2.0**10, "GiB": 2.0**30, "msec": 1e-3, "ns": 1e-9}


@dataclass(frozen=True)
class Value:
    """What an event came to, None where it was not counted; and the share of time it was."""

    count: float | None
    share: float = 1.0


def command_line(
    tool: Tool, events: tuple[str, ...], report: Path, options: CollectOptions, command: list[str]
) -> list[str]:
    """perf stat around a program, its values into a file."""
    line = [tool.path, "stat", "-x", SEPARATOR, "-o", str(report), "-e", ",".join(events)]
    if options.system_wide:
        line.append("-a")
    return [*line, "--", *command]


def parse(text: str) -> dict[str, Value]:
    """The values of a report, by event."""
    values: dict[str, Value] = {}
    for line in text.splitlines():
        fields = line.split(SEPARATOR)
        if len(fields) < 5 or line.startswith("#"):
            continue
        number, unit, event, _, share = (f.strip() for f in fields[:5])
        name = re.sub(r":[ukhGHpPDSI]+$", "", event)
        count = _number(number)
        known = None if count is None else count * _UNITS.get(unit, 1.0)
        earlier = values.get(name)
        if earlier is not None and earlier.count is not None and known is not None:
            # One line per socket or controller.
            known += earlier.count
        values[name] = Value(known, min((_number(share) or 100.0) / 100.0, 1.0))
    return values


def _number(text: str) -> float | None:
    """A number in any locale; perf writes words where it has none."""
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return None


def is_counted(tool: Tool, event: str, *, whole_machine: bool = False) -> tuple[bool, str]:
    """Whether this machine counts an event, and what perf says of it: it is tried once."""
    import subprocess

    line = [tool.path, "stat", "-x", SEPARATOR, "-e", event]
    if whole_machine:
        line.append("-a")
    try:
        done = subprocess.run(
            [*line, "--", "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    text = done.stderr.decode(errors="replace")
    if done.returncode:
        return False, text
    return any(v.count is not None for v in parse(text).values()), text


# From perf's events to amounts of resources.


@dataclass(frozen=True)
class Counts:
    """Values of events per number of repetitions, and the share of time each was counted."""

    values: dict[int, dict[str, float]]
    shares: dict[str, float]
    subtract: bool = False

    def of(self, event: str) -> float | None:
        """What the region counts: all of it, or two repetitions less one. Less in two repetitions
        than in one is noise, and unknown."""
        one = self.values.get(1, {}).get(event)
        if not self.subtract or one is None:
            return one
        two = self.values.get(2, {}).get(event)
        return None if two is None or two < one else two - one


def amounts_of(selection: Selection, counts: Counts) -> tuple[dict[str, object], list[str]]:
    """A row's amounts and origins, and what to say about them."""
    row: dict[str, object] = {}
    lost, scaled = [], []
    for one in selection.selected:
        resource, factor = one.entry.resource, one.choice.factor or 1.0
        for event in one.choice.names:
            value = counts.of(event)
            if value is None:
                lost.append(event)
            elif counts.shares.get(event, 1.0) < WHOLE_TIME:
                scaled.append(event)
            _add(row, resource, None if value is None else factor * value)
        origin = "inferred" if set(one.choice.names) & set(scaled) else one.choice.origin
        _add_origin(row, resource, origin)
    # An amount of which a part was not counted is unknown.
    row |= dict.fromkeys(sorted(selection.unknown))
    faults = counts.of("page-faults")
    if faults is not None:
        row[FAULT] = faults
    return row, _notes(lost, scaled)


def _add(row: dict[str, object], resource: str, value: float | None) -> None:
    held = row.get(resource, 0.0)
    known = isinstance(held, float) and value is not None
    row[resource] = held + value if known else None  # type: ignore[operator]


def _add_origin(row: dict[str, object], resource: str, origin: str) -> None:
    kind, _, level = resource.partition("/")
    name = "origin.flops" if kind == "flop" else f"origin.bytes/{level}"
    if row.get(name) != "inferred":
        row[name] = origin


def _notes(lost: list[str], scaled: list[str]) -> list[str]:
    notes = []
    if lost:
        unknown = f"{shown_list(lost)}; their amounts are unknown."
        notes.append(f"Lost in noise or not counted: {unknown}")
    if scaled:
        notes.append(
            f"Counters took turns, so these are estimates: {shown_list(scaled)}. Fewer metrics"
            " per run make them exact."
        )
    return notes


# perf itself ends well where a signal ends the program, and prints this.
_DIED = re.compile(r"(?m)^\S+: (Killed|Segmentation fault|Terminated|Aborted|Bus error)$")
UNKNOWN = "this machine does not count it"
_NOTHING = (
    "This machine lets perf count neither FLOPs nor bytes (a virtual machine or a kernel without"
    " counters): only times and page faults are measured."
)


@dataclass
class _State:
    # Repetitions -> event -> the values of its rounds.
    values: dict[int, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    seconds: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    shares: dict[str, float] = field(default_factory=dict)
    rans: list[Ran] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


def collect_perf(
    command: list[str], architecture: str | None, options: CollectOptions
) -> Collected:
    """Count with perf."""
    tool = find_tool("perf", options.environment)
    metrics = find_set("perf", architecture or chip_here("perf"))
    selection = known_selection(tool, metrics, options)
    options.progress(forecast("perf", selection, options), 0.0)
    with workspace(options.folder) as space:
        state = _State()
        _run_all(tool, command, options, space, selection, state)
        return finished(
            "perf",
            tool.version_text,
            _profile(command, selection, options, state),
            state.rans,
            [*(metrics.notes if selection.selected else [_NOTHING]), *state.troubles],
            architecture=metrics.architecture,
            metrics=selection.metrics,
            not_collected=selection.left_out,
        )


def known_selection(tool: Tool, metrics: MetricSet, options: CollectOptions) -> Selection:
    """The events that this machine counts; a want of permission is told at once."""
    tried: dict[str, bool] = {}

    def knows(event: str) -> bool:
        if event not in tried:
            counted, said = is_counted(tool, event, whole_machine=options.system_wide)
            problem = None if counted else recognised("perf", said)
            if problem is not None:
                raise problem
            tried[event] = counted
        return tried[event]

    return select(metrics, knows, UNKNOWN, whole_machine=options.system_wide)


def _run_all(
    tool: Tool, command: list[str], options: CollectOptions, space: Workspace, selection: Selection,
    state: _State,
) -> None:  # fmt: skip
    groups = selection.groups(options.metrics_per_run) or [()]
    repetitions = (1, 2) if options.subtract else (1,)
    # Interleaved, so that a slow minute of the machine meets all of them.
    plan = [(n, g, k) for n in range(options.rounds) for g in groups for k in repetitions]
    for done, (number, group, repeat) in enumerate(plan):
        options.progress(f"round {number + 1}", done / len(plan))
        report = space.reports / f"{number}_{groups.index(group)}_{repeat}.csv"
        events = (*SOFTWARE, *group)
        line = command_line(tool, events, report, options, command)
        ran = run(line, space.output, options, extra={REPETITIONS: str(repeat)})
        state.rans.append(ran)
        if not _settle(ran, report, repeat, space, state):
            return


def _settle(ran: Ran, report: Path, repeat: int, space: Workspace, state: _State) -> bool:
    text = report.read_text(errors="replace") if report.is_file() else ""
    values = parse(text)
    died = _DIED.search(ran.text)
    if died and not ran.stopped:
        raise InputError(f"the program died under perf ({died[1]})", advice="run it without perf")
    if ran.stopped or not values or ran.code:
        if not values or not state.seconds or (ran.code and not ran.stopped):
            failed("perf", ran, "", space.folder, last=True)
        state.troubles.append("perf was stopped before its last round: earlier rounds count.")
        return False
    for event, value in values.items():
        if value.count is not None:
            state.values[repeat][event].append(value.count)
            state.shares[event] = min(value.share, state.shares.get(event, 1.0))
    state.seconds[repeat].append(ran.elapsed_s)
    return True


def _profile(
    command: list[str], selection: Selection, options: CollectOptions, state: _State
) -> Profile:
    counts = Counts(
        {k: {e: median(v) for e, v in events.items()} for k, events in state.values.items()},
        state.shares,
        subtract=options.subtract,
    )
    row, notes = amounts_of(selection, counts)
    seconds = {k: median(v) for k, v in state.seconds.items()}
    time_s = seconds[1]
    if options.subtract and 2 in seconds:
        time_s = max(0.0, seconds[2] - seconds[1])
        notes.append("The region is two repetitions less one; start-up and preparation cancel.")
    else:
        notes.append("The whole program was counted, its start and imports with it.")
    name = RANGE_NAME if options.subtract else Path(command[0]).name
    row |= {"name": name, "kind": "unit", "time_s": time_s, "origin.time": "measured"}
    return Profile.of([row], Source(tool="perf"), notes=tuple(notes))
