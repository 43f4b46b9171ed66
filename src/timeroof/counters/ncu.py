"""Nsight Compute: build its command line, run it, and read what it counted."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import ORIGIN, amount_columns
from timeroof.counters.options import (
    TIME,
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
from timeroof.read.csv import find_table
from timeroof.read.load import read_files
from timeroof.read.nvidia.ncu_amounts import amounts_of
from timeroof.read.nvidia.ncu_csv import is_table, read_part
from timeroof.read.nvidia.ncu_metrics import capability_of
from timeroof.read.nvidia.ncu_profile import joined, runs_of
from timeroof.read.open import open_input

# The command line of Nsight Compute, in the words of the installed version.


def command_line(
    tool: Tool, metrics: tuple[str, ...], report: Path, options: CollectOptions, command: list[str]
) -> list[str]:
    """ncu around a program: metrics as CSV into a file, the program's output left alone."""
    line = [tool.path, "--csv", "--log-file", str(report), "--metrics", ",".join(metrics)]
    line += ["--target-processes", "all", "--print-kernel-base", "demangled"]
    line += ["--print-units", "base", "--cache-control"]
    line += ["all" if options.cache == "flush" else "none", "--clock-control", "base"]
    line += ["--profile-from-start", "off"] if options.region == "profiler" else []
    return [*line, *command]


# What Nsight Compute wrote: how far it is, what it complains about, its launches in order.


_PROFILING = re.compile(rb'==PROF== Profiling "([^"\n]*)')
_UNKNOWN = re.compile(r"Failed to find metric (?:regex:\^?)?\(?([A-Za-z0-9_]+)")
# At the ends of a report stand the profiler's messages.
END_BYTES = 64 * 1024


class Watch:
    """Follows a report as it grows and tells how many kernels are done."""

    def __init__(self, report: Path, options: CollectOptions, done: float, share: float) -> None:
        self._report, self._options = report, options
        self._done, self._share = done, share
        self._read_bytes = self._kernels = 0

    def __call__(self) -> None:
        """Look once."""
        with contextlib.suppress(OSError), self._report.open("rb") as stream:
            stream.seek(self._read_bytes)
            self._tell(stream.read(END_BYTES * 16))
            self._read_bytes = stream.tell()

    def _tell(self, fresh: bytes) -> None:
        names = _PROFILING.findall(fresh)
        if not names:
            return
        self._kernels += len(names)
        wanted = self._options.expected_kernels
        part = min(1.0, self._kernels / wanted) if wanted else 0.5
        name = names[-1].decode(errors="replace")
        self._options.progress(f"kernel {self._kernels}: {name}", self._done + part * self._share)


def ends_of(report: Path) -> str:
    """The beginning and the end of a report, where messages are."""
    try:
        with report.open("rb") as stream:
            head = stream.read(END_BYTES)
            stream.seek(max(stream.tell(), report.stat().st_size - END_BYTES))
            return (head + b"\n" + stream.read(END_BYTES)).decode(errors="replace")
    except OSError:
        return ""


def has_table(report: Path) -> bool:
    """Whether a report has results."""
    try:
        return find_table(open_input(report).only, is_table) is not None
    except InputError:
        return False


def unknown_metrics(text: str, metrics: tuple[str, ...]) -> list[str]:
    """Metrics that ncu refused: it names the first that it does not know."""
    bases = set(_UNKNOWN.findall(text))
    return [m for m in metrics if m.split(".", maxsplit=1)[0] in bases]


def launches_of(reports: Path, chip: str) -> pl.DataFrame | None:
    """Single launches in order with their amounts, None where the runs do not fit together."""
    found = open_input(reports)
    try:
        runs = runs_of([read_part(entry, "") for entry in found.entries])
    except InputError:
        return None
    if len(runs) != 1:
        return None
    whole = joined(runs[0])
    capability = capability_of(whole.capability) or capability_of(chip)
    amounts = amounts_of(whole.table, set(whole.roles), capability)
    table = whole.table.with_columns(amounts.columns)
    origins = [c for c in table.columns if c.startswith(ORIGIN)]
    return table.select("name", *amount_columns(table), *origins)


UNKNOWN = "ncu does not know it on this machine"


@dataclass
class _State:
    selection: Selection
    rans: list[Ran] = field(default_factory=list)
    reports: list[Path] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


