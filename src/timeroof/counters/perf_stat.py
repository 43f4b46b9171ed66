"""`perf stat`: its command line, its values, and which events this machine counts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from timeroof.counters.options import CollectOptions
from timeroof.counters.tools import PATIENCE_S, Tool

SEPARATOR = ";"
# Counted by the kernel itself, so that they are there on every machine.
SOFTWARE = ("task-clock", "page-faults")
CYCLES = "cycles"
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
    """The values of a report, by event.

    >>> parse("<not supported>;;cycles;0;100.00;;")["cycles"].count is None
    True
    >>> parse("12,5;MiB;imc:u;99;50.00;;")["imc"]
    Value(count=13107200.0, share=0.5)
    """
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
