"""Runs without seconds: a program without steps, counters without times. Unknown is null, never 0,
and every view says so in words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest

from tests.cli.test_explain import document, rows, run, save_run
from tests.conftest import make_machine
from tests.live.live_programs import folder, report
from timeroof.api.reports import analyze, save
from timeroof.core.profile import Profile, Source

__all__ = ["folder"]
DOCS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
WHATIF = ("--machine", "h100-sxm")


@pytest.fixture(params=["without rows", "without times"])
def untimed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A run without a row, as of a program that only prints, or with rows that nobody timed."""
    empty = pl.DataFrame(schema={"name": pl.String, "time_s": pl.Float64})
    known = [{**row, "time_s": None} for row in rows()]
    table = empty if request.param == "without rows" else pl.DataFrame(known)
    profile = Profile.of(
        table.with_columns(pl.col("time_s").cast(pl.Float64)), Source(tool="t"),
        kernel_s=0.0 if request.param == "without rows" else None,
    )  # fmt: skip
    path = tmp_path / "untimed.troof"
    save(analyze(profile, make_machine()), path)
    return path


@pytest.fixture
def timed(tmp_path: Path) -> Path:
    return save_run(tmp_path / "timed.troof", rows())


def test_the_report_has_null(untimed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    totals = document(capsys, "read", untimed, "--json", "-")["totals"]
    unknown = ("wall_s", "kernel_s", "idle_s", "efficiency", "recoverable_s", "known_time_share")
    assert {name: totals[name] for name in unknown} == dict.fromkeys(unknown)
    assert totals["ladder"]["measured_s"] is None
    assert totals["launches"] in (None, 101)
    assert run("read", untimed) == 0
    assert re.search("Nothing was measured|No kernel was timed", capsys.readouterr().err)


def test_explain(untimed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", untimed) == 0
    shown = capsys.readouterr().err
    assert "How fast could it be" not in shown
    assert "No finding: nothing was timed in this run." in shown
    assert "0 s" not in shown


def test_pages_tables_and_pictures(
    untimed: Path, timed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for suffix in ("html", "md", "csv", "json", "parquet"):
        assert run("report", untimed, "-o", tmp_path / f"x.{suffix}") == 0
        assert run("report", timed, untimed, "-o", tmp_path / f"both.{suffix}") in (0, 2)
    text = (tmp_path / "x.md").read_text("utf-8")
    assert "Nothing was measured." in text or "No kernel was timed." in text
    assert "Ladder" not in text
    assert "0 s" not in text
    page = (tmp_path / "x.html").read_text("utf-8")
    assert "Nothing was measured." in page or "No kernel was timed." in page
    assert "Traceback" not in capsys.readouterr().err


def test_compare(
    untimed: Path, timed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = {
        (untimed, timed): "in the first run",
        (timed, untimed): "in the second run",
        (untimed, untimed): "in the first and in the second run",
    }
    for (a, b), words in pairs.items():
        page, text = tmp_path / "x.html", tmp_path / "x.md"
        files = ("--html", page, "--markdown", text, "--out", tmp_path / "all")
        got: Any = document(capsys, "compare", a, b, "--json", "-", *files)
        total = got["total"]
        assert (total["a_s"] is None) is (a == untimed)
        assert (total["b_s"] is None) is (b == untimed)
        assert (total["delta_s"], total["significant"]) == (None, False)
        assert set(got["causes"].values()) == {None}
        assert got["rows"] == []
        assert run("compare", a, b) == 0
        for told in (capsys.readouterr().err, page.read_text("utf-8"), text.read_text("utf-8")):
            in_one_line = " ".join(told.split())
            assert f"inconclusive, nothing was timed {words}" in in_one_line
            assert "more than the noise" not in told
        assert run("compare", a, b, "-o", tmp_path / "x.png") == 2
        refused = " ".join(capsys.readouterr().err.split())
        assert f"nothing was timed {words}, so there is nothing to draw" in refused


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (("--baseline", "{timed}"), "nothing was timed in the run"),
        (("--rule", "time<3s"), "rule 'time<3s' cannot be judged: the run has no known value"),
        (("--rule", "share<30%"), "cannot be judged"),
        (("--min-efficiency", "10%"), "cannot be judged"),
    ],
)
def test_a_gate_does_not_pass_what_nobody_timed(
    limit: tuple[str, ...], words: str, untimed: Path, timed: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    given = [word.format(timed=timed) for word in limit]
    assert run("check", untimed, *given, "--json", tmp_path / "x.json") == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "x.json").exists()


def test_a_gate_needs_a_baseline_with_seconds(
    untimed: Path, timed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", timed, "--baseline", untimed) == 2
    assert "nothing was timed in the baseline" in capsys.readouterr().err
    relative = "op=aten::mm:time<105%"
    assert run("check", timed, "--baseline", untimed, "--rule", relative) == 2


def test_launches_are_checked_where_there_are_rows(
    untimed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = document(capsys, "read", untimed, "--json", "-")["totals"]["launches"] is not None
    for limit in (("--max-launches", "500"), ("--rule", "launches<500")):
        assert run("check", untimed, *limit) == (0 if known else 2)
    assert known or "cannot be judged" in capsys.readouterr().err


def test_whatif(untimed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, text = tmp_path / "x.html", tmp_path / "x.md"
    got: Any = document(capsys, "whatif", untimed, *WHATIF, "--json", "-", "--html", page)
    assert got["measured_s"] is None
    there = got["machines"][0]
    assert (there["predicted_s"], there["low_s"], there["high_s"]) == (None, None, None)
    assert (there["bound_s"] is None) is (got["rows"] == [])
    assert all(row["machines"][0]["predicted_s"] is None for row in got["rows"])
    assert run("whatif", untimed, *WHATIF, "-o", text) == 0
    # What the page's scripts may write is no matter here.
    shown = re.sub(r"<script.*?</script>", "", page.read_text("utf-8"), flags=re.DOTALL)
    for told in (capsys.readouterr().err, shown, text.read_text("utf-8")):
        assert "Nothing was timed in this run, so no time is predicted." in told
        assert "0 s" not in told
    assert run("whatif", untimed, *WHATIF, "-o", tmp_path / "x.png") == 2
    assert "nothing to draw" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["print('hi')\n", "import torch\nprint('hi')\n"])
def test_a_program_that_only_prints(text: str, folder: Path) -> None:
    pytest.importorskip("torch")
    found = report(folder, text)
    schema = json.loads((DOCS / "timeroof.report-2.json").read_text("utf-8"))
    jsonschema.validate(
        {k: found[k] for k in schema["$defs"]["ReportDocument"]["required"]}, schema
    )
    totals = found["totals"]
    assert (totals["kernel_s"], totals["launches"]) == (None, None)
    assert totals["ladder"]["measured_s"] is None
    assert "0 s" not in found["stderr"]
