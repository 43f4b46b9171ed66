"""Where the wall time goes: its parts with their words, the largest first; they sum to the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import polars as pl

from timeroof.core.units import format_percent, format_seconds
from timeroof.model.totals import COMMUNICATION, COPY, IDLE, UNEXPLAINED, exclusive_s
from timeroof.views.doubts import LONGEST_NAME
from timeroof.views.plain import clip

if TYPE_CHECKING:
    from timeroof.core.report import Report


OUTSIDE = "idle"
HALF = 0.5


class PartWords(NamedTuple):
    """A class of the wall time: in a key, and as the subject of a sentence."""

    label: str
    subject: str
    verb: str = "take"


DEVICE_WORDS = {
    "compute": PartWords("compute-bound", "Compute-bound kernels"),
    "memory": PartWords("memory-bound", "Memory-bound kernels"),
    "launch": PartWords("launch-bound", "Launch-bound kernels"),
    "latency": PartWords("latency-bound", "Latency-bound kernels"),
    "fault": PartWords("page faults", "Page faults"),
    "link": PartWords("link-bound", "Link-bound kernels"),
    "unknown": PartWords("not counted", "Kernels without counts"),
    COMMUNICATION: PartWords("communication", "Exposed communication", "takes"),
    COPY: PartWords("copies", "Exposed copies"),
    OUTSIDE: PartWords("idle", "Idle time", "takes"),
    UNEXPLAINED: PartWords("unexplained", "Unexplained time", "takes"),
}
HOST_WORDS = DEVICE_WORDS | {
    "compute": PartWords("compute-bound", "Compute-bound ops"),
    "memory": PartWords("memory-bound", "Memory-bound ops"),
    "launch": PartWords("launch-bound", "Launch-bound ops"),
    "latency": PartWords("overhead inside ops", "Overhead inside ops", "takes"),
    "link": PartWords("link-bound", "Link-bound ops"),
    "unknown": PartWords("not counted", "Ops without counts"),
    OUTSIDE: PartWords("outside ops", "Time outside ops", "takes"),
}
NO_MACHINE = PartWords("limit unknown", "Kernels of unknown limit")
CAUSE_WORDS = {
    "launch-starved": "waiting for the host to launch",
    "host-sync": "after a synchronisation",
    "other-stream": "waiting for another stream",
    "data": "waiting for data",
    "device": "gaps between kernels",
    "python": "Python between ops",
    "autograd": "the autograd engine",
    "dispatch": "op dispatch",
    "runtime": "the framework's runtime",
    "compile": "compilation",
    "asleep": "sleep, files or locks",
    "cpu-wait": "waiting for a CPU",
    "own-threads": "more threads than CPUs",
    "profiler": "the profiler",
    "unknown": "unknown cause",
}
CAUSES_IN_TURN = {cause: place for place, cause in enumerate(CAUSE_WORDS)}


def percent(share: float | None) -> str:
    """A share as a percentage; what is next to nothing is called so.

    >>> percent(0.5478), percent(6e-9), percent(0.0)
    ('55 %', '< 0.01 %', '0 %')
    """
    return "< 0.01 %" if share is not None and 0 < share < 1e-4 else format_percent(share)


class Cause(msgspec.Struct, frozen=True):
    """A part of a part: idle time for one reason."""

    key: str
    label: str
    seconds: float
    text: str
    share: float


class Part(msgspec.Struct, frozen=True):
    """A class of the wall time; one below 0 is a notch at the end of the bar."""

    key: str
    label: str
    subject: str
    verb: str
    seconds: float
    text: str
    percent: str
    share: float
    causes: tuple[Cause, ...] = ()
    # The kernel with most of its seconds, and its share of them.
    kernel: str = ""
    kernel_share: float = 0.0

    @property
    def detail(self) -> str:
        """What it consists of: idle time by cause, else the largest kernel."""
        if self.seconds < 0:
            return "profiled steps were slower"
        if self.causes:
            return ", ".join(f"{cause.label} {cause.text}" for cause in self.causes)
        return self.kernel

    @property
    def main(self) -> str:
        """What most of it is, where that is one thing with a name."""
        if self.causes:
            first = self.causes[0]
            return first.label if first.key != "unknown" and first.share > self.share / 2 else ""
        return clip(self.kernel, LONGEST_NAME) if self.kernel_share > HALF else ""


def is_host(report: Report) -> bool:
    """Whether the rows are ops of a CPU, and not kernels of a device."""
    if report.machine is not None:
        return report.machine.kind == "cpu" or report.machine.launching == "synchronous"
    kinds = report.profile.kernels["kind"]
    return bool(len(kinds)) and bool((kinds == "op").all())


def part_words(report: Report) -> dict[str, PartWords]:
    """The words for classes of time that fit the run."""
    words = HOST_WORDS if is_host(report) else DEVICE_WORDS
    return words if report.machine is not None else words | {"unknown": NO_MACHINE}


def of_profiled(parts: Sequence[Part]) -> bool:
    """Whether the shares of parts are of the profiled step: one of them is longer than the step."""
    return max((part.seconds for part in parts), default=0.0) > sum(p.seconds for p in parts)


def time_parts(report: Report) -> list[Part]:
    """Where the wall time goes, the largest part first; they sum to the run time.

    Where profiled steps were slower than unprofiled ones, what is unexplained is below 0; the
    others are shares of the run time all the same, and sum to more than all of it. No part is
    more than all: where one were, shares are of the profiled step (`of_profiled`).
    """
    by_class = {key: s for key, s in report.totals.by_class.items() if s}
    idle = _idle_in_steps(report)
    seconds = {key: s for key, s in by_class.items() if not key.startswith(IDLE)}
    unexplained = seconds.pop(UNEXPLAINED, 0.0)
    rest = _before_kernels(report, by_class)
    if rest:
        idle["unknown"] = idle.get("unknown", 0.0) + rest
    if idle:
        seconds[OUTSIDE] = sum(idle.values())
    if abs(unexplained) > 1e-9 * sum(seconds.values()):
        seconds[UNEXPLAINED] = unexplained
    whole = sum(seconds.values())
    if max(seconds.values(), default=0.0) > whole:
        whole = sum(s for s in seconds.values() if s > 0) or 1.0
    words, largest = part_words(report), _largest_kernels(report)
    return [
        Part(
            key,
            *words[key],
            s,
            format_seconds(s),
            percent(s / whole) if s > 0 else "",
            s / whole,
            tuple(_causes(idle, whole)) if key == OUTSIDE else (),
            *largest.get(key, ("", 0.0)),
        )
        for key, s in sorted(seconds.items(), key=lambda item: -item[1])
    ]


def _largest_kernels(report: Report) -> dict[str, tuple[str, float]]:
    """By class of time the kernel with most of its seconds, and its share of them."""
    rows = report.rows.filter(pl.col("time_s") > 0)
    groups = (
        rows.group_by(row_class().alias("class"), "short_name", maintain_order=True)
        .agg(exclusive_s().sum().alias("own_s"))
        .with_columns((pl.col("own_s") / pl.col("own_s").sum().over("class")).alias("share"))
        .sort("own_s", descending=True, maintain_order=True)
        .unique("class", keep="first", maintain_order=True)
    )
    found = groups.select("class", "short_name", "share").iter_rows()
    return {key: (name or "", share) for key, name, share in found}


def row_class() -> pl.Expr:
    """The class of time that a row's own seconds count in."""
    kinds = {"collective": COMMUNICATION, "copy": COPY, "memset": COPY}
    return (
        pl.col("kind")
        .replace_strict(kinds, default=None, return_dtype=pl.String)
        .fill_null(pl.col("limit"))
    )


