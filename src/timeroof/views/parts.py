"""Where the wall time goes: its parts with their words, the largest first; they sum to the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import polars as pl

from timeroof.core.errors import CONTENDED, UNTRUSTED
from timeroof.core.units import format_amount, format_percent, format_seconds, format_work
from timeroof.model.totals import (
    COMMUNICATION,
    COPY,
    IDLE,
    UNEXPLAINED,
    exclusive_s,
    unexplained_words,
)
from timeroof.views.style import clip

if TYPE_CHECKING:
    from timeroof.core.report import Report, Totals


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


class Rung(msgspec.Struct, frozen=True):
    """One rung of it, with its share of the measured time."""

    key: str
    label: str
    hint: str
    seconds: float
    text: str
    share: float | None
    percent: str


def ladder(report: Report) -> list[Rung]:
    """From the run as it was down to one ideal kernel; only the rungs that are known."""
    limits = report.totals.ladder
    steps = (
        ("measured_s", "As it ran", "idle included"),
        ("roof_s", "Every kernel at its limit", "same work, same launches"),
        ("fused_s", "Each phase perfectly fused", "intermediates never reach memory"),
        ("ideal_s", "One ideal kernel", "the whole step fused into one"),
    )
    whole = limits.measured_s
    rungs = []
    for key, label, hint in steps:
        seconds = None if is_empty(report) else getattr(limits, key)
        if seconds is not None:
            share = seconds / whole if whole else None
            text = format_seconds(seconds)
            rungs.append(Rung(key, label, hint, seconds, text, share, percent(share)))
    return rungs


# The work, and how we know.


def seconds_words(report: Report) -> str:
    """Which seconds a reader of a live run sees, and what of them is unexplained."""
    totals, steps = report.totals, report.totals.steps
    if steps is None or totals.unexplained_s is None:
        return ""
    words = [
        f"All times are seconds of an unprofiled step ({format_seconds(totals.wall_s)}).",
        "Kernels and idle time were measured in profiled steps"
        f" ({format_seconds(steps.profiled_s)}), less profiler overhead.",
        unexplained_words(totals) or "Together they explain the whole step.",
    ]
    return " ".join(words)


def amounts_line(totals: Totals) -> str:
    """Total work in a line."""
    # From the level next to the cores outwards.
    levels = sorted(totals.bytes.items(), key=lambda item: (item[0] == "dram", item[0]))
    moved = [(level.upper(), float(v)) for level, v in levels if v is not None]
    texts = [f"{format_amount(v, 'B')} at {level}" for level, v in moved]
    return ", ".join([*format_work(totals.flops), *texts])


def origin_rows(report: Report) -> list[tuple[str, str, int, str]]:
    """How every kind of number came about: what, origin, rows, share of the time."""
    rows = report.profile.kernels
    whole = float(rows["time_s"].sum()) or 1.0
    found = []
    for name in (c for c in rows.columns if c.startswith("origin.")):
        groups = rows.group_by(name).agg(pl.len(), pl.col("time_s").sum())
        groups = groups.sort("time_s", descending=True)
        found += [
            (name.removeprefix("origin."), origin or "unknown", count, percent(s / whole))
            for origin, count, s in groups.iter_rows()
        ]
    return found


# Above this share of the run without a limit, or with noisy times, shares say little.
MOSTLY = 0.5
# Below this share of the time kernels above their limit do not matter to the whole.
LEAST_ABOVE = 0.02
LONGEST_NAME = 40
QUIET = "Measure again while nothing else runs."
MORE_STEPS = "Run more steps."
# What to do about a warning, by its code. Warnings that are not here say it themselves.
ADVICE = {
    CONTENDED: QUIET,
    UNTRUSTED: QUIET,
    "unexplained": QUIET,
    "no-unprofiled-step": MORE_STEPS,
    "block-once": "In a loop, say where each step ends with p.step(), or decorate the function of"
    " a step with @timeroof.profile: then steps are timed without instruments, too.",
    "not-described": MORE_STEPS,
    "cut-off": "Record the trace again, or read on with care.",
    "damaged": "Record the trace again, or read on with care.",
}
NOISY = "TR901"
UNKNOWN = "TR902"
# What a machine is called that was measured as it is.
HERE = "here"
# Said by the banner in words of its own.
OWN = ("no-machine", "no-device")


class Doubt(msgspec.Struct, frozen=True):
    """A reason not to trust the numbers, and what to do about it."""

    text: str
    advice: str = ""
    code: str = ""


def is_empty(report: Report) -> bool:
    """Whether nothing was measured: sums over no rows are not 0 but unknown."""
    return not len(report.profile)


def doubts_of(report: Report) -> list[Doubt]:
    """Every reason that is at hand, the gravest first."""
    warned = [note for note in report.notes if note.level != "info" and note.code not in OWN]
    doubts = [Doubt(str(note), ADVICE.get(note.code, ""), note.code) for note in warned]
    found = [*_unknown(report), *_noisy(report), *_above_roof(report), *doubts]
    # Where the times say nothing, that comes first.
    return sorted(found, key=lambda doubt: doubt.code != UNTRUSTED)


def _unknown(report: Report) -> list[Doubt]:
    if is_empty(report):
        return []
    if report.machine is None:
        words = "No machine is named, so the limits of the kernels are unknown."
        return [Doubt(words, "Add --machine NAME; `timeroof machines` lists them.", "no-machine")]
    totals = report.totals
    paused_s = totals.steps.pause_s or 0.0 if totals.steps is not None else 0.0
    whole = sum(s for s in totals.by_class.values() if s > 0) - paused_s
    unknown = totals.by_class.get("unknown", 0.0)
    if not whole or unknown <= MOSTLY * whole:
        return []
    share = format_percent(unknown / whole)
    words = f"{share} of the run has no FLOP or byte counts, so its limit is unknown."
    cure = next((f.action for f in report.findings if f.code == UNKNOWN), None)
    return [Doubt(words, cure or "", "mostly-unknown")]


def _noisy(report: Report) -> list[Doubt]:
    finding = next((f for f in report.findings if f.code == NOISY), None)
    share = None if finding is None else finding.evidence.get("noisy_share")
    if share is None or share < MOSTLY:
        return []
    words = f"Kernels with {format_percent(share)} of the time vary by 20 % or more between calls."
    return [Doubt(words, "Measure more steps on a quiet machine.", "noisy")]


def _above_roof(report: Report) -> list[Doubt]:
    """Kernels that beat their limit: a limit of the whole that contains them is none."""
    above = report.rows.filter(pl.col("above_roof").is_not_null())
    whole_s = float(report.rows["time_s"].sum())
    if not above.height or float(above["time_s"].sum()) < LEAST_ABOVE * whole_s:
        return []
    worst = above.sort("kernel_efficiency", descending=True, nulls_last=True).row(0, named=True)
    kernels = "1 kernel runs" if above.height == 1 else f"{above.height} kernels run"
    share = format_percent(worst["kernel_efficiency"])
    name = clip(worst["short_name"] or "", LONGEST_NAME)
    words = f"{kernels} faster than the limit, {name} at {share} of it ({worst['above_roof']})."
    return [Doubt(words, _machine_advice(report), "above-roof")]


def _machine_advice(report: Report) -> str:
    """What to check first: a measurement may be of another hour, a datasheet of another device."""
    if report.machine is not None and report.machine.name == HERE:
        return (
            "The machine may be faster now than when it was measured: `timeroof machine --fresh`"
            " measures it anew. Then check the counts."
        )
    return "Check the machine and the counts."
