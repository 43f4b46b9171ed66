"""explain, whatif, compare and check as a user calls them: outputs, exit codes, hostile names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import make_machine
from timeroof.api.reports import analyze, save
from timeroof.cli import main as cli
from timeroof.core.profile import Profile, Source

HOSTILE = "<script>|`[bold]\x1b[31m\u202e"


def run(*arguments: str | Path) -> int:
    from timeroof.cli.check import check
    from timeroof.cli.compare import compare
    from timeroof.cli.explain import explain
    from timeroof.cli.whatif import whatif

    cli._add_commands_once()
    known = {command.callback for command in cli.app.registered_commands}
    for command in (explain, whatif, compare, check):
        if command not in known:
            cli.app.command()(command)
    return cli.main([str(a) for a in arguments])


def rows(factor: float = 1.0) -> list[dict[str, Any]]:
    mm = {"name": HOSTILE, "op": "aten::mm", "dtype": "fp16", "time_s": 10.0 * factor}
    tiny = {"name": "add", "op": "aten::add", "time_s": 8.0, "launches": 100.0, "byte/dram": 1.0}
    return [
        {**mm, "flop/fp32": 800.0, "byte/dram": 10.0, "phase": "forward"},
        {**tiny, "flop/fp32": 1.0, "phase": "backward"},
    ]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_run(tmp_path / "run.troof", rows())


def save_run(path: Path, table: list[dict[str, Any]]) -> Path:
    save(analyze(Profile.of(table, Source(tool="t")), make_machine()), path)
    return path


def document(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> Any:
    capsys.readouterr()
    assert run(*arguments) == code
    return json.loads(capsys.readouterr().out)


def test_explain(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, "explain", saved, "--json", "-")
    assert got["schema"] == "timeroof.report/2"
    assert [f["code"] for f in got["findings"]][:2] == ["TR101", "TR301"]
    chosen = document(capsys, "explain", saved, "--code", "tr301", "--json", "-")
    assert [f["code"] for f in chosen["findings"]] == ["TR301"]
    assert run("explain", saved) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Together at most" in shown.err
    assert "\x1b" not in shown.err
    assert "TR101" in shown.err


def test_whatif(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = document(
        capsys, "whatif", saved, "--machine", "h100-sxm", "a100-sxm4-40gb", "--json", "-"
    )
    assert got["schema"] == "timeroof.whatif/1"
    assert [m["name"] for m in got["machines"]] == ["h100-sxm", "a100-sxm4-40gb"]
    same = document(capsys, "whatif", saved, "--json", "-")["machines"][0]
    assert same["predicted_s"] == same["low_s"] == same["high_s"] == 18.0
    assert run("whatif", saved, "--precision", "bf16") == 0
    shown = capsys.readouterr().err
    assert "not a measurement" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_whatif_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "anywhere.troof"
    save(analyze(Profile.of(rows(), Source(tool="t")), None), path)
    assert run("whatif", path, "--machine", "h100-sxm") == 2
    assert "--from" in capsys.readouterr().err
    got = document(
        capsys, "whatif", path, "--from", "v100-paper", "--machine", "v100-paper", "--json", "-"
    )
    assert got["machines"][0]["predicted_s"] == 18.0


def test_compare(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, "compare", saved, saved, "--json", "-")
    assert got["schema"] == "timeroof.compare/1"
    assert got["total"]["significant"] is False
    assert not any(r["significant"] for r in got["rows"])
    slower = save_run(tmp_path / "b.troof", rows(2.0))
    page = tmp_path / "c.md"
    assert run("compare", saved, slower, "--markdown", page) == 0
    shown = capsys.readouterr().err
    assert "1.56× slower" in shown
    assert "efficiency" in shown
    assert "<script>" not in page.read_text()


def test_check(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(20):
        assert run("check", saved, "--baseline", saved) == 0
    slower = save_run(tmp_path / "b.troof", rows(2.0))
    page = tmp_path / "c.md"
    got = document(
        capsys, "check", slower, "--baseline", saved, "--json", "-", "--markdown", page, code=1
    )
    assert got["schema"] == "timeroof.check/1"
    assert got["passed"] is False
    assert "FAIL" in page.read_text()
    assert "<script>" not in page.read_text()
    assert run("check", slower, "--baseline", saved, "--max-slowdown", "60%") == 0
    assert run("check", saved, "--max-launches", "10", "--min-efficiency", "1%") == 1
    shown = capsys.readouterr().err
    assert "FAIL" in shown
    assert "1 of 2 limits failed" in shown
    assert run("check", saved, "--rule", "phase=backward:time<9s") == 0
    assert run("check", saved, "--rule", "phase=backward:time<7s") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "absent.troof"],
        ["explain", "RUN", "--code", "TR000"],
        ["whatif", "RUN", "--machine", "abacus"],
        ["whatif", "RUN", "--scale", "batch"],
        ["whatif", "RUN", "--without", "gravity"],
        ["whatif", "RUN", "--precision", "fp13"],
        ["compare", "RUN"],
        ["compare", "RUN", "absent.troof"],
        ["check", "RUN"],
        ["check", "RUN", "--max-slowdown", "5%"],
        ["check", "RUN", "--baseline", "RUN", "--max-slowdown", "fast"],
        ["check", "RUN", "--rule", "time<105%"],
        ["check", "RUN", "--rule", "colour=red:time<1s"],
    ],
)
def test_bad_usage_is_one_line_and_code_2(
    saved: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(*(saved if a == "RUN" else a for a in arguments)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("timeroof: ")
    assert len(shown.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["explain", "whatif", "compare", "check"])
def test_every_command_has_help_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command, "--help") == 0
    assert "Example" in capsys.readouterr().out


def test_explain_unfolds_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.troof"
    save(analyze(Profile.of(rows(), Source(tool="t")), make_machine()), path)
    assert run("explain", path, "--row", "0", "--json", tmp_path / "why.json") == 0
    document = json.loads((tmp_path / "why.json").read_text())
    assert document["schema"] == "timeroof.why/1"
    text = capsys.readouterr().err
    assert "time_s + idle_before_s" in text or "= time_s" in text
    assert "\x1b[31m" not in text
    assert run("explain", path, "--row", "0") == 0
    assert "elapsed_s - bound_s" in capsys.readouterr().out
    for absent in (77, 10**20, -1):
        assert run("explain", path, "--row", str(absent)) == 2
        assert f"no row has the id {absent}" in capsys.readouterr().err
