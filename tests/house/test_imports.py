"""`import timeroof` stays light, and the rooms keep to themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import timeroof

ROOT = Path(__file__).resolve().parents[2]
HEAVY = "polars numpy matplotlib plotly jinja2 torch jax tensorflow llvmlite rich typer msgspec"


@pytest.mark.parametrize(
    "statement", ["import timeroof", "from timeroof.cli.main import _add_commands; _add_commands()"]
)
def test_nothing_heavy_is_imported(statement: str) -> None:
    light = HEAVY.replace("typer ", "") if "cli" in statement else HEAVY
    code = f"{statement}; import sys; print(*[m for m in '{light}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


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
