"""The command line of Nsight Compute, in the words of the installed version."""

from __future__ import annotations

from pathlib import Path

from timeroof.counters.options import CollectOptions
from timeroof.counters.tools import Tool
from timeroof.counters.troubles import too_old


def command_line(
    tool: Tool,
    metrics: tuple[str, ...],
    report: Path,
    options: CollectOptions,
    command: list[str],
) -> list[str]:
    """ncu around a program: metrics as CSV into a file, the program's output left alone."""
    return [
        tool.path,
        "--csv",
        "--log-file",
        str(report),
        "--metrics",
        ",".join(metrics),
        "--target-processes",
        "all",
        *_names_and_units(tool),
        "--cache-control",
        "all" if options.cache == "flush" else "none",
        "--clock-control",
        "base" if options.clock == "base" else "none",
        *replay_words(tool, options),
        *_region(options),
        *_kernels(tool, options),
        *command,
    ]


def _names_and_units(tool: Tool) -> list[str]:
    """Whole names, and values without rounding; both options were renamed in 2020.2."""
    if tool.since(2020, 2):
        return ["--print-kernel-base", "demangled", "--print-units", "base"]
    return ["--kernel-base", "demangled", "--units", "base"]


def replay_words(tool: Tool, options: CollectOptions) -> list[str]:
    """How to say what is replayed; refuses what the installed version cannot do."""
    if options.replay == "kernel":
        return []
    if not tool.since(2020, 3):
        raise too_old("ncu", tool.version_text, "2020.3", "application replay")
    return ["--replay-mode", "application"]


def _region(options: CollectOptions) -> list[str]:
    if options.region == "profiler":
        return ["--profile-from-start", "off"]
    if options.region == "range":
        # The slash says that the range is pushed and popped, as frameworks mark theirs.
        return ["--nvtx", "--nvtx-include", f"{options.range_name}/"]
    return []


def _kernels(tool: Tool, options: CollectOptions) -> list[str]:
    line = []
    if options.kernels is not None and tool.since(2021, 1):
        line += ["--kernel-name-base", "demangled", "--kernel-name", f"regex:{options.kernels}"]
    elif options.kernels is not None:
        line += ["--kernel-regex-base", "demangled", "--kernel-regex", options.kernels]
    if options.skip_kernels:
        line += ["--launch-skip", str(options.skip_kernels)]
    if options.max_kernels is not None:
        line += ["--launch-count", str(options.max_kernels)]
    return line
