"""`timeroof whatif` on files: a recorded trace to its own machine, --from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_explain import document, rows, save_run
from timeroof.api.reports import analyze, save
from timeroof.core.profile import Profile, Source

TRACE = "kineto/h100_bert_small_infer.json.gz"


def test_a_trace_to_its_own_machine(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = shared_data / TRACE
    got = document(capsys, "whatif", path, "--machine", "h100-sxm", "h100-sxm", "--json", "-")
    assert [m["name"] for m in got["machines"]] == ["h100-sxm"]
    for row in got["rows"]:
        there = row["machines"][0]
        assert there["predicted_s"] == there["low_s"] == there["high_s"] == row["time_s"]
        assert there["predicted_elapsed_s"] == row["elapsed_s"]
    assert any(row["elapsed_s"] > row["time_s"] for row in got["rows"])
    assert got["machines"][0]["by_limiter"] == pytest.approx(got["measured_by_limiter"])
    assert not any("above their roof" in note for note in got["notes"])
    once = document(capsys, "whatif", path, "--json", "-")
    assert once["machines"] == got["machines"]


def test_from_says_what_it_overrides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save_run(tmp_path / "run.troof", rows())
    chosen = ["--from", "v100-paper", "--machine", "h100-sxm", "--json", "-"]
    notes = document(capsys, "whatif", path, *chosen)["notes"]
    said = [note for note in notes if note.startswith("--from")]
    assert len(said) == 1
    assert "v100-paper overrides the machine that the run names, toy (Toy device)" in said[0]
    assert not any("--from" in n for n in document(capsys, "whatif", path, "--json", "-")["notes"])


def test_from_of_a_run_that_says_nothing_or_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "anywhere.troof"
    save(analyze(Profile.of(rows(), Source(tool="t")), None), path)
    table = tmp_path / "rows.csv"
    table.write_text("name,time_s,flops_fp32,bytes_dram\nmm,1.0,10,10\n")
    same = tmp_path / "same.troof"
    save(analyze(Profile.of(rows(), Source(tool="t")), "v100-paper"), same)
    for file in (path, table, same):
        got = document(capsys, "whatif", file, "--from", "v100-paper", "--json", "-")
        assert not any("--from" in note for note in got["notes"])


def test_from_over_the_device_of_a_trace(
    shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared_data / TRACE
    notes = document(capsys, "whatif", path, "--from", "a100-sxm4-80gb", "--json", "-")["notes"]
    assert any("the run names, h100-sxm" in note for note in notes)
    notes = document(capsys, "whatif", path, "--from", "h100-sxm", "--json", "-")["notes"]
    assert not any("--from" in note for note in notes)
