"""What is in sight: rows fill the table's box, groups have names, hovers say what people read."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tests.browser.conftest import Opened, OpenPage
from tests.browser.test_charts import hover
from tests.views.samples import large_report, step_report
from timeroof.api.reports import analyze
from timeroof.core.profile import Profile
from timeroof.core.report import Report
from timeroof.views.page import html_page

PageFile = Callable[[str], Path]

# Rows of the box's height that are in the document, and how many of them it shows.
FILLED = """() => {
  const box = document.getElementById('grid-box');
  const [top, height] = [box.getBoundingClientRect().top + box.clientTop, box.clientHeight];
  const head = document.querySelector('#grid thead').getBoundingClientRect().height;
  const rows = [...document.querySelectorAll('#grid tr.item')].map((r) => r.getBoundingClientRect());
  const seen = rows.filter((r) => r.bottom > top + head && r.top < top + height);
  return { shown: rows.length, room: height / 32, top: seen[0].top - top - head, bottom: seen.at(-1).bottom - top - height, scroll: box.scrollTop };
}"""
PATH = "DistributedDataParallel_0/LanguageModel_0/DecoderLayer_{0}/Attention_{0}/Linear_{0}"
PRETTY = "[\n          [\n            8944,\n\t    {}\n          ]\n        ]"


def check_filled(opened: Opened) -> None:
    """Nothing of the box is empty, without anybody having scrolled or resized the window."""
    found = opened.js(FILLED)
    assert found["shown"] >= found["room"]
    assert found["top"] <= 0
    assert found["bottom"] >= 0


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (390, True)])
@pytest.mark.slow
def test_rows_fill_the_box_from_the_start_and_after_every_change(
    open_page: OpenPage, page_file: PageFile, width: int, dark: bool
) -> None:
    opened = open_page(page_file("large"), width=width, dark=dark)
    check_filled(opened)
    opened.page.click('[data-sort="gap_s"]')
    check_filled(opened)
    opened.js("document.getElementById('grid-box').scrollTop = 9000")
    opened.settle()
    check_filled(opened)
    opened.page.click('[data-sort="time_s"]')
    check_filled(opened)
    assert opened.js(FILLED)["scroll"] == 0
    opened.js("document.getElementById('grid-box').scrollTop = 9000")
    opened.page.fill("#search", "layer")
    opened.settle()
    check_filled(opened)
    for grouping in ("name", "module", "none"):
        opened.page.select_option("#group", grouping)
        check_filled(opened)
    opened.check()


def test_other_columns_leave_the_rows_where_they_are(
    open_page: OpenPage, page_file: PageFile
) -> None:
    opened = open_page(page_file("large"))
    opened.js("document.getElementById('grid-box').scrollTop = 9000")
    opened.settle()
    opened.page.click("#columns summary")
    opened.page.check("#column-flop_per_s")
    check_filled(opened)
    assert opened.js(FILLED)["scroll"] == 9000
    opened.check()


def test_a_box_that_grows_is_filled(open_page: OpenPage, page_file: PageFile) -> None:
    opened = open_page(page_file("large"))
    opened.js("document.getElementById('grid-box').style.maxHeight = '3000px'")
    opened.settle()
    opened.settle()
    check_filled(opened)
    opened.check()


def test_groups_of_kernels_have_their_names(step: Opened) -> None:
    names = set(step_report().profile.kernels["short_name"])
    step.page.select_option("#group", "name")
    step.settle()
    shown = step.page.locator("#grid tr.group td.first").all_inner_texts()
    assert len(shown) == len(set(shown)) == len(names)
    assert set(shown) == names
    assert step.page.locator("#grid thead th.first").inner_text() == "kernel"
    step.page.select_option("#group", "none")
    step.settle()


def report_of(change: Callable[[pl.DataFrame], pl.DataFrame], report: Report) -> Report:
    profile = report.profile
    changed = analyze(replace(profile, kernels=change(profile.kernels)), "h100-sxm")
    return replace(changed, findings=())


@pytest.fixture(scope="module")
def traced_page(open_page: OpenPage, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """A page of rows as a tracer's file gives them: long paths, calls as pretty-printed JSON."""

    def traced(rows: pl.DataFrame) -> pl.DataFrame:
        place = pl.int_range(pl.len()) % 23
        call = pl.format(PRETTY, place.cast(pl.String))
        raw = [
            call.alias(f"label.{name}")
            for name in ("input_dims", "input_types", "input_strides", "concrete_inputs")
        ]
        return rows.with_columns(
            pl.concat_str(pl.lit("kernel\n\twith\r\na line end "), place.cast(pl.String)).alias(
                "name"
            ),
            pl.format(PATH.replace("{0}", "{}"), *[place.cast(pl.String)] * 3).alias("module"),
            *raw,
            pl.lit("aten::linear").alias("label.outer_op"),
        )

    path = tmp_path_factory.mktemp("traced") / "traced.html"
    path.write_text(html_page(report_of(traced, large_report(300))), encoding="utf-8")
    return open_page(path)


