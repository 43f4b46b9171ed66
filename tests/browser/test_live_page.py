"""The page of a live run: unprofiled seconds, the level that has bytes, words for an empty chart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tests.browser.conftest import Opened
from tests.views.live_sample import live_report
from timeroof.core.report import Finding
from timeroof.views.page import html_page


@pytest.fixture(scope="module")
def live_page(open_page: Callable[..., Opened], tmp_path_factory: pytest.TempPathFactory) -> Opened:
    path: Path = tmp_path_factory.mktemp("live") / "live.html"
    path.write_text(html_page(live_report(**{"flop/int8": 4e9})), encoding="utf-8")
    return open_page(path)


@pytest.fixture
def live(live_page: Opened) -> Iterator[Opened]:
    live_page.reset()
    live_page.page.click("#tab-combined")
    live_page.page.select_option("#level", "byte/l2")
    live_page.settle()
    yield live_page
    live_page.check()


def test_rows_sum_to_the_kernels_of_the_step(live: Opened) -> None:
    assert live.time() == pytest.approx(10.0)
    assert "All 4 rows: 10.0 s" in live.page.inner_text("#selection")
    words = live.page.inner_text('[data-key="seconds"]')
    assert "seconds of an unprofiled step (12.0 s)" in words


def test_charts_begin_at_the_level_with_bytes(
    open_page: Callable[..., Opened], tmp_path: Path
) -> None:
    path = tmp_path / "fresh.html"
    path.write_text(html_page(live_report()), encoding="utf-8")
    fresh = open_page(path)
    assert fresh.page.input_value("#level") == "byte/l2"
    assert fresh.js("timeroofPage.figure().points.length") == 3
    fresh.check()


@pytest.mark.parametrize("kind", ["combined", "complexity", "time", "roofline"])
def test_an_empty_chart_says_why_and_offers_another_level(live: Opened, kind: str) -> None:
    live.page.click(f"#tab-{kind}")
    live.page.select_option("#level", "byte/dram")
    live.settle()
    said = live.page.inner_text("#chart")
    assert "None of these 4 rows moves a byte at DRAM" in said
    assert "Choose another memory level" in said
    live.page.click('#chart [data-level="byte/l2"]')
    live.settle()
    assert live.page.input_value("#level") == "byte/l2"
    assert live.js("timeroofPage.figure().points.length") >= 2
    assert live.page.locator("#chart .empty").count() == 0


def test_one_row_without_flops_has_words_on_the_roofline(live: Opened) -> None:
    live.page.fill("#search", "reorder")
    live.settle()
    live.page.click("#tab-roofline")
    live.settle()
    assert "This row has no FLOPs, and a roofline draws" in live.page.inner_text("#chart")


def test_nothing_selected_is_said(live: Opened) -> None:
    live.page.fill("#search", "no such row")
    live.settle()
    assert "No row is selected" in live.page.inner_text("#chart-words")


def test_rows_that_do_nothing_are_told_from_unknown_ones(live: Opened) -> None:
    words = live.page.inner_text("#strip")
    assert "neither FLOPs nor bytes here" in words
    assert "1 row, 0.83 %" in words
    assert "no FLOP or byte count" not in words


def test_integer_operations_have_their_own_unit(live: Opened) -> None:
    texts = live.page.locator("#roof option").all_text_contents()
    assert "int8: 400 OP/s" in texts
    assert "fp32: 100 FLOP/s" in texts
    live.page.click("#columns summary")
    live.page.check("#column-flops")
    live.page.keyboard.press("Escape")
    live.settle()
    cells = live.page.locator("#grid tr.item").all_inner_texts()
    assert "4.00 GOP" in cells[0]
    assert "10.0 FLOP" in cells[1]


def test_two_runs_fit_a_phone(open_page: Callable[..., Opened], tmp_path: Path) -> None:
    path = tmp_path / "two.html"
    runs = [live_report(), live_report(3.0)]
    path.write_text(html_page(runs[0], runs=runs), encoding="utf-8")
    opened = open_page(path, width=390)
    heights = opened.js("[...document.querySelectorAll('.runs tr')].map((r) => r.offsetHeight)")
    assert len(heights) == 3
    # One line each: no word is broken into letters.
    assert max(heights) < 45
    assert opened.js("document.documentElement.scrollWidth") <= 390
    opened.check()


def test_names_of_memory_roofs_are_inside_the_chart(live: Opened) -> None:
    live.page.click("#tab-roofline")
    live.settle()
    boxes = live.js(
        "[...document.querySelectorAll('#chart .note, #chart .listed')].filter((a) => /B\\/s/.test(a.textContent))"
        ".map((a) => { const { left, right, top, bottom } = a.getBoundingClientRect(); return [left, right, top, bottom]; })"
    )
    chart = live.js("(() => { const b = document.getElementById('chart').getBoundingClientRect(); return [b.left, b.right]; })()")  # fmt: skip
    assert boxes
    assert all(chart[0] <= left and right <= chart[1] for left, right, _, _ in boxes)


def test_long_names_of_findings_stay_in_their_card(
    open_page: Callable[..., Opened], tmp_path: Path
) -> None:
    report = live_report()
    row = report.profile.kernels["id"][0]
    finding = Finding(code="TR1", title="t", why="w", kernels=[row])
    kernels = report.profile.kernels.with_columns(short_name=pl.lit("onednn::convolution " * 6))
    long = replace(report, profile=replace(report.profile, kernels=kernels), findings=(finding,))
    path = tmp_path / "finding.html"
    path.write_text(html_page(long), encoding="utf-8")
    opened = open_page(path, width=390)
    card, link = (
        opened.js(f"document.querySelector('{found}').getBoundingClientRect().right")
        for found in (".finding", ".finding .kernel-link")
    )
    assert link < card
    opened.check()
