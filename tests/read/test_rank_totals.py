"""Several ranks: totals are a mean rank's, and each rank's own seconds stand beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.recorded_data import DATA
from timeroof.api.reports import load, save
from timeroof.core.profile import Profile, RankTotals, Source
from timeroof.read.ranks import merged_ranks


def rank(number: int, wall_s: float) -> Profile:
    rows = [
        {"name": "mm", "time_s": 0.5 * wall_s, "exclusive_s": 0.5 * wall_s, "rank": number},
        {"name": "nccl", "kind": "collective", "time_s": 0.4 * wall_s,
         "exclusive_s": 0.1 * wall_s, "rank": number},
    ]  # fmt: skip
    return Profile.of(rows, Source(tool="t"), wall_s=wall_s, kernel_s=0.6 * wall_s)


def test_each_rank_has_its_seconds_and_the_mean_lies_between() -> None:
    merged = merged_ranks([rank(0, 10.0), rank(1, 14.0)], ["a", "b"])
    assert merged.wall_s == 12.0
    assert merged.ranks[1] == RankTotals(
        rank=1, wall_s=14.0, kernel_s=pytest.approx(8.4), communication_s=pytest.approx(1.4),
        idle_s=pytest.approx(5.6),
    )  # fmt: skip


def test_one_rank_has_no_list_of_ranks() -> None:
    assert merged_ranks([rank(0, 10.0)], ["a"]).ranks == ()


def test_eight_recorded_ranks_are_told_apart(tmp_path: Path) -> None:
    folder = DATA / "kineto" / "v100_dlrm_8rank"
    if not folder.exists():
        pytest.skip(f"the recorded data is not here ({folder})")
    report = load(folder)
    document = json.loads(report.to_json())
    assert len(document["ranks"]) == 8
    walls = [one["wall_s"] for one in document["ranks"]]
    totals = document["totals"]
    assert totals["wall_s_min"] == min(walls)
    assert totals["wall_s_max"] == max(walls)
    assert totals["wall_s"] == pytest.approx(sum(walls) / 8)
    communication = [one["communication_s"] for one in document["ranks"]]
    assert sum(communication) / 8 == pytest.approx(totals["by_class"]["communication"], rel=1e-3)
    save(report, tmp_path / "run.troof")
    again = json.loads(load(tmp_path / "run.troof").to_json())
    assert again["ranks"] == document["ranks"]
