"""Processes of our own: one way to start them, and a path without the working folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from timeroof.core import leave_folder, package_root
from timeroof.core.children import Child, safe_environment

SOURCE = Path(__file__).resolve().parents[2] / "src" / "timeroof"
# The only files that name the interpreter: ours, and the one that starts programs of the user's.
STARTERS = {"core/children.py", "live/running.py"}


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """`sys.path`, put back afterwards."""
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return sys.path


def test_every_python_process_is_started_in_one_place() -> None:
    naming = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if "sys.executable" in (text := file.read_text("utf-8")) or "import multiprocessing" in text
    }
    assert naming == STARTERS


@pytest.mark.parametrize("entry", ["", ".", "./", "here", "link"])
def test_a_child_has_no_entry_for_the_working_folder(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    given = {"here": str(tmp_path / "work"), "link": str(tmp_path / "link")}.get(entry, entry)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([given, "/opt/mine", "lib", ""]))
    entries = safe_environment()["PYTHONPATH"].split(os.pathsep)
    assert entries == ["/opt/mine", str(tmp_path / "work" / "lib"), package_root()]


def test_a_child_runs_this_package_whatever_else_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit('json of the working folder')")
    (tmp_path / "timeroof").mkdir()
    (tmp_path / "timeroof" / "__init__.py").write_text("raise SystemExit('another timeroof')")
    monkeypatch.setenv("PYTHONPATH", "")
    done = Child("timeroof", ("--version",)).run()
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"timeroof ")


def test_where_the_package_lies_in_the_working_folder_it_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(package_root())
    monkeypatch.setenv("PYTHONPATH", ".")
    assert safe_environment()["PYTHONPATH"] == package_root()


def test_our_own_path_leaves_the_folder(
    path: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path[:] = [str(tmp_path), "", "/opt/mine", str(tmp_path)]
    leave_folder()
    assert path == ["/opt/mine"]


def test_a_working_folder_that_is_gone_is_left_too(
    path: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    path[:] = ["", "/opt/mine"]
    leave_folder()
    assert path == ["/opt/mine"]
    monkeypatch.chdir(tmp_path)