def _idle_in_steps(report: Report) -> dict[str, float]:
    """Idle seconds by cause; a pause outside of all steps is not in the run time."""
    steps = report.totals.steps
    pauses = steps.pause_by_cause if steps is not None else {}
    found = {
        k.removeprefix(IDLE): s for k, s in report.totals.by_class.items() if k.startswith(IDLE)
    }
    left = {cause: s - pauses.get(cause, 0.0) for cause, s in found.items()}
    return {cause: s for cause, s in left.items() if s > 1e-12}


def _before_kernels(report: Report, by_class: dict[str, float]) -> float:
    """Idle time before kernels of a source without a wall clock, which no class holds."""
    measured_s = report.totals.ladder.measured_s
    if report.totals.wall_s is not None or measured_s is None:
        return 0.0
    rest = measured_s - sum(by_class.values())
    return rest if rest > 1e-6 * measured_s else 0.0


def _causes(idle: dict[str, float], whole: float) -> list[Cause]:
    found = sorted(idle.items(), key=lambda item: (-item[1], CAUSES_IN_TURN.get(item[0], 99)))
    return [
        Cause(cause, CAUSE_WORDS.get(cause, cause), s, format_seconds(s), s / whole)
        for cause, s in found
    ]


def ranked(parts: Iterable[Part]) -> list[Part]:
    """The parts above 0, largest first; what is unexplained has no name to begin with."""
    above = [part for part in parts if part.seconds > 0]
    return sorted(above, key=lambda part: -part.seconds)
