"""Write what timeroof says of many inputs, and compare two such folders field by field.

    python tools/goldens.py write before                     # with the timeroof of this interpreter
    python tools/goldens.py write before --python PYTHON     # with that of another worktree
    python tools/goldens.py write after && python tools/goldens.py compare before after

Goldens of recorded data stay out of the repository: they derive from other people's files.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import golden_compare
from golden_cases import OURS, Case, all_cases

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "shared" / "data"
# One thread each and one order of sets. Sums over groups of Polars may still end in another last
# digit, as it makes groups in any order: `compare --rtol 1e-12` leaves that out.
ENVIRONMENT = {
    "COLUMNS": "120",
    "NO_COLOR": "1",
    "POLARS_MAX_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "MPLBACKEND": "Agg",
}


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; 0 is done or equal, 1 is different, 2 is bad input."""
    asked = _parser().parse_args(arguments)
    if asked.command == "write":
        return write(asked)
    missing = [folder for folder in (asked.a, asked.b) if not folder.is_dir()]
    if missing:
        print(f"{missing[0]}: is not a folder of goldens", file=sys.stderr)
        return 2
    try:
        return golden_compare.compare_folders(asked.a, asked.b, rtol=asked.rtol, most=asked.most)
    except BrokenPipeError:
        # `| head` has seen enough; Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="write a golden for every case")
    writing.add_argument("folder", type=Path, metavar="DIR")
    writing.add_argument("--data", type=Path, default=DATA, help="folder of recorded files")
    writing.add_argument("--only", metavar="GLOB", help="only cases of such names")
    writing.add_argument("--jobs", type=int, default=2)
    writing.add_argument(
        "--python", default=sys.executable, help="interpreter whose timeroof is asked"
    )
    comparing = commands.add_parser("compare", help="group the differences of two folders")
    comparing.add_argument("a", type=Path)
    comparing.add_argument("b", type=Path)
    comparing.add_argument("--most", type=int, default=60, help="groups to print")
    comparing.add_argument("--rtol", type=float, default=0.0, help="numbers this near are equal")
    return parser


def write(asked: argparse.Namespace) -> int:
    """Write the goldens and say how long it took."""
    data = asked.data.resolve() if asked.data.is_dir() else None
    if data is None:
        print(f"{asked.data}: is not there; only files of our own are read", file=sys.stderr)
    cases = [
        c for c in all_cases(data) if asked.only is None or fnmatch.fnmatch(c.name, asked.only)
    ]
    if not cases:
        print(f"no case is called {asked.only}", file=sys.stderr)
        return 2
    start_s = time.monotonic()
    folders = {"data": str(data), "ours": str(OURS)}
    failed = _write_all(cases, folders, asked.folder.resolve(), asked.python, asked.jobs)
    print(f"{len(cases)} goldens in {time.monotonic() - start_s:.0f} s: {asked.folder}")
    for name in failed:
        print(f"the process died: {name}", file=sys.stderr)
    return 1 if failed else 0


def _write_all(
    cases: list[Case], folders: dict[str, str], target: Path, python: str, jobs: int
) -> list[str]:
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in cases:
        waiting.put(case)
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | ENVIRONMENT | {"TIMEROOF_HOME": home}

        def work() -> None:
            failed.extend(_drain(waiting, folders, target, python, environment))

        threads = [threading.Thread(target=work) for _ in range(max(jobs, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return sorted(failed)


def _drain(
    waiting: queue.SimpleQueue[Case],
    folders: dict[str, str],
    target: Path,
    python: str,
    environment: dict[str, str],
) -> list[str]:
    """Hand cases to one worker until none is left; a worker that dies is replaced."""
    failed: list[str] = []
    worker = _Worker(python, environment)
    while True:
        try:
            case = waiting.get_nowait()
        except queue.Empty:
            worker.end()
            return failed
        path = target / f"{case.name}.golden.json"
        if not worker.run(case, folders[case.folder], path):
            failed.append(case.name)
            worker.end()
            worker = _Worker(python, environment)


class _Worker:
    """A process that runs cases, one at a time."""

    def __init__(self, python: str, environment: dict[str, str]) -> None:
        # -P: no module beside the worker may stand in for one that timeroof imports.
        command = [python, "-P", str(HERE / "golden_worker.py")]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            encoding="utf-8",
        )

    def run(self, case: Case, folder: str, target: Path) -> bool:
        """Whether the case was run to its end and written."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"words": case.words, "folder": folder, "target": str(target)})
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return False
        return self._process.stdout.readline() == "done\n"

    def end(self) -> None:
        """Let the process finish."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


if __name__ == "__main__":
    sys.exit(main())