def collect_ncu(command: list[str], architecture: str | None, options: CollectOptions) -> Collected:
    """Count with Nsight Compute."""
    tool = find_tool("ncu", options.environment)
    chip = architecture or chip_here("ncu")
    metrics = find_set("ncu", chip)
    selection = known_selection(tool, metrics)
    if not selection.metrics:
        raise nothing_known("ncu", metrics.architecture)
    options.progress(forecast("ncu", selection, options), 0.0)
    with workspace(options.folder) as space:
        state = _State(selection)
        _run_all(tool, command, options, space, state)
        profile = read_reports(
            space, state.rans, "ncu", lambda: read_files([space.reports], architecture=chip)
        )
        collected = finished(
            "Nsight Compute",
            tool.version_text,
            profile,
            state.rans,
            [*_how(options, len(state.rans)), *metrics.notes, *state.troubles],
            architecture=metrics.architecture,
            metrics=state.selection.metrics,
            not_collected=state.selection.left_out,
        )
        return replace(collected, launches=launches_of(space.reports, chip or ""))


def known_selection(tool: Tool, metrics: MetricSet) -> Selection:
    """The metrics that the installed ncu lists."""
    listed = words(ask([tool.path, "--query-metrics"]) or "")
    # Where it lists nothing (no driver, other layout), the run itself will tell.
    families = {_family(name) for name in listed}

    def knows(metric: str) -> bool:
        base = metric.split(".", maxsplit=1)[0]
        return base in listed or _family(base) not in families

    return _one_way_of_tensor(select(metrics, knows, UNKNOWN))


def _one_way_of_tensor(selection: Selection) -> Selection:
    """Tensor instructions, where they have to stand in for one path, stand in for all paths. The
    reader takes paths before instructions: a path that is missing would look unused."""
    if all(s.choice.factor or s.entry.resource == TIME for s in selection.selected):
        return selection
    paths = [m for m in selection.metrics if m.startswith("sm__ops_path_tensor_")]
    return selection.without(paths, "tensor instructions are counted instead")


def _family(name: str) -> str:
    """The unit of a metric, instrumented ones apart: lists may leave a whole family out."""
    unit, _, rest = name.partition("__")
    return "sass" if rest.startswith("sass_") else unit


def _run_all(
    tool: Tool, command: list[str], options: CollectOptions, space: Workspace, state: _State
) -> None:
    done: set[str] = set()
    while left := tuple(m for m in state.selection.metrics if m not in done):
        group, total = left[: options.metrics_per_run or None], len(state.selection.metrics)
        report = _report(space, group)
        watch = Watch(report, options, len(done) / total, len(group) / total)
        options.progress(f"counting {group[0]}", len(done) / total)
        line = command_line(tool, group, report, options, command)
        ran = run(line, space.output, options, watch=watch)
        state.rans.append(ran)
        if not _settle(ran, group, report, space, state, done):
            return


def _report(space: Workspace, group: tuple[str, ...]) -> Path:
    name = group[0] if len(group) == 1 else f"{len(group)}_metrics_from_{group[0]}"
    return space.reports / f"out.{name}.csv"


def _settle(
    ran: Ran, group: tuple[str, ...], report: Path, space: Workspace, state: _State, done: set[str]
) -> bool:
    """Take what a run gave; False where no more runs should follow."""
    text = ends_of(report) + ran.text
    if has_table(report):
        state.reports.append(report)
        done |= set(group)
        if ran.stopped:
            _leave_rest(state, done, "it was stopped before")
        elif ran.code:
            state.troubles.append(
                f"ncu or the program ended with code {ran.code}: only what was counted until then"
                " is here."
            )
        return not ran.stopped
    unknown = unknown_metrics(text, group)
    if unknown and not ran.stopped:
        state.selection = state.selection.without(unknown, UNKNOWN)
        report.unlink(missing_ok=True)
        return True
    error = failed("ncu", ran, text, space.folder, last=not state.reports)
    state.troubles.append(
        f"{error.what[0].upper()}{error.what[1:]}: what it counted before is kept."
    )
    report.unlink(missing_ok=True)
    _leave_rest(state, done, "ncu ended before")
    return False


def _leave_rest(state: _State, done: set[str], why: str) -> None:
    rest = [m for m in state.selection.metrics if m not in done]
    state.selection = state.selection.without(rest, why)


def _how(options: CollectOptions, runs: int) -> list[str]:
    caches = "caches flushed before each kernel" if options.cache == "flush" else "caches kept"
    runs_text = "one run" if runs == 1 else f"{runs} runs"
    return [f"Counted in {runs_text} of the program, kernel replay, {caches}, clocks at base."]
