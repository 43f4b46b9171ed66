"""Pages of cases (study, paper): the charts that the report's own modules draw, in the open window."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import Opened, OpenPage
from tests.study.factor_samples import batch_sweep, launch_truths
from tests.study.test_output import paper_like, study_of
from timeroof.paper.build import TITLE, build_paper
from timeroof.study.factors.published import paper_report
from timeroof.study.output.page import write_study
from timeroof.study.output.paper_page import paper_page


@pytest.fixture(scope="module")
def study(open_page: OpenPage, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    truths = [*paper_like(), *batch_sweep("lstm"), *launch_truths()]
    folder = tmp_path_factory.mktemp("study")
    return open_page(write_study(study_of(truths), folder, overlay=build_paper()))


@pytest.fixture(scope="module")
def paper(open_page: OpenPage, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    path: Path = tmp_path_factory.mktemp("paper") / "index.html"
    path.write_text(paper_page(paper_report(), TITLE), encoding="utf-8")
    return open_page(path)


def first_chart(opened: Opened) -> str:
    """What the first chart draws, as a script's expression."""
    assert opened.js("timeroofCharts.charts.length") > 0
    return "timeroofCharts.charts[0]"


def test_every_chart_of_a_study_is_drawn(study: Opened) -> None:
    for name, count in (("[data-chart]", 1), ("[data-chart] svg.plot .disc", 3)):
        assert study.page.locator(name).count() >= count
    drawn = study.page.locator("[data-chart]:has(svg.plot)").count()
    assert drawn == study.page.locator("[data-chart]").count()
    study.check()


def test_the_large_chart_goes_case_by_case(study: Opened) -> None:
    chart = first_chart(study)
    box = study.page.locator("[data-chart]").first
    every = study.js(f"{chart}.scene.points.length")
    assert every >= 3
    box.locator(".embedded").focus()
    study.page.keyboard.press("ArrowRight")
    study.settle()
    assert study.js(f"{chart}.scene.points.filter((p) => !p.alone).length") == 1
    assert "batch 16: 16.1 ms" in box.inner_text()
    study.page.keyboard.press("Escape")
    study.settle()
    assert study.js(f"{chart}.scene.points.length") == every
    study.check()


def test_work_and_time_are_charts_of_their_own(study: Opened) -> None:
    chart = first_chart(study)
    box = study.page.locator("[data-chart]").first
    for name, kind in (("Work", "complexity"), ("Time", "time"), ("Overview", "combined")):
        box.locator(".plane", has_text=name).click()
        study.settle()
        assert study.js(f"{chart}.scene.kind") == kind
        assert study.js(f"{chart}.scene.points.every((p) => p.marks.at(-1).every(Number.isFinite))")
    box.locator(".choice", has_text="rows").click()
    study.settle()
    assert study.js(f"{chart}.scene.points.length") == 120
    assert study.js(f"{chart}.scene.outside.length") == 0
    box.locator(".choice", has_text="batch").first.click()
    study.settle()
    study.check()


def test_hovering_a_case_says_what_it_is(study: Opened) -> None:
    disc = study.page.locator("[data-chart] svg.plot .disc").first
    disc.scroll_into_view_if_needed()
    place = disc.bounding_box()
    assert place is not None
    study.page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    study.settle()
    text = study.page.inner_text("#tooltip")
    assert "limiter" in text
    assert "its bound" in text
    study.page.mouse.move(5, 5)
    study.check()


def test_a_parameter_is_chosen_by_its_name(paper: Opened) -> None:
    box = paper.page.locator("[data-chart]").first
    paper.page.locator(".choice", has_text="kernel").first.click()
    paper.settle()
    assert paper.js("timeroofCharts.charts[0].frame.label") == "kernel"
    texts = box.locator("svg.plot text").all_text_contents()
    assert {"kernel 3x3", "kernel 7x7", "kernel 9x9"} <= set(texts)
    paper.check()


def test_each_factor_of_the_paper_has_its_chart_beside_its_sentence(paper: Opened) -> None:
    for part in paper.page.locator(".factor-row").all():
        sentence, drawn = part.locator("h3.bold").bounding_box(), part.locator("svg.plot").first
        chart = drawn.bounding_box()
        assert sentence is not None
        assert chart is not None
        assert sentence["x"] >= chart["x"] + chart["width"] - 1
        assert part.locator("table.plain tbody tr").count() >= 3
    paper.check()


def test_a_chart_follows_the_theme_and_the_phone(
    paper: Opened, open_page: OpenPage, tmp_path: Path
) -> None:
    path = tmp_path / "index.html"
    path.write_text(paper_page(paper_report(), TITLE), encoding="utf-8")
    phone = open_page(path, width=390, height=844, dark=True)
    assert phone.js("document.documentElement.scrollWidth") <= 390
    ring = phone.js("getComputedStyle(document.querySelector('svg.plot .ring')).fill")
    assert ring != paper.js("getComputedStyle(document.querySelector('svg.plot .ring')).fill")
    phone.check()
