"""What ran where, in a line; and of a live run what its steps are and whose time they took."""

from __future__ import annotations

import os.path
import re
from typing import TYPE_CHECKING

from timeroof.core.profile import BEFORE, WINDOWS, StepKind, Steps
from timeroof.core.units import format_seconds
from timeroof.model.totals import device_count, rank_count
from timeroof.views.style import clip, plain_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timeroof.core.report import Report

LONGEST = 60
SEPARATOR = " · "
# Seconds that profiling added are told from this share of the steps' own on.
ADDED = 0.02
_SUFFIX = re.compile(
    r"\.(gz|bz2|xz|zst|zip|tar|tgz|json|csv|tsv|txt|log|sqlite|db|pb|xplane|pt|trace|troof|parquet"
    r"|nsys-rep|ncu-rep|pftrace)$",
    re.IGNORECASE,
)
# What torch.profiler's handler writes after a worker's name: a step, a time.
_STAMP = re.compile(r"[._](?:step_)?\d{6,}$")


def stem(name: str) -> str:
    """A file's name without what says only how it is stored.

    >>> stem("traces/resnet.1694128201545.pt.trace.json.gz"), stem("h100.2gpu.csv")
    ('resnet', 'h100.2gpu')
    """
    base = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    while (shorter := _SUFFIX.sub("", base)) not in (base, ""):
        base = shorter
    return _STAMP.sub("", base) or base


def program_of(command: str) -> str:
    """The program in a command of ours, with its own arguments.

    >>> program_of("timeroof run --steps 5 train.py --batch 8"), program_of("timeroof run -m a.b")
    ('train.py --batch 8', 'a.b')
    >>> program_of("timeroof study lstm --quick"), program_of("make")
    ('lstm --quick', 'make')
    """
    head = re.match(r"timeroof (run|study)\s+", command)
    if head is None:
        return command
    rest = command[head.end() :]
    try:
        import shlex

        words = shlex.split(rest)
    except ValueError:
        words = rest.split()
    script = next((k for k, word in enumerate(words) if word.endswith(".py")), None)
    if script is not None:
        return " ".join([os.path.basename(words[script]), *words[script + 1 :]])  # noqa: PTH119
    return rest.removeprefix("-m ")


def workload_name(report: Report) -> str:
    """What ran: the program of a live run, else the file or the folder that was read."""
    source = report.profile.source
    given = report.extras.get("name")
    if given:
        return str(given)
    if not source.files and source.command:
        return program_of(source.command)
    if source.name:
        return stem(source.name)
    names = [file.name.split(": ")[0] for file in source.files]
    if not names:
        return source.tool
    shared = os.path.commonpath(names) if len(names) > 1 else names[0]
    return stem(shared or names[0])


def device_name(report: Report) -> str:
    """Where it ran."""
    known = report.profile.device or (report.machine.device if report.machine else None)
    ranks = rank_count(report.profile)
    devices = device_count(report.profile, report.rows) // ranks
    if known is None:
        return f"{devices} GPUs of unknown type" if devices > 1 else "device not named"
    return f"{devices} × {known}" if devices > 1 else known


def _ranks(report: Report) -> str:
    count = rank_count(report.profile)
    if count > 1:
        return f"mean of {count:,} ranks"
    ranks = report.profile.kernels["rank"].drop_nulls().unique().to_list()
    world = report.profile.source.ranks
    if not ranks or world == 1:
        return ""
    return f"rank {ranks[0]} of {world}" if world else f"rank {ranks[0]}"


def _steps(report: Report) -> str:
    steps = report.totals.steps
    if steps is None or not steps.count:
        return ""
    return "1 step" if steps.count == 1 else f"{steps.count:,} steps"


def run_title(report: Report) -> str:
    """Workload, device, rank and steps."""
    parts = (workload_name(report), device_name(report), _ranks(report), _steps(report))
    first, *others = (plain_line(part) for part in parts if part)
    return SEPARATOR.join([clip(first, LONGEST), *(clip(part, LONGEST) for part in others)])


def launches_text(report: Report) -> str:
    """How many launches a run has."""
    count = report.totals.launches
    if count is None:
        return ""
    whole = f"{count:,.0f}" if count >= 100 or float(count).is_integer() else f"{count:.3g}"
    return f"{whole} launch{'' if whole == '1' else 'es'}"


def run_subtitle(report: Report) -> str:
    """The files, the profiler, the command and the number of launches."""
    source = report.profile.source
    names = [file.name for file in source.files]
    files = names[0] if len(names) == 1 else f"{len(names)} files" if names else ""
    folder = source.name if len(names) > 1 and source.name else ""
    command = source.command if source.command else ""
    tool = "" if command.startswith("timeroof") else source.tool
    parts = (folder, files, tool, command, launches_text(report))
    return SEPARATOR.join(clip(plain_line(part), 120) for part in parts if part)


# The steps of a live run: what ends one, which kinds there are, and whose time it was.


