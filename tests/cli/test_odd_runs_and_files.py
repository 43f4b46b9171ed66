"""explain, compare, check and whatif with what people really hand in: nothing, half, or nonsense."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.test_explain import HOSTILE, rows, run, save_run
from tests.conftest import make_machine
from timeroof.api.reports import analyze, save
from timeroof.core.errors import UsageError
from timeroof.core.profile import Profile, Source
from timeroof.model.check.limits import parse_rule

DOCS = Path(__file__).parents[2] / "docs"


def saved(path: Path, table: Any, machine: bool = True) -> Path:
    profile = Profile.of(table, Source(tool=HOSTILE))
    save(analyze(profile, make_machine() if machine else None), path)
    return path


@pytest.fixture
def odd(tmp_path: Path) -> dict[str, Path]:
    empty = pl.DataFrame(schema={"name": pl.String, "time_s": pl.Float64})
    unknown = [{"name": "a", "time_s": 1.0, "flop/fp32": None, "byte/dram": None}]
    return {
        "good": save_run(tmp_path / "good.troof", rows()),
        "empty": saved(tmp_path / "empty.troof", empty),
        "no machine": saved(tmp_path / "bare.troof", rows(), machine=False),
        "unknown": saved(tmp_path / "unknown.troof", unknown),
        "zero": saved(tmp_path / "zero.troof", [{"name": "z", "time_s": 0.0, "byte/dram": 0.0}]),
        "untimed": saved(
            tmp_path / "untimed.troof",
            pl.DataFrame(
                {"name": ["n"], "time_s": [None]}, schema_overrides={"time_s": pl.Float64}
            ),
        ),
        "hostile": saved(tmp_path / "hostile.troof", [{"name": HOSTILE * 50, "time_s": 1.0}]),
    }


KINDS = ["good", "empty", "no machine", "unknown", "zero", "untimed", "hostile"]


def scripts_in(page: Path) -> int:
    """The page has its own data and script; names of a hostile file add none."""
    return page.read_text().count("<script")


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_with_itself_is_never_a_change(
    odd: dict[str, Path], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = odd[kind]
    assert run("compare", path, path, "--json", "-", "--html", tmp_path / "x.html") == 0
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert document["total"]["significant"] is False
    assert not any(row["significant"] for row in document["rows"])
    assert "\x1b" not in shown.err
    assert scripts_in(tmp_path / "x.html") == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", ["good", "empty", "hostile"])
def test_any_two_runs_can_be_compared(
    odd: dict[str, Path], kind: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("compare", odd[kind], odd[other], "--json", "-") == 0
    document = json.loads(capsys.readouterr().out)
    delta_s = document["total"]["delta_s"]
    assert (delta_s is None) is bool({kind, other} & {"empty", "untimed"})
    if delta_s is None:
        assert set(document["causes"].values()) == {None}
    else:
        assert sum(document["causes"].values()) == pytest.approx(delta_s, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_explain_check_and_whatif_answer_or_refuse(
    odd: dict[str, Path], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = odd[kind]
    assert run("explain", path) == 0
    assert run("check", path, "--max-launches", "1000") == (2 if kind == "empty" else 0)
    there = ["--from", "v100-paper", "--machine", "h100-sxm"]
    assert run("whatif", path, *there, "--html", tmp_path / "w.html") == 0
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert "\x1b" not in shown
    assert scripts_in(tmp_path / "w.html") == 2


def test_checks_against_nothing_do_not_pass_by_accident(
    odd: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for nothing in ("empty", "untimed"):
        assert run("check", odd["good"], "--baseline", odd[nothing]) == 2
        assert run("check", odd[nothing], "--baseline", odd["good"]) == 2
        assert "slow-down cannot be judged: nothing was timed" in capsys.readouterr().err
    assert run("check", odd["good"], "--baseline", odd["zero"]) == 1
    assert run("check", odd["good"], "--baseline", odd["good"]) == 0
    assert run("check", odd["no machine"], "--min-efficiency", "1%") == 2
    assert "machine is not known" in capsys.readouterr().err


def test_most_unknown_is_said_aloud(
    odd: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("whatif", odd["unknown"], "--machine", "h100-sxm") == 0
    assert "100% of the time has unknown work" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "TEXT", "GOOD"],
        ["compare", "GOOD", "FOLDER"],
        ["compare", "GOOD", "GOOD", "-o", "x.doc"],
        ["compare", "GOOD", "GOOD", "--html", "x.png"],
        ["compare", "GOOD", "GOOD", "--out", "TEXT"],
        ["whatif", "GOOD", "-o", "x.troof"],
        ["whatif", "TEXT"],
        ["check", "TEXT", "--max-launches", "3"],
        ["check", "GOOD", "--baseline", "TEXT"],
        ["check", "GOOD", "--max-launches", "-1"],
        ["check", "GOOD", "--min-efficiency", "400%"],
        ["check", "GOOD", "--baseline", "GOOD", "--max-slowdown", "0%"],
        ["check", "GOOD", "--baseline", "GOOD", "--max-slowdown", "-5%"],
        ["whatif", "GOOD", "--scale", "batch=1e300"],
        ["check", "GOOD", "--rule", "phase=backward:time<…"],
        ["explain", "TEXT"],
        ["explain", "FOLDER"],
        ["read", "CIRCLE"],
        ["compare", "CIRCLE", "GOOD"],
        ["whatif", "GOOD", "--machine", "CIRCLE"],
    ],
)
def test_wrong_files_and_names_are_one_line_and_code_2(
    odd: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    text, folder = tmp_path / "notes.txt", tmp_path / "folder"
    text.write_text("dear diary", encoding="utf-8")
    folder.mkdir()
    circle = tmp_path / "circle.toml"
    circle.symlink_to(circle)
    before = sorted(p.name for p in tmp_path.iterdir())
    places = {"GOOD": odd["good"], "TEXT": text, "FOLDER": folder, "CIRCLE": circle}
    assert run(*(places.get(a, a) for a in arguments)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("timeroof: ")
    assert len(shown.err.splitlines()) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == before


# The example for GitHub Actions: it parses, and its commands are ones that we have.


def workflow() -> str:
    text = (DOCS / "check.md").read_text(encoding="utf-8")
    return re.findall(r"```yaml\n(.*?)```", text, flags=re.S)[0]


def test_the_workflow_in_the_docs_parses() -> None:
    yaml = pytest.importorskip("yaml")
    steps = yaml.safe_load(workflow())["jobs"]["timeroof"]["steps"]
    scripts = [step["run"] for step in steps if "run" in step]
    assert len([s for s in scripts if "timeroof run --save" in s]) == 2
    assert len([s for s in scripts if "timeroof check" in s]) == 1


def test_the_check_of_the_workflow_works(odd: dict[str, Path], tmp_path: Path) -> None:
    joined = workflow().replace("\\\n", " ")
    check = next(line.strip() for line in joined.splitlines() if "timeroof check" in line)
    arguments = _words(check, {"change.troof": odd["good"], "base.troof": odd["good"]}, tmp_path)
    assert run(*arguments) == 0
    assert (tmp_path / "check.md").read_text(encoding="utf-8").startswith("### timeroof check")


def _words(script: str, files: dict[str, Path], folder: Path) -> list[str]:
    import shlex

    words = shlex.split(script.replace("$RUNNER_TEMP", str(folder)))
    return [str(files.get(Path(w).name, w)) for w in words[1:]]


def test_a_rule_with_dots_is_refused_with_an_example() -> None:
    with pytest.raises(UsageError, match="time<12ms"):
        parse_rule("phase=backward:time<…")


def test_all_broken_limits_are_named(
    odd: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    limits = ("--rule", "launches<0.5", "--rule", "time<1ns", "--rule", "time<1000h")
    assert run("check", odd["good"], *limits) == 1
    shown = capsys.readouterr().err
    assert "2 of 3 limits failed: launches<0.5, time<1ns" in shown
    assert " 0.5 " in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-slowdown", "5", "--baseline", "{good}"], "write 5% or 0.05"),
        (["--max-slowdown", "", "--baseline", "{good}"], "no share"),
        (["--max-slowdown", "5%"], "slower than"),
        (["--rule", "flops<105%"], "rule 'flops<105%' is a share of a baseline's value"),
        (["--rule", "foo=bar:time<3s"], "kind"),
        (["--rule", "share<120%"], "never be broken"),
    ],
)
def test_limits_that_mean_something_else_are_refused(
    words: list[str], message: str, odd: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", odd["good"], *(w.format(good=odd["good"]) for w in words)) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
