"""What the page works out itself, against the model: bounds of selections, chosen roofs."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.browser.conftest import OpenPage
from tests.oracles.group import group
from tests.views.live_sample import live_report
from tests.views.samples import step_report
from timeroof.core.report import Report
from timeroof.views.page import html_page
from timeroof.views.pictures import Roofs
from timeroof.views.pictures.of_report import report_units

SELECTIONS = 100
SAMPLES: dict[str, Callable[[], Report]] = {
    "asynchronous": step_report,
    "synchronous": lambda: live_report(**{"fault": 3.0}),
}


def selections(rows: int, seed: str) -> list[list[int]]:
    """Random rows, from one to all of them."""
    chance = random.Random(seed)
    counts = [1, rows, *(chance.randint(1, rows) for _ in range(SELECTIONS - 2))]
    return [sorted(chance.sample(range(rows), count)) for count in counts]


def expected_bound_s(report: Report, picked: list[int]) -> float | None:
    """The bound of the summed amounts of some rows, by the model."""
    mark = pl.Series("label.picked", ["no"] * len(report.profile)).scatter(picked, "yes")
    profile = report.profile.with_kernels(report.profile.kernels.with_columns(mark))
    groups = group(profile, report.verdicts, ["picked"]).filter(pl.col("label.picked") == "yes")
    found: float | None = groups["summed_bound_s"].item()
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_the_bound_of_any_selection_is_the_model_s(
    open_page: OpenPage, tmp_path: Path, name: str
) -> None:
    report = SAMPLES[name]()
    assert report.verdicts.asynchronous == (name == "asynchronous")
    (tmp_path / "page.html").write_text(html_page(report), encoding="utf-8")
    opened = open_page(tmp_path / "page.html")
    picks = selections(len(report.profile), name)
    found = opened.page.evaluate("(picks) => picks.map(timeroofPage.boundOfSums)", picks)
    assert found == pytest.approx([expected_bound_s(report, p) for p in picks], rel=1e-5)
    opened.check()


def test_a_chosen_roof_places_rows_as_the_model_does(
    open_page: OpenPage, page_file: Callable[[str], Path]
) -> None:
    report = step_report()
    opened = open_page(page_file("step"))
    rates = {r: c.rate for r, c in report.verdicts.roofs.items()}
    for level, roof in (("byte/l2", "flop/fp32"), ("byte/dram", "flop/bf16-tensor")):
        if level not in rates:
            continue
        roofs = Roofs(roof, rates[roof], level, rates[level], level=level.removeprefix("byte/"))
        places = opened.page.evaluate(
            "([level, roof]) => timeroofPage.placesOn(level, roof)", [level, roof]
        )
        units = report_units(report)
        assert len(places) == len(units)
        for place, expected in zip(places, roofs.time_points_s(units), strict=True):
            if place is None:
                assert not all(v >= 0 for v in expected)
            else:
                assert (place["bandwidth"], place["compute"]) == pytest.approx(expected, rel=1e-4)
    opened.check()