def account(steps: Steps | None) -> str:
    """What marks a step, and whose the time of all of them was.

    >>> kinds = [StepKind(name="training", count=56, total_s=0.06),
    ...          StepKind(name="training with evaluation", count=8, total_s=51.7)]
    >>> account(Steps(count=64, mark="SGD.step", kinds=kinds))
    '64 steps (SGD.step) took 51.8 s: 56 training steps 60.0 ms, 8 with evaluation 51.7 s.'
    >>> account(Steps(count=1, mark="SGD.step", kinds=kinds[:1], profiling_s=0.4))
    '1 step (SGD.step) took 60.0 ms. Profiling added 400 ms.'
    >>> before = StepKind(name="before the first step", count=0, total_s=9.0)
    >>> account(Steps(count=1, mark="SGD.step", kinds=[*kinds[:1], before]))
    '1 step (SGD.step) took 60.0 ms. Before the first step: 9.00 s.'
    >>> account(Steps(count=9)), account(None)
    ('', '')
    """
    # Files of profilers have steps too, but nobody says there what ends one.
    if steps is None or not steps.count or steps.mark is None:
        return _pause(steps)
    unit = "window" if steps.mark == WINDOWS else "step"
    mark = "of time; nothing marks a step" if unit == "window" else steps.mark
    number = f"{many(steps.count, unit)} ({mark})"
    known = [kind for kind in steps.kinds if kind.total_s is not None]
    if not known:
        return f"{number}."
    before_s = sum(kind.total_s or 0.0 for kind in known if kind.name == BEFORE)
    known = [kind for kind in known if kind.name != BEFORE]
    took_s = sum(kind.total_s or 0.0 for kind in known)
    parts = [
        f"{words} {format_seconds(kind.total_s)}"
        for kind, words in zip(known, kinds_in_words(known, unit), strict=True)
    ]
    parted = f": {', '.join(parts)}" if len(parts) > 1 else ""
    slower_s = steps.profiling_s or 0.0
    added = f" Profiling added {format_seconds(slower_s)}." if slower_s > ADDED * took_s else ""
    start = f" Before the first step: {format_seconds(before_s)}." if before_s else ""
    return f"{number} took {format_seconds(took_s)}{parted}.{start}{added}"


def _pause(steps: Steps | None) -> str:
    """How long the device paused outside of all steps, where that is long beside one.

    >>> _pause(Steps(count=4, profiled_s=0.1, pause_s=0.5)), _pause(Steps(count=4, profiled_s=0.1))
    ('The device paused for 500 ms outside of the steps. The run time leaves that out.', '')
    """
    if steps is None or not steps.pause_s or steps.pause_s < ADDED * (steps.profiled_s or 0.0):
        return ""
    paused = format_seconds(steps.pause_s)
    return f"The device paused for {paused} outside of the steps. The run time leaves that out."


def many(count: int, unit: str) -> str:
    """A number of things.

    >>> many(1, "step"), many(1200, "training step")
    ('1 step', '1,200 training steps')
    """
    return f"1 {unit}" if count == 1 else f"{count:,} {unit}s"


def kinds_in_words(kinds: Sequence[StepKind], unit: str) -> list[str]:
    """Each kind as part of a sentence; what the first one does is not said again.

    >>> names = ("training, 8x16", "training, 64x16", "after the last step")
    >>> kinds = [StepKind(name=name, count=3 * (k < 2)) for k, name in enumerate(names)]
    >>> kinds_in_words(kinds, "step")
    ['3 training steps, 8x16', '3 training, 64x16', 'after the last step']
    """
    found: list[str] = []
    first = ""
    for kind in kinds:
        name = kind.name
        if not kind.count:
            found.append(name)
        elif first and name.startswith(f"{first} with "):
            found.append(f"{kind.count:,} {name.removeprefix(first).strip()}")
        elif first:
            found.append(f"{kind.count:,} {'other' if name == unit else name}")
        else:
            first = name
            found.append(_first(kind, unit))
    return found


def _first(kind: StepKind, unit: str) -> str:
    """The kind with most time, by the name of what it is.

    >>> _first(StepKind(name="training with evaluation", count=8), "step")
    '8 training steps with evaluation'
    """
    if kind.name in (unit, "other steps"):
        return many(kind.count, "other step" if kind.name != unit else unit)
    head, comma, sizes = kind.name.partition(",")
    does, besides, more = head.partition(" with ")
    return f"{many(kind.count, f'{does} {unit}')}{besides}{more}{comma}{sizes}"


def of_kind(steps: Steps | None) -> str:
    """Which kind of steps a report is of, where there are several.

    >>> kinds = [StepKind(name="training", count=8), StepKind(name="x", count=1, reported=False)]
    >>> of_kind(Steps(count=9, kinds=kinds)), of_kind(Steps(count=9, kinds=kinds[:1]))
    (' (training)', '')
    """
    if steps is None or sum(kind.count > 0 for kind in steps.kinds) < 2:
        return ""
    return next((f" ({kind.name})" for kind in steps.kinds if kind.reported), "")
