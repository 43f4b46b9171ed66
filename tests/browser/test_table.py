"""The table and the lists: sort, search, group, open, copy, Pareto, icicle, timeline, findings."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.browser.conftest import Opened, OpenPage
from tests.oracles.group import group
from tests.views.samples import step_report


def test_totals_of_the_rows_are_those_of_the_json(step: Opened) -> None:
    document = msgspec.json.decode(step_report().to_json())
    assert step.rows() == len(document["kernels"])
    assert step.time() == pytest.approx(sum(row["time_s"] for row in document["kernels"]), rel=1e-5)
    cards = step.js(
        "Object.fromEntries([...document.querySelectorAll('#headline [data-key]')].map((c) => [c.dataset.key, Number(c.dataset.value)]))"
    )
    totals = document["totals"]
    assert cards["measured_s"] == totals["ladder"]["measured_s"]
    assert cards["efficiency"] == totals["efficiency"]
    assert cards["roof_s"] == totals["ladder"]["roof_s"]


def test_sorting_by_any_column(step: Opened) -> None:
    assert step.first_cells(1) == ["adam multi_tensor"]
    step.page.click('[data-sort="gap_s"]')
    gaps = step.js(
        "[...document.querySelectorAll('#grid tr.item')].map((r) => Number(r.dataset.row))"
    )
    document = msgspec.json.decode(step_report().to_json())
    known = [row["gap_s"] for row in document["kernels"]]
    # Unknown comes last, whatever the order.
    expected = sorted(range(67), key=lambda i: (known[i] is None, -(known[i] or 0.0)))
    values = [document["kernels"][i]["gap_s"] for i in gaps]
    assert values == pytest.approx([document["kernels"][i]["gap_s"] for i in expected[: len(gaps)]])
    assert step.page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    step.page.click('[data-sort="name"]')
    names = step.first_cells(20)
    assert names == sorted(names, key=str.lower)
    step.page.click('[data-sort="time_s"]')


@pytest.mark.slow
def test_many_rows_are_in_order_in_both_directions_and_in_a_selection(
    open_page: OpenPage, page_file: Callable[[str], Path]
) -> None:
    """Thousands of rows are sorted by the bits of their numbers, once, whatever is selected."""
    opened = open_page(page_file("large"))

    def column(key: str) -> list[float | None]:
        opened.page.click("#copy-csv")
        lines = csv.DictReader(io.StringIO(opened.js("window.copied")))
        return [float(line[key]) if line[key] else None for line in lines]

    for search in ("", "layers.4"):
        opened.page.fill("#search", search)
        opened.settle()
        before = len(column("time_s"))
        for key in ("gap_s", "efficiency", "calls", "time_s"):
            for down in (True, False):
                opened.page.click(f'[data-sort="{key}"]')
                found = column(key)
                known = [value for value in found if value is not None]
                assert len(found) == before
                assert found == known + [None] * (before - len(known))
                assert known == sorted(known, reverse=down)
        opened.page.click('[data-sort="time_s"]')
    opened.check()


def test_search_narrows_charts_and_table(step: Opened) -> None:
    step.page.fill("#search", "gemm backward layers.2")
    step.settle()
    assert step.rows() == 4
    assert all("gemm" in name for name in step.first_cells())
    assert step.js("timeroofPage.figure().points.length") == 4
    step.page.fill("#search", "no such kernel")
    step.settle()
    assert step.rows() == 0
    step.page.fill("#search", "")
    step.settle()
    assert step.rows() == 67


@pytest.mark.parametrize(
    ("by", "column"), [("module", "module"), ("phase", "phase"), ("op", "op"), ("name", "name")]
)
def test_groups_sum_as_the_model_does(step: Opened, by: str, column: str) -> None:
    report = step_report()
    expected = group(report.profile, report.verdicts, [column])
    step.page.select_option("#group", by)
    step.settle()
    assert step.page.locator("#grid").get_attribute("aria-rowcount") == str(expected.height + 1)
    step.page.evaluate(
        "() => { window.copied = ''; navigator.clipboard.writeText = async (t) => { window.copied = t; }; }"
    )
    step.page.click("#copy-csv")
    rows = list(csv.DictReader(io.StringIO(step.js("window.copied"))))
    assert [float(row["time_s"]) for row in rows] == pytest.approx(
        expected["time_s"].to_list(), rel=1e-4
    )
    assert [float(row["bound_s"] or "nan") for row in rows] == pytest.approx(
        [v if v is not None else float("nan") for v in expected["bound_s"].to_list()],
        rel=1e-4,
        nan_ok=True,
    )
    step.page.select_option("#group", "none")
    step.settle()


def test_a_group_opens_to_its_rows(step: Opened) -> None:
    step.page.select_option("#group", "phase")
    step.settle()
    step.page.locator("#grid tr.group", has_text="optimizer").click()
    assert step.page.locator("#grid tr.member").count() == 1
    step.page.select_option("#group", "none")
    step.settle()


def test_a_row_opens_its_bounds(step: Opened) -> None:
    step.page.locator("#grid tr.item").nth(2).click()
    text = step.page.inner_text(".detail-box")
    assert "How these numbers came about" in text
    assert "elapsed_s - bound_s" in text
    for words in ("flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", "measured", "flop/bf16-tensor", "222 µs", "byte/dram", "220 GFLOP at 989 TFLOP/s", "time measured"):  # fmt: skip
        assert words in text
    assert step.page.locator(".bounds .track").count() == 5
    step.page.locator(".detail-box button", has_text="Isolate").click()
    step.settle()
    assert step.rows() == 1
    step.reset()
    step.page.locator("#grid tr.open").first.click()
    assert step.page.locator(".detail-box").count() == 0


def test_rows_light_their_points(step: Opened) -> None:
    step.page.locator("#grid tr.item").nth(1).hover()
    step.settle()
    assert step.js("timeroofPage.state.lit") == [1]
    step.page.locator("#grid tr.item").nth(0).hover()
    step.settle()
    ring = step.js(
        "[...document.querySelectorAll('#chart .lit-mark')].map((mark) => mark.getAttribute('d').split('Z').length - 1)"
    )
    assert ring == [2]


def test_columns_can_be_chosen(step: Opened) -> None:
    step.page.click("#columns summary")
    step.page.check("#column-flop_per_s")
    assert step.page.locator('[data-sort="flop_per_s"]').count() == 1
    step.page.uncheck("#column-flop_per_s")
    assert step.page.locator('[data-sort="flop_per_s"]').count() == 0
    step.page.keyboard.press("Escape")


def test_keys_walk_and_open_the_table(step: Opened) -> None:
    step.page.locator("#grid tr.item").first.focus()
    step.page.keyboard.press("ArrowDown")
    step.page.keyboard.press("ArrowDown")
    assert step.js("document.activeElement.dataset.item") == "2"
    step.page.keyboard.press("Enter")
    assert step.page.locator(".detail-box").count() == 1
    step.page.keyboard.press("Enter")
    assert step.page.locator(".detail-box").count() == 0
    step.page.keyboard.press("End")
    step.settle()
    assert step.js("document.activeElement.dataset.item") == "66"
    step.page.keyboard.press("Home")


def test_the_pareto_list_orders_gaps_and_isolates(step: Opened) -> None:
    step.page.select_option("#pareto-by", "row")
    gaps = step.js(
        "[...document.querySelectorAll('#pareto [data-gap]')].map((b) => Number(b.dataset.gap))"
    )
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] == pytest.approx(
        max(step_report().verdicts.table["gap_s"].drop_nulls()), rel=1e-5
    )
    step.page.locator("#pareto button").first.click()
    step.settle()
    assert step.rows() == 1


def test_the_icicle_goes_into_modules(step: Opened) -> None:
    step.page.locator("#icicle button", has_text="layers").first.click()
    assert "layers" in step.page.inner_text("#crumbs")
    step.page.locator("#crumbs button").first.click()
    assert step.page.inner_text("#crumbs").strip() == "all"


def test_the_timeline_moves_and_isolates(step: Opened) -> None:
    step.page.locator("#timeline-canvas").scroll_into_view_if_needed()
    step.page.focus("#timeline-canvas")
    step.page.keyboard.press("+")
    step.page.keyboard.press("ArrowRight")
    step.page.keyboard.press(".")
    step.settle()
    assert len(step.js("timeroofPage.state.lit")) == 1
    step.page.keyboard.press("Enter")
    step.settle()
    assert step.rows() == 1
    step.page.keyboard.press("Escape")
    step.page.keyboard.press("0")
    step.settle()
    assert step.rows() == 67


def test_findings_link_to_their_kernels(step: Opened) -> None:
    step.page.locator(".kernel-link.all").click()
    step.settle()
    assert step.rows() == 16
    step.page.locator(".kernel-link", has_text="scalar div").click()
    step.settle()
    assert step.rows() == 1
    assert step.first_cells() == ["scalar div"]


def test_a_part_of_the_bar_filters(step: Opened) -> None:
    step.page.locator('button[data-part="launch"]').click()
    step.settle()
    assert step.time() == pytest.approx(step_report().totals.by_class["launch"], rel=1e-5)
    step.page.locator('.stack [data-part="launch"]').click()
    step.settle()
    assert step.rows() == 67
