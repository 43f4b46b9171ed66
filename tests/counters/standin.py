"""Stand-ins for profilers: small programs on PATH that check their arguments and answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from timeroof.counters import CollectOptions

# What every stand-in begins with: its arguments are kept, one line of JSON per call.
_HEAD = """#!{python} -SE
import json, os, signal, sys, time
args = sys.argv[1:]
here = os.path.dirname(os.path.abspath(__file__))
def value(option):
    return args[args.index(option) + 1] if option in args else None
def note():
    with open(os.path.join(here, "calls.jsonl"), "a") as calls:
        calls.write(json.dumps(args) + "\\n")
"""
_NCU = """
if args == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler")
    print("Version {version} (build 1) (public-release)")
    sys.exit(0)
if args == ["--query-metrics"]:
    listed = {listed!r}
    if listed is None:
        sys.exit("==ERROR== no device")
    print("Device Tesla V100" + "\\n" + "-" * 40)
    for name in listed:
        print(name.ljust(60) + "# of something")
    sys.exit(0)
note()
metrics = value("--metrics").split(",")
report = value("--log-file")
"""


def install(folder: Path, name: str, body: str) -> Path:
    """Put a stand-in on a PATH of its own; returns the folder."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(_HEAD.format(python=sys.executable) + body)
    path.chmod(0o755)
    return folder


def install_ncu(
    folder: Path, body: str, *, version: str = "2023.3.1.0", listed: list[str] | None = None
) -> Path:
    """A stand-in for ncu; `body` sees `metrics` and `report`."""
    head = _NCU.replace("{version}", version).replace("{listed!r}", repr(listed))
    return install(folder, "ncu", head + body)


def calls(folder: Path) -> list[list[str]]:
    """The command lines that a stand-in was given."""
    path = folder / "calls.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def options(place: Path, **more: object) -> CollectOptions:
    """Options that find the stand-ins of a folder."""
    return CollectOptions(environment={"PATH": str(place)}, grace_s=5.0, **more)  # type: ignore[arg-type]


# Writes the metrics it was asked for, each 10 per launch, of kernels a, b, a.
WRITE_TABLE = """
def unit_of(metric):
    return "ns" if "time" in metric else "byte" if "bytes" in metric else "inst"
def table(kernels=("a", "b", "a"), amount=10):
    lines = ['"ID","Kernel Name","Stream","CC","Metric Name","Metric Unit","Metric Value"']
    for number, kernel in enumerate(kernels):
        for metric in metrics:
            unit = unit_of(metric)
            lines.append(f'"{number}","{kernel}","7","8.0","{metric}","{unit}","{amount}"')
    return "\\n".join(lines) + "\\n"
def write(text):
    with open(report, "w") as out:
        out.write("==PROF== Connected to process 1\\n" + text)
"""
