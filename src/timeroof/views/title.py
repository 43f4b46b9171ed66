"""What ran where, in a line: the workload, the device, the rank and how many steps."""

from __future__ import annotations

import os.path
import re
import shlex
from typing import TYPE_CHECKING

from timeroof.model.totals import device_count, rank_count
from timeroof.views.plain import clip, plain_line

if TYPE_CHECKING:
    from timeroof.core.report import Report

LONGEST = 60
SEPARATOR = " · "
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
