"""Runs cases in one process of the timeroof under test; `goldens.py write` starts it.

One case per line of stdin, one line of stdout when it is done. Many cases share a process,
because importing takes longer than most of them. Only `python -m timeroof` is relied on, so that
any commit can be asked, however its modules are arranged.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))

import golden_normal

STORE = "{store}"
SUFFIXES = ("json", "html", "csv", "md")


def main() -> None:
    """Answer until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in sys.stdin:
        case = json.loads(line)
        golden = run_case(case["words"], Path(case["folder"]))
        target = Path(case["target"])
        target.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(golden, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        target.write_text(text + "\n", encoding="utf-8")
        answers.write("done\n")
        answers.flush()


def run_case(words: list[str], folder: Path) -> dict[str, Any]:
    """Exit code, streams and written files of `timeroof WORDS` on files of a folder.

    It runs in a new folder of links to them, so that what it reads and writes has short names
    that are the same every time: a command line may be shown, even shortened.
    """
    made = Path(tempfile.mkdtemp())
    try:
        for entry in folder.iterdir():
            (made / entry.name).symlink_to(entry)
        os.chdir(made)
        targets = {suffix: Path(f"made.{suffix}") for suffix in SUFFIXES}
        named = {f"{{{suffix}}}": path.name for suffix, path in targets.items()}
        if STORE in words:
            # Opening a store writes to it.
            named[STORE] = str(shutil.copy(folder / "study" / "study.sqlite", "made.sqlite"))
        with _caught_streams(made):
            code = _exit_code([named.get(word, word) for word in words])
        folders = {str(made): "<made>", str(folder): "<folder>"}
        golden: dict[str, Any] = {"words": words, "exit": code}
        for stream in ("stdout", "stderr"):
            text = (made / stream).read_text(encoding="utf-8", errors="replace")
            golden[stream] = golden_normal.lines(text, folders)
        for suffix, path in targets.items():
            if path.exists():
                golden[suffix] = golden_normal.kept_file(path, folders)
        return golden
    finally:
        os.chdir(folder)
        shutil.rmtree(made)


def _exit_code(words: list[str]) -> int | str:
    sys.argv = ["timeroof", *words]
    try:
        runpy.run_module("timeroof", run_name="__main__", alter_sys=False)
    except SystemExit as error:
        return error.code if error.code is not None else 0
    except BaseException:  # what no command should let out is a result too
        traceback.print_exc()
        return "raised"
    return 0


@contextlib.contextmanager
def _caught_streams(folder: Path) -> Iterator[None]:
    """Both streams in files, C's included; the command may even have closed its own."""
    kept = {fd: os.dup(fd) for fd in (1, 2)}
    try:
        for fd, name in ((1, "stdout"), (2, "stderr")):
            target = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(target, fd)
            os.close(target)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for fd, copy in kept.items():
            os.dup2(copy, fd)
            os.close(copy)


if __name__ == "__main__":
    main()
