"""Goldens as they are written: our own small runs, what is refused, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from golden_cases import OURS, all_cases
from golden_normal import kept_document, kept_page, lines
from goldens import main


def written(folder: Path, only: str) -> dict[str, dict[str, Any]]:
    none = folder / "no data"
    assert main(["write", str(folder), "--data", str(none), "--only", only, "--jobs", "1"]) == 0
    return {
        path.relative_to(folder).as_posix().removesuffix(".golden.json"): json.loads(
            path.read_text(encoding="utf-8")
        )
        for path in folder.rglob("*.golden.json")
    }


def test_a_live_run_is_kept_as_json_page_and_terminal_without_what_is_volatile(
    tmp_path: Path,
) -> None:
    golden = written(tmp_path, "read/ours/live/conv*")["read/ours/live/conv_padding.troof"]
    assert golden["exit"] == 0
    assert golden["json"]["created"] == "<created>"
    assert golden["json"]["version"] == "<version>"
    assert any(row["padding_flops"] for row in golden["json"]["kernels"])
    rows = golden["html"]["data"]["runs"][0]["columns"]["rows of columns"]
    assert {row["name"] for row in rows} == {row["name"] for row in golden["json"]["kernels"]}
    assert golden["stderr"]
    assert str(OURS) not in json.dumps(golden)


def test_what_is_refused_keeps_its_message_and_exit_code(tmp_path: Path) -> None:
    golden = written(tmp_path, "refused/no such file")["refused/no such file"]
    assert golden["exit"] == 2
    assert golden["stderr"][0].startswith("timeroof: none.json: cannot be read")
    assert "json" not in golden


def test_every_command_has_cases_and_no_name_is_used_twice() -> None:
    names = [case.name for case in all_cases(None)]
    assert len(names) == len(set(names))
    commands = {name.split("/")[0] for name in names}
    assert commands >= {"read", "explain", "compare", "whatif", "check", "report", "paper"}


def test_the_recorded_runs_are_small() -> None:
    runs = [*OURS.glob("live/*.troof"), *OURS.glob("study/*")]
    assert len(runs) >= 6
    assert all(path.stat().st_size < 60_000 for path in runs)


def test_dates_versions_and_folders_are_masked_in_text_and_versions_of_others_kept() -> None:
    text = "timeroof 0.1.0 wrote /tmp/x/made.json on 2025-01-02 10:11\n\n"
    assert lines(text, {"/tmp/x": "<made>"}) == [
        "timeroof <version> wrote <made>/made.json on <date>"
    ]
    document = {"version": "0.1.0", "source": {"version": "2.13", "command": None}}
    assert kept_document(document) == {
        "version": "<version>",
        "source": {"version": "2.13", "command": None},
    }


def test_a_page_keeps_its_words_and_its_columns_as_rows() -> None:
    data = {"columns": {"id": {"v": [0, 1]}, "op": {"d": ["mm"], "i": [0, -1]}, "n": {"c": None}}}
    page = (
        "<style>p{}</style><p>3 ms &amp; more</p>"
        f'<script type="application/json" id="data">{json.dumps(data)}</script>'
    )
    kept = kept_page(page, {})
    assert kept["words"] == ["3 ms & more"]
    assert kept["data"]["columns"]["rows of columns"] == [
        {"id": 0, "op": "mm", "n": None},
        {"id": 1, "op": None, "n": None},
    ]
