"""A folder of downloaded traces may hold a polars.py: nothing of ours imports it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.study.test_command import measured

__all__ = ["measured"]

# Libraries that we and our children import, and modules of Python's own.
PLANTED = (
    "polars", "numpy", "msgspec", "typer", "rich", "jinja2", "markupsafe", "platformdirs",
    "zstandard", "llvmlite", "torch", "loky", "cloudpickle", "multiprocessing", "pickle", "typing_extensions", "pydantic", "json", "typing",
    "dataclasses", "subprocess", "tempfile", "statistics", "csv", "sqlite3", "hashlib", "__future__",
)  # fmt: skip
AS_SCRIPT = ["-c", "import sys; sys.path[0] = sys.prefix; from timeroof.__main__ import run; run()"]
AS_MODULE = ["-m", "timeroof"]
# Ranks of any size are read in processes of their own.
IN_PROCESSES = (
    "import sys; sys.path[0] = sys.prefix;"
    " from timeroof.core import leave_folder; leave_folder();"
    " from timeroof.read import fleet; fleet.WORTH_BYTES = 0; fleet.workers_for = lambda *_: 2;"
    " from timeroof.cli.main import main; sys.exit(main())"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a trap under the name of every module."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    trap = f"open({str(tmp_path / 'sprung')!r}, 'a').write(__name__ + ' ')\nraise SystemExit(99)\n"
    for name in PLANTED:
        (folder / f"{name}.py").write_text(trap)
    for rank in range(3):
        (folder / f"rank{rank}.csv").write_text(f"name,time_s\ngemm,{rank + 1}\n")
    return folder


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=kept | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    sprung = folder.parent / "sprung"
    assert not sprung.exists(), sprung.read_text()
    return done


@pytest.mark.parametrize(
    ("start", "path"),
    [
        (AS_MODULE, ""),
        (AS_MODULE, "."),
        (AS_MODULE, "folder"),
        (AS_SCRIPT, ":"),
        (["-c", IN_PROCESSES], ""),
        (["-c", IN_PROCESSES], ":"),
        (["-c", IN_PROCESSES], "./"),
        (["-c", IN_PROCESSES], "folder"),
    ],
)
def test_reading_imports_nothing_from_the_folder(folder: Path, start: list[str], path: str) -> None:
    given = str(folder) if path == "folder" else path
    done = run(
        folder, *start, "read", "rank0.csv", "rank1.csv", "rank2.csv", "--html", "page.html",
        PYTHONPATH=given,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "3 files are taken as ranks" in (folder / "page.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_measuring_imports_nothing_from_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIMEROOF_HOME", str(folder.parent / "home"))
    done = run(folder, *AS_MODULE, "machine", "--quick", PYTHONPATH=".")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_run_and_the_measurement_after_it_import_nothing_from_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("TIMEROOF_HOME", str(folder.parent / "home"))
    program = folder.parent / "program"
    program.mkdir()
    (program / "beside.py").write_text("size = 8\n")
    (program / "train.py").write_text(
        "import torch, beside, timeroof\nx = torch.ones(beside.size, beside.size)\n"
        "for _ in range(12):\n    x @ x\n    timeroof.step()\n"
    )
    done = run(folder, *AS_MODULE, "run", str(program / "train.py"))
    assert done.returncode == 0, done.stderr
    assert "could not be measured" not in done.stderr
    assert "no report" not in done.stderr
    assert list((folder.parent / "home" / "measured").iterdir())


@pytest.mark.usefixtures("measured")
def test_a_study_imports_nothing_from_the_folder(folder: Path) -> None:
    pytest.importorskip("torch")
    words = ("study", "elementwise", "--set", "elements=16,64", "--pass", "forward", "--quick")
    done = run(folder, *AS_MODULE, *words, PYTHONPATH=".")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("start", "words", "path"),
    [
        (AS_MODULE, ["app/show.py"], "."),
        (AS_MODULE, ["-m", "app.show"], "app:"),
        (AS_SCRIPT, ["app/show.py"], ""),
    ],
)
def test_a_program_under_run_has_the_path_that_python_gives_it(
    tmp_path: Path, start: list[str], words: list[str], path: str
) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "show.py").write_text("import sys\nprint(sys.path)\n")
    plain = run(tmp_path, *words, PYTHONPATH=path)
    ours = run(tmp_path, *start, "run", "--machine", "h100-sxm", *words, PYTHONPATH=path)
    assert ours.stdout == plain.stdout != "", ours.stderr
