"""`import timeroof` stays light, and the rooms keep to themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import timeroof
from timeroof.cli import main as cli
from timeroof.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
HEAVY = "polars numpy matplotlib jinja2 torch jax tensorflow llvmlite rich typer msgspec"


@pytest.mark.parametrize(
    "statement", ["import timeroof", "from timeroof.cli.main import _add_commands; _add_commands()"]
)
def test_nothing_heavy_is_imported(statement: str) -> None:
    light = HEAVY.replace("typer ", "") if "cli" in statement else HEAVY
    code = f"{statement}; import sys; print(*[m for m in '{light}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_reading_imports_its_own_command_and_no_validation_library(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("name,time_s\nk,1\n")
    code = (
        "import sys; from timeroof.cli.main import main;"
        " main(['read', sys.argv[1], '--html', sys.argv[2]]); print(*sys.modules)"
    )
    words = [sys.executable, "-c", code, str(table), str(tmp_path / "page.html")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    commands = {f"timeroof.cli.{name}" for name in COMMANDS}
    assert modules & commands == {"timeroof.cli.read"}
    assert not modules & {"pydantic", "rich.progress", "matplotlib", "torch", "tarfile", "html"}


def test_defaults_of_run_need_no_validation_library(tmp_path: Path) -> None:
    code = (
        "import sys; from timeroof.cli.main import main;"
        " print(main(['run', sys.argv[1]]), 'pydantic' in sys.modules)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "absent.py")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "False"]


@pytest.mark.parametrize("words", [["--steps", "0"], ["--steps", "x"], ["--step-marker", "x"]])
def test_numbers_and_choices_that_are_given_are_checked(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", *words, "absent.py"]) == 2
    assert words[0] in capsys.readouterr().err


def test_commands_are_added_as_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["paper", "--help"], ["machines", "--help"], ["--help"], ["paper", "--help"]):
        assert cli.main(words) == 0
    out = capsys.readouterr().out
    listed = [c.name for c in cli.app.registered_commands]
    assert listed == list(COMMANDS)
    assert all(f" {name} " in out for name in COMMANDS)
    assert cli.main(["paperr"]) == 2
    assert "paper" in capsys.readouterr().err


def test_public_names_are_all_there() -> None:
    for name in timeroof.__all__:
        assert getattr(timeroof, name) is not None
    assert set(timeroof._HOMES) | {"__version__"} == set(timeroof.__all__)
    assert dir(timeroof) == sorted(timeroof.__all__)
    with pytest.raises(AttributeError, match="frobnicate"):
        _ = timeroof.frobnicate


def test_the_version_is_one() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["version"] == timeroof.__version__
    assert f"## {timeroof.__version__}" in (ROOT / "CHANGELOG.md").read_text()
