"""rocprofv3: build its command line, run it once per group of counters, read what it counted."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from timeroof.counters.options import (
    Collected,
    CollectOptions,
    MetricSet,
    Selection,
    find_set,
    forecast,
    select,
    words,
)
from timeroof.counters.processes import Ran, Workspace, finished, read_reports, run, workspace
from timeroof.counters.tools import Tool, ask, chip_here, failed, find_tool, nothing_known
from timeroof.read.load import read_files

UNKNOWN = "rocprofv3 does not list it on this machine"
# More counters than the chip has registers for: they have to be collected in two runs.
_TOO_MANY = re.compile(r"(?i)exceeds the (?:capabilities|hardware)|error code 38")
_HOW = "rocprofv3 neither flushes caches nor fixes clocks: bytes are those of the program's order."


@dataclass
class _State:
    waiting: list[tuple[str, ...]]
    rans: list[Ran] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)


def collect_rocprofv3(
    command: list[str], architecture: str | None, options: CollectOptions
) -> Collected:
    """Count with rocprofv3."""
    tool = find_tool("rocprofv3", options.environment)
    metrics = find_set("rocprofv3", architecture or chip_here("rocprofv3"))
    selection = known_selection(tool, metrics)
    if not selection.metrics:
        raise nothing_known("rocprofv3", metrics.architecture)
    options.progress(forecast("rocprofv3", selection, options), 0.0)
    with workspace(options.folder) as space:
        state = _State(selection.groups(options.metrics_per_run))
        _run_all(tool, command, options, space, state)
        read = partial(read_files, [space.reports], format="rocprofv3-csv")
        profile = read_reports(space, state.rans, "rocprofv3", read)
        return finished(
            "rocprofv3",
            tool.version_text,
            profile,
            state.rans,
            [_HOW, *metrics.notes, *state.troubles],
            architecture=metrics.architecture,
            metrics=tuple(state.counted),
            not_collected=selection.left_out | state.left_out,
        )


def known_selection(tool: Tool, metrics: MetricSet) -> Selection:
    """The counters that the installed rocprofv3 lists for the chip."""
    listed = words(ask([tool.path, "--list-avail"]) or "")
    has_list = any(name.startswith(("SQ_", "TCC_", "TCP_", "FETCH")) for name in listed)
    return select(metrics, lambda metric: metric in listed or not has_list, UNKNOWN)


def command_line(
    tool: Tool, metrics: tuple[str, ...], folder: Path, options: CollectOptions, command: list[str]
) -> list[str]:
    """rocprofv3 around a program: counters and a trace of its kernels, as CSV into a folder."""
    line = [tool.path, "--pmc", *metrics, "--kernel-trace", "--output-format", "csv"]
    line += ["-d", str(folder), "-o", "timeroof_%pid%"]
    if options.region != "all":
        line.append("--selected-regions")
    return [*line, "--", *command]


def _run_all(
    tool: Tool, command: list[str], options: CollectOptions, space: Workspace, state: _State
) -> None:
    number, total = 0, max(1, sum(map(len, state.waiting)))
    while state.waiting:
        group = state.waiting.pop(0)
        number += 1
        folder = space.reports / f"pass_{number}"
        options.progress(f"counting {group[0]}", len(state.counted) / total)
        line = command_line(tool, group, folder, options, command)
        ran = run(line, space.output, options)
        state.rans.append(ran)
        if not _settle(ran, group, folder, space, state):
            return


def _settle(
    ran: Ran, group: tuple[str, ...], folder: Path, space: Workspace, state: _State
) -> bool:
    """Take what a run gave; False where no more runs should follow."""
    if has_counters(folder):
        state.counted += group
        if ran.code and not ran.stopped:
            state.troubles.append(
                f"rocprofv3 or the program ended with code {ran.code} in the run that counted"
                f" {group[0]}: only what was counted until then is here."
            )
        if ran.stopped:
            _leave(state, [], "it was stopped before")
        return not ran.stopped
    if _TOO_MANY.search(ran.text) and len(group) > 1 and not ran.stopped:
        half = len(group) // 2
        state.waiting[:0] = [group[:half], group[half:]]
        return True
    error = failed("rocprofv3", ran, "", space.folder, last=not state.counted)
    state.troubles.append(f"{error.what}: what was counted before is kept.")
    _leave(state, list(group), "rocprofv3 ended before")
    return False


def _leave(state: _State, group: list[str], why: str) -> None:
    rest = [*group, *(m for waiting in state.waiting for m in waiting)]
    state.left_out |= dict.fromkeys(rest, why)


def has_counters(folder: Path) -> bool:
    """Whether a run left a table of counters with a value in it."""
    for path in folder.rglob("*counter_collection.csv"):
        with path.open("rb") as stream:
            if len(stream.read(64 * 1024).strip().splitlines()) > 1:
                return True
    return False
