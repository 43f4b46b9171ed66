"""Ranks side by side on the page: a column each, the least, median and most, and who stands out."""

from __future__ import annotations

import re
from dataclasses import replace

from timeroof.api.reports import analyze
from timeroof.core.profile import Profile, RankTotals, Source
from timeroof.core.report import Report
from timeroof.views.page.page import html_page, rank_strip


def of_ranks(walls: list[float]) -> Report:
    ranks = [
        RankTotals(rank=i, wall_s=w, kernel_s=0.6, communication_s=0.1, idle_s=w - 0.6)
        for i, w in enumerate(walls)
    ]
    profile = Profile.of([{"name": "gemm", "time_s": 0.6 * len(walls)}], Source(tool="by hand"))
    return analyze(replace(profile, wall_s=1.0, kernel_s=0.6, ranks=ranks))


def test_one_rank_has_no_strip() -> None:
    assert rank_strip(of_ranks([1.0])) is None


def test_the_slowest_and_those_that_stand_out_are_named() -> None:
    strip = rank_strip(of_ranks([1.0, 1.001, 0.999, 1.0, 1.5, 1.0]))
    assert strip is not None
    wall = strip.lines[0]
    assert (wall.label, wall.slowest, wall.standing_out) == ("run time", 4, "4")
    assert [layer.key for layer in strip.layers] == ["compute", "communication", "idle"]


def test_every_rank_has_its_column_however_many_they_are() -> None:
    report = of_ranks([1.5 if rank == 700 else 1.0 for rank in range(1000)])
    drawn = re.findall(r'<path class="ink-(\w+)" d="M0,100(V[^"]*)Z"', html_page(report))
    assert [key for key, _ in drawn] == ["compute", "communication", "idle"]
    tops = [[float(y) for y in re.findall(r"V([\d.]+)H", path)][:1000] for _, path in drawn]
    assert [len(heights) for heights in tops] == [1000] * 3
    idle = tops[2]
    assert idle.pop(700) == 0.0
    assert set(idle) == {33.3}


def test_thousands_of_ranks_stay_a_small_part_of_the_page() -> None:
    many, few = of_ranks([1.0] * 2048), of_ranks([1.0] * 2)
    assert "2,048 ranks" in html_page(many)
    assert len(html_page(many)) - len(html_page(few)) < 300_000
