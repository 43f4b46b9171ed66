"""What a collection may be told, which metrics it asks for, and what it hands back.

Metric sets are data (TOML): which counters tell an architecture's time, FLOPs and bytes.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec
import polars as pl

from timeroof.core.errors import InputError, UsageError
from timeroof.core.files import check_schema
from timeroof.core.machine import Origin, is_resource
from timeroof.core.profile import Profile
from timeroof.core.units import format_seconds
from timeroof.read.formats import Progress, silent
from timeroof.read.nvidia.ncu_metrics import capability_of

Region = Literal["all", "profiler"]


@dataclass(frozen=True)
class CollectOptions:
    """How to collect.

    `region`: "all" of the program, or with "profiler" what lies between cudaProfilerStart and
    Stop (roctx resume and pause).
    `metrics_per_run`: how many metrics one run of the program collects; None leaves it to the
    profiler, 1 is the paper's way.
    """

    region: Region = "all"
    cache: Literal["flush", "keep"] = "flush"
    metrics_per_run: int | None = None
    # Where the profiler's files stay; without it they are gone once they are read.
    folder: Path | None = None
    working_folder: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    # The environment that `environment` is added to, in place of this process's own: a program
    # that ran in this process may have changed that.
    surroundings: Mapping[str, str] | None = None
    timeout_s: float | None = None
    grace_s: float = 20.0
    progress: Progress = silent
    # What the clean run showed, for the forecast.
    expected_kernels: int | None = None
    clean_s: float | None = None
    # perf: a region is two repetitions less one; the median of so many rounds.
    subtract: bool = False
    rounds: int = 3
    system_wide: bool = False


@dataclass(frozen=True)
class Collected:
    """What was counted: the profile, single launches in order, and what came from where."""

    profile: Profile
    tool: str
    version: str
    architecture: str
    commands: tuple[tuple[str, ...], ...]
    metrics: tuple[str, ...]
    # Metric -> why it was not collected.
    not_collected: dict[str, str] = field(default_factory=dict)
    launches: pl.DataFrame | None = None
    # Stopped before its end; the profile is what there was until then.
    interrupted: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be said about the numbers."""
        return self.profile.notes


SCHEMA = "timeroof.counters/1"
# The resource of metrics that tell a kernel's seconds.
TIME = "time"