def test_a_hover_has_no_signs_of_unknown_characters_and_no_raw_calls(traced_page: Opened) -> None:
    traced_page.page.select_option("#points", "rows")
    traced_page.settle()
    hover(traced_page)
    told = traced_page.page.inner_text("#tooltip")
    assert "outer_op" in told
    assert "kernel with a line end" in told
    for raw in ("\ufffd", "input_dims", "input_types", "input_strides", "concrete_inputs", "8944"):
        assert raw not in told
    traced_page.page.mouse.move(2, 2)
    # What was recorded is not lost: the opened row has it.
    traced_page.page.locator("#grid tr.item").first.click()
    opened = traced_page.page.inner_text(".detail-box")
    assert "input_strides" in opened
    assert "[ [ 8944," in opened
    assert "\ufffd" not in traced_page.page.inner_text("body")
    traced_page.page.locator("#grid tr.open").first.click()
    traced_page.check()


def test_groups_of_paths_keep_their_ends(traced_page: Opened) -> None:
    page = traced_page.page
    page.select_option("#group", "module")
    traced_page.settle()
    labels = page.locator("#grid tr.group td.first").all_inner_texts()
    full = page.locator("#grid tr.group td.first").evaluate_all(
        "(all) => all.map((td) => td.title)"
    )
    ends = [f"…{label.partition('…')[2]}" for label in labels]
    assert labels == ends
    assert all(len(label) > 20 for label in labels)
    assert all(whole.endswith(label[1:]) for whole, label in zip(full, labels, strict=True))
    assert len(set(labels)) == len(labels)
    clipped = "(all) => all.filter((td) => td.scrollWidth > td.clientWidth).length"
    assert page.locator("#grid tr.group td.first").evaluate_all(clipped) == 0
    page.evaluate("() => { navigator.clipboard.writeText = async (t) => { window.copied = t; }; }")
    page.click("#copy-csv")
    copied = csv.DictReader(io.StringIO(traced_page.js("window.copied")))
    assert {row["name"] for row in copied} == {PATH.format(k) for k in range(23)}
    page.select_option("#pareto-by", "module")
    listed = page.locator("#pareto .label > span").all_inner_texts()
    assert all(label.startswith("…") and "Linear_" in label for label in listed)
    page.select_option("#group", "none")
    traced_page.check()


def test_escape_undoes_a_selection_wherever_the_focus_is(step: Opened) -> None:
    step.page.locator(".kernel-link.all").click()
    step.settle()
    assert step.rows() == 16
    # An open list closes first.
    step.page.click("#columns summary")
    step.page.keyboard.press("Escape")
    step.settle()
    assert step.rows() == 16
    assert step.page.locator("#columns[open]").count() == 0
    step.page.keyboard.press("Escape")
    step.settle()
    assert step.rows() == 67
    step.page.locator('button[data-part="memory"]').click()
    step.page.fill("#search", "adam")
    step.settle()
    assert step.rows() == 1
    step.page.keyboard.press("Escape")
    step.settle()
    assert step.page.input_value("#search") == ""
    assert 1 < step.rows() < 67
    step.page.keyboard.press("Escape")
    step.settle()
    assert step.rows() == 67


def test_streams_stand_in_the_order_of_their_numbers(open_page: OpenPage, tmp_path: Path) -> None:
    report = step_report()
    streams = ["100", "20", "7", "101", "0:9", "3"]
    assert report.profile.timeline is not None
    place = pl.int_range(pl.len()) % len(streams)
    named = pl.lit(pl.Series(streams)).gather(place)
    timeline = report.profile.timeline.with_columns(named.alias("stream"))
    profile: Profile = replace(report.profile, timeline=timeline)
    path = tmp_path / "streams.html"
    path.write_text(html_page(replace(report, profile=profile)), encoding="utf-8")
    opened = open_page(path)
    assert opened.js("timeroofPage.streams()") == ["0:9", "3", "7", "20", "100", "101"]
    opened.check()
