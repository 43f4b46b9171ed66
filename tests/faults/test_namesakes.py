"""Modules beside the script that bear the name of one that we import: each gets its own.

The names are taken from the sources: every module of Python's own and of others that timeroof
imports, and those that these import on the way to a page.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.test_hostile_folder import AS_SCRIPT
from tests.live.live_programs import MACHINE, MODEL

SOURCE = Path(__file__).resolve().parents[2] / "src"
BUILT_IN = set(sys.builtin_module_names) | {"__future__", "__main__"}
VALUE = "mine = __name__\n"
# Python itself has imported these before a program's first line.
ALREADY = subprocess.run(
    [sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
).stdout.split()  # fmt: skip


def imported_names() -> list[str]:
    """Top names of all modules that the sources import, ours among them."""
    found = {"timeroof"}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    # What these load in turn: a page needs more than is named in our sources.
    found |= {"markupsafe", "click", "shellingham", "pygments", "markdown_it", "mdurl", "ctypes",
              "typing_extensions", "queue", "random", "copy", "types", "secrets", "zipfile"}  # fmt: skip
    return sorted(found - BUILT_IN - set(ALREADY) - {"torch", "jax", "jaxlib"})


NAMES = imported_names()


def outcome(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": ""}, timeout=300,
    )  # fmt: skip


def placed(folder: Path, names: list[str], program: str) -> None:
    folder.mkdir()
    (folder / "toy.toml").write_text(MACHINE)
    (folder / "train.py").write_text(program)
    for name in names:
        if name == "timeroof":  # a package, as a checkout of something else would be
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text(VALUE)
        else:
            (folder / f"{name}.py").write_text(VALUE)


def check_compared(folder: Path, *, bounds: bool) -> None:
    alone = outcome(folder, "train.py")
    under = outcome(
        folder, *AS_SCRIPT, "run", "--machine", "toy.toml", "--html", "page.html", "--json",
        "report.json", "--save", "run.troof", "train.py",
    )  # fmt: skip
    assert (under.returncode, under.stdout) == (alone.returncode, alone.stdout), under.stderr
    assert under.stderr.startswith(alone.stderr)
    assert "no report" not in under.stderr, under.stderr
    assert "cannot be written" not in under.stderr
    assert "<html" in (folder / "page.html").read_text("utf-8")
    report = json.loads((folder / "report.json").read_text("utf-8"))
    if bounds and alone.returncode == 0:
        assert report["totals"]["bound_s"] > 0, under.stderr
        assert report["totals"]["known"]["flops"] == 1.0


def importing(names: list[str]) -> str:
    return "".join(f"import {name}\nprint({name}.mine)\n" for name in names)


def test_there_are_many_names() -> None:
    assert {"polars", "msgspec", "rich", "typer", "jinja2", "numpy", "timeroof", "csv"} <= set(
        NAMES
    )
    assert len(NAMES) > 40


def test_a_program_and_we_import_our_own_each(tmp_path: Path) -> None:
    placed(tmp_path / "app", NAMES, importing(NAMES))
    check_compared(tmp_path / "app", bounds=False)


# `import torch` itself imports many of them: under plain Python it fails, or takes the file.
STEPS = MODEL + "for _ in range(12): step()\nprint('trained')\n"


@pytest.mark.slow
def test_a_training_beside_all_names_that_torch_does_without(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    placed(tmp_path / "plain", [], STEPS + "import sys\nprint(*sys.modules)\n")
    done = outcome(tmp_path / "plain", "train.py")
    used = {name.partition(".")[0] for name in done.stdout.split()}
    free = [name for name in NAMES if name not in used]
    assert "polars" in free
    placed(tmp_path / "app", free, importing(free) + STEPS)
    check_compared(tmp_path / "app", bounds=True)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_training_beside_one_name(tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch")
    placed(tmp_path / "app", [name], importing([name]) + STEPS)
    check_compared(tmp_path / "app", bounds=True)