class Choice(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Metrics that together tell one amount: their sum times a factor. Without a factor the metric
    counts something without a fixed size: zero means none, and more means that the amount is
    unknown."""

    names: list[str]
    factor: float | None = None
    origin: Origin = "measured"
    # "machine": counts all programs, so perf has to watch the whole machine.
    scope: str = "program"


class Entry(Choice, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """An amount of one resource, and what to collect instead where a profiler lacks it."""

    resource: str
    meaning: str
    pass_: int = msgspec.field(default=1, name="pass")
    # A chip that lacks it has no unit for it either: nothing is missing.
    optional: bool = False
    instead: list[Choice] = []

    @property
    def choices(self) -> list[Choice]:
        """All ways to tell the amount, the best first."""
        own = Choice(names=self.names, factor=self.factor, origin=self.origin, scope=self.scope)
        return [own, *self.instead]


class MetricSet(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The metrics of one architecture for one profiler."""

    schema: str
    tool: str
    architecture: str
    title: str
    source: str
    entry: list[Entry] = []
    extends: str | None = None
    matches: list[str] = []
    notes: list[str] = []


@cache
def set_names() -> tuple[str, ...]:
    """Names of all metric sets."""
    files = _folder().iterdir()
    return tuple(sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml")))


@cache
def load_set(name: str) -> MetricSet:
    """A metric set by its file's name; entries take the place of those it extends.

    >>> [e.factor for e in load_set("volta").entry if e.resource == "flop/fp16-tensor"]
    [512.0]
    """
    where = f"sets/{name}.toml"
    found = parse_set((_folder() / f"{name}.toml").read_text(encoding="utf-8"), where)
    if found.extends is None:
        return found
    base = load_set(found.extends)
    own = {e.resource for e in found.entry}
    entries = [*(e for e in base.entry if e.resource not in own), *found.entry]
    entries.sort(key=lambda e: e.resource != TIME)
    return msgspec.structs.replace(found, entry=entries, notes=[*base.notes, *found.notes])


def parse_set(text: str, where: str) -> MetricSet:
    """A metric set from TOML, checked."""
    try:
        raw = tomllib.loads(text)
        check_schema(raw.get("schema"), SCHEMA, where)
        found = msgspec.convert(raw, MetricSet)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"is no metric set ({error})", where=where) from error
    for entry in found.entry:
        if entry.resource != TIME and not is_resource(entry.resource):
            raise InputError(f"{entry.resource!r} is no resource", where=where)
    return found


def find_set(tool: str, architecture: str | None) -> MetricSet:
    """The set for an architecture's name, compute capability or gfx number; None is refused."""
    if architecture is None:
        raise UsageError("no file and no driver tells the chip", advice="name the machine")
    plain = architecture.strip().lower()
    wanted = {plain, plain.split(":", maxsplit=1)[0], capability_of(architecture) or plain}
    known = [s for s in map(load_set, set_names()) if s.tool == tool and s.matches]
    for candidate in known:
        names = {candidate.architecture.lower(), *(m.lower() for m in candidate.matches)}
        if wanted & names or (candidate.architecture == "Zen" and plain.startswith("zen")):
            return candidate
    raise UsageError(
        f"{tool} has no metric set for {architecture!r}",
        advice=f"use one of {', '.join(s.architecture for s in known)}",
    )


def _folder() -> resources.abc.Traversable:
    return resources.files("timeroof.counters") / "sets"


# Which metrics to collect: those of the set that the installed profiler knows.


@dataclass(frozen=True)
class Selected:
    """One entry of a set and the way chosen to tell it."""

    entry: Entry
    choice: Choice


@dataclass(frozen=True)
class Selection:
    """What is collected, and why the rest is not."""

    selected: tuple[Selected, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    # Resources of which a part cannot be counted.
    unknown: frozenset[str] = frozenset()

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics in order, each once."""
        return tuple(dict.fromkeys(n for s in self.selected for n in s.choice.names))

    def groups(self, most: int | None) -> list[tuple[str, ...]]:
        """The metrics of each run: by the set's passes, or at most so many together."""
        if most is not None:
            names = self.metrics
            return [names[i : i + most] for i in range(0, len(names), most)]
        passes: dict[int, list[str]] = {}
        for one in self.selected:
            passes.setdefault(one.entry.pass_, []).extend(one.choice.names)
        return [tuple(dict.fromkeys(passes[p])) for p in sorted(passes)]

    def without(self, metrics: Iterable[str], why: str) -> Selection:
        """The selection without some metrics that turned out not to be there."""
        gone = set(metrics)
        kept = tuple(s for s in self.selected if not gone & set(s.choice.names))
        lost = {s.entry.resource for s in self.selected if s not in kept}
        left_out = self.left_out | dict.fromkeys(sorted(gone), why)
        return Selection(kept, left_out, self.unknown | lost)


def select(
    metrics: MetricSet, knows: Callable[[str], bool], why: str, *, whole_machine: bool = False
) -> Selection:
    """The best way of every entry that the profiler knows; what it does not is left out."""
    selected, left_out, unknown = [], dict[str, str](), set[str]()
    for entry in metrics.entry:
        ways = [c for c in entry.choices if c.scope != "machine" or whole_machine]
        chosen = next((c for c in ways if all(map(knows, c.names))), None)
        if chosen is not None:
            selected.append(Selected(entry, chosen))
        elif not entry.optional:
            left_out |= dict.fromkeys(ways[0].names if ways else entry.names, why)
            unknown.add(entry.resource)
    return Selection(tuple(selected), left_out, frozenset(unknown))


def words(text: str) -> set[str]:
    """The names in a profiler's listing, whatever its layout."""
    return set(re.findall(r"[A-Za-z][A-Za-z0-9_]{3,}", text))


# How long counting will take, said before it starts.


# Seconds that one pass over one kernel takes with ncu, saving and restoring memory included:
# the authors' recorded DeepCAM runs (V100, ncu 2020.1) took 0.020 to 0.099 s per kernel.
PASS_LOW_S, PASS_HIGH_S = 0.02, 0.1
# Hardware counters that fit into one pass, about.
COUNTERS_PER_PASS = 4
# rocprofv3 runs kernels one after the other while it counts.
SERIAL_LOW, SERIAL_HIGH = 1.5, 4.0


def forecast(tool: str, selection: Selection, options: CollectOptions) -> str:
    """How often the program will be run for a selection of metrics, and about how long it takes."""
    most = options.metrics_per_run or (10**6 if tool == "ncu" else None)
    groups = selection.groups(most) or [()]
    runs = len(groups)
    if tool == "perf":
        runs *= options.rounds * (2 if options.subtract else 1)
    text = f"{tool} will run the program {'once' if runs == 1 else f'{runs} times'}"
    low = high = again_s = runs * options.clean_s if options.clean_s is not None else None
    if tool == "ncu":
        passes, kernels = sum(map(_passes, groups)), options.expected_kernels
        text += f", about {passes} passes over every kernel"
        text += f" of {kernels}" if kernels else ""
        low = passes * kernels * PASS_LOW_S + (again_s or 0.0) if kernels else None
        high = passes * kernels * PASS_HIGH_S + (again_s or 0.0) if kernels else None
    elif tool == "rocprofv3" and again_s is not None:
        low, high = again_s * SERIAL_LOW, again_s * SERIAL_HIGH
    if low is None or high is None:
        return text
    clean = f", {format_seconds(options.clean_s, 2)} clean" if options.clean_s is not None else ""
    between = "" if low == high else f" to {format_seconds(high, 2)}"
    return f"{text}: about {format_seconds(low, 2)}{between}{clean}"


def _passes(metrics: tuple[str, ...]) -> int:
    """Passes that a run needs, about: some counters at a time, instrumented code apart."""
    instrumented = sum("__sass_" in m for m in metrics)
    return math.ceil((len(metrics) - instrumented) / COUNTERS_PER_PASS) + bool(instrumented)
