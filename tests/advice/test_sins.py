"""The sins run, and each computes what its fixed version computes."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

FOLDER = Path(__file__).parents[2] / "examples" / "sins"
SINS = sorted(p.stem for p in FOLDER.glob("*.py") if not p.stem.endswith("_fixed"))
LINE = re.compile(r"^step (\d+) (?:loss|mean) (\S+) time (\S+) s$")


def results(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[float]:
    """The losses, or means of outputs, of two small steps."""
    path = str(FOLDER / f"{script}.py")
    monkeypatch.setattr(sys, "argv", [path, "--steps", "2", "--small"])
    capsys.readouterr()
    runpy.run_path(path, run_name="__main__")
    shown = capsys.readouterr().out
    lines = [LINE.match(line) for line in shown.splitlines()]
    assert all(lines), shown
    return [float(line[2]) for line in lines if line]


@pytest.mark.parametrize("sin", SINS)
def test_a_sin_computes_what_its_cure_computes(
    sin: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, cured = (results(f"{sin}{s}", monkeypatch, capsys) for s in ("", "_fixed"))
    assert len(found) == 2
    assert found == pytest.approx(cured, rel=0.01, abs=0.02)


def test_the_readme_names_every_sin_and_its_finding() -> None:
    from timeroof.advice import rule_of

    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    for sin in SINS:
        code = re.search(rf"`{sin}\.py`.*?(TR\d\d\d)", text)
        assert code, sin
        assert rule_of(code[1]).code == code[1]
