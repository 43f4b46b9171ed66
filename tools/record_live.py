"""Record the live runs and the study that goldens are made of: tests/golden/live and …/study.

    python tools/record_live.py

Needed only where the format of runs changes; otherwise the runs stay as they are, since every
recording has other times and all goldens of them change.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from golden_cases import OURS, STUDY

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "live_programs"
MOST_BYTES = 60_000
STEPS = "5"
OS = re.compile(r'(\bos"?\s*[=:]\s*")[^"]*(")')


def main() -> int:
    """Measure the machine once, record everything on it, refuse what is too large."""
    for folder in (OURS / "live", OURS / "study"):
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        machine = _machine(Path(scratch))
        made = [_record(program, machine) for program in sorted(PROGRAMS.glob("*.py"))]
        made += _study(machine, Path(scratch))
    large = [path for path in made if path.stat().st_size > MOST_BYTES]
    for path in made:
        print(f"{path.relative_to(HERE.parent)}: {path.stat().st_size} bytes")
    return 1 if large else 0


def _timeroof(*words: str, home: Path, folder: Path = PROGRAMS) -> None:
    command = [sys.executable, "-m", "timeroof", *words]
    environment = os.environ | {"TIMEROOF_HOME": str(home)}
    silent = subprocess.DEVNULL
    subprocess.run(command, check=True, cwd=folder, env=environment, stdout=silent, stderr=silent)


def _machine(scratch: Path) -> Path:
    """This machine as a file, without the name of its kernel's build."""
    path = scratch / "machine.toml"
    _timeroof("machine", "--quick", "--save", str(path), home=scratch)
    path.write_text(_without_build(path.read_text(encoding="utf-8")), encoding="utf-8")
    return path


def _without_build(text: str) -> str:
    """The system's name alone, of TOML or JSON."""
    return OS.sub(r"\1Linux\2", text)


def _record(program: Path, machine: Path) -> Path:
    target = OURS / "live" / f"{program.stem}.troof"
    options = ("--steps", STEPS, "--machine", str(machine), "--save", str(target))
    _timeroof("run", *options, program.name, home=machine.parent)
    return target


def _study(machine: Path, scratch: Path) -> list[Path]:
    """A study as a run and as its store, with the machine that it is judged on."""
    # A study keeps its command line: names without folders say nothing of where it was recorded.
    (scratch / "study").mkdir()
    made = [f"study/{name}" for name in ("machine.toml", "study.sqlite", "study.troof")]
    shutil.copy(machine, scratch / made[0])
    words = ("study", *STUDY, "--db", made[1], "--save", made[2])
    _timeroof(*words, home=scratch, folder=scratch)
    _strip_store(scratch / made[1])
    return [Path(shutil.copy(scratch / name, OURS / name)) for name in made]


def _strip_store(path: Path) -> None:
    """The store keeps the machine as it was measured here."""
    with contextlib.closing(sqlite3.connect(path)) as store, store:
        store.create_function("without_build", 1, _without_build)
        store.execute("UPDATE machines SET document = without_build(document)")


if __name__ == "__main__":
    sys.exit(main())
