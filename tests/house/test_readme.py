"""The commands of README, examples/README, the tutorial and the how-to pages run as they stand."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.example_trace import DEVICE, packed
from timeroof.api.reports import load

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    "examples/README.md",
    "docs/tutorial.md",
    *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("howto-*.md")),
)
PROGRAMS = (".venv/bin/timeroof", "timeroof", "python", "make")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$|^((?: {4}\S[^\n]*\n)+)", re.DOTALL | re.MULTILINE)
# They take minutes: only in `make test-long`.
LONG = ("make run",)


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of every fenced or indented block."""
    found = BLOCK.findall((ROOT / page).read_text())
    return [(language, fenced or indented) for language, fenced, indented in found]


def commands(page: str) -> list[str]:
    """Every line of a shell's block, without its comment."""
    texts = [text for language, text in blocks(page) if language in ("", "sh", "console")]
    lines = [line.strip().removeprefix("$ ") for text in texts for line in text.splitlines()]
    plain = [line.partition(" #")[0].rstrip() for line in lines]
    return [line for line in plain if line.startswith(tuple(f"{p} " for p in PROGRAMS))]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder laid out as the repository's root, installed, and nothing made yet."""
    kept = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=kept)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy2(ROOT / name, tmp_path / name)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, started in (("timeroof", "-m timeroof "), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {started}"$@"\n')
        (programs / name).chmod(0o755)
    (tmp_path / ".venv" / ".installed").touch()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def run(root: Path, command: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["sh", "-c", command], cwd=root, capture_output=True, text=True, check=False,
        timeout=timeout_s,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_runs(root: Path, page: str) -> None:
    listed = commands(page)
    assert listed
    for command in listed:
        if command in LONG:
            continue
        run(root, command)
        for made in re.findall(r"--(?:html|save|out) (\S+)", command):
            assert (root / made).exists(), command


def test_what_is_left_out_is_on_a_page() -> None:
    assert set(LONG) <= {command for page in PAGES for command in commands(page)}


def test_every_line_of_a_shell_block_is_a_command_that_is_run() -> None:
    for page in PAGES:
        text = (ROOT / page).read_text()
        fenced = re.findall(r"^```\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        assert all(block.strip() for block in fenced)
        assert len(commands(page)) >= sum(len(block.splitlines()) for block in fenced), page
    assert len(commands("README.md")) >= 4


def test_make_knows_its_targets(root: Path) -> None:
    for target in LONG:
        if target.startswith("make "):
            assert run(root, target.replace("make ", "make -n ")).stdout.strip()


@pytest.mark.long
@pytest.mark.parametrize("command", LONG)
def test_a_long_command_of_a_page_runs(root: Path, command: str) -> None:
    assert run(root, command, timeout_s=3600).returncode == 0


def test_the_python_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = [text for language, text in blocks("README.md") if language == "python"]
    exec(compile(text, "README.md", "exec"), {})
    assert capsys.readouterr().out.split()[1] == "flop/bf16-tensor"


def test_the_example_trace_is_what_its_writer_writes() -> None:
    # The compressed bytes are zlib's, which differ between versions.
    written = gzip.decompress((ROOT / "examples" / "trace.json.gz").read_bytes())
    assert written == gzip.decompress(packed())


def test_the_example_trace_has_what_a_trace_is_read_for() -> None:
    report = load(ROOT / "examples" / "trace.json.gz")
    assert report.profile.device == DEVICE
    assert report.totals.known_time_share == pytest.approx(1.0)
    rows = report.profile.kernels
    assert set(rows["kind"]) == {"kernel", "copy"}
    assert set(rows["phase"]) >= {"forward", "backward", "optimizer"}
    assert {"data", "host-sync"} <= set(report.totals.idle_by_cause)
    assert {f.code for f in report.findings} >= {"TR105", "TR106", "TR203", "TR304"}
    assert report.verdicts.table["above_roof"].null_count() == rows.height
