"""The charts do what they say: tabs, hover, isolate, box, zoom, slider, controls, keys."""

from __future__ import annotations

import math

import pytest

from tests.browser.conftest import Opened
from tests.views.samples import step_report
from timeroof.views.pictures.of_report import chart_roofs


def point(opened: Opened, index: int = 0) -> tuple[float, float]:
    """Where a point is in the window, scrolled into sight."""
    opened.js("document.getElementById('chart').scrollIntoView({block: 'center'})")
    opened.settle()
    x, y = opened.js(f"timeroofPage.pixelOf(timeroofPage.figure().points[{index}])")
    return x, y


def hover(opened: Opened, index: int = 0) -> None:
    x, y = point(opened, index)
    opened.page.mouse.move(x - 3, y - 2)
    opened.page.mouse.move(x, y)
    opened.page.wait_for_selector("#tooltip", state="visible")


def click(opened: Opened, rows: int) -> None:
    """Click a point as a person does, who sees it light up first; then so many rows are shown."""
    opened.page.mouse.move(5, 5)
    hover(opened)
    x, y = point(opened)
    opened.page.mouse.click(x, y)
    opened.until(f"document.querySelector('#selection .sum').dataset.rows === '{rows}'")


def choose(opened: Opened, control: str, value: str) -> None:
    """Choose a value; some lists are under "More"."""
    opened.js("document.getElementById('more').open = true")
    opened.page.select_option(control, value)
    opened.js("document.getElementById('more').open = false")
    opened.settle()


@pytest.fixture
def combined(step: Opened) -> Opened:
    step.page.click("#tab-combined")
    step.page.mouse.move(2, 2)
    step.settle()
    return step


def test_the_symbols_stand_where_the_model_says(combined: Opened) -> None:
    roofs = chart_roofs(step_report())
    assert roofs is not None
    beta, peak = roofs.bytes_per_s, roofs.flops_per_s
    marks = combined.js(
        "timeroofPage.figure().points.map((p) => [p.rows[0], p.F, p.B, p.T, p.marks])"
    )
    assert len(marks) == 66
    for _, flops, moved, time_s, ((wx, wy), (tx, ty)) in marks:
        assert wx == pytest.approx(moved)
        if flops:
            assert wy == pytest.approx(flops)
            assert max(tx / beta, ty / peak) == pytest.approx(time_s, rel=1e-9)
            # Both symbols lie on one diagonal; the page's numbers have six digits.
            assert math.log10(ty / wy) == pytest.approx(math.log10(tx / wx), abs=1e-5)


def test_tabs_by_pointer_and_arrow_keys(step: Opened) -> None:
    for name in ("complexity", "time", "roofline", "combined"):
        step.page.click(f"#tab-{name}")
        step.settle()
        assert step.js("timeroofPage.figure().kind") == name
        assert step.page.get_attribute(f"#tab-{name}", "aria-selected") == "true"
    step.page.focus("#tab-combined")
    step.page.keyboard.press("ArrowRight")
    assert step.js("document.activeElement.id") == "tab-complexity"
    step.page.keyboard.press("End")
    step.settle()
    assert step.js("timeroofPage.figure().kind") == "roofline"
    step.page.keyboard.press("ArrowRight")
    assert step.js("document.activeElement.id") == "tab-combined"


def test_hover_says_what_a_row_is_and_lights_it(combined: Opened) -> None:
    hover(combined)
    text = combined.page.inner_text("#tooltip")
    for words in ("adam multi_tensor", "1.90 ms", "limiter\nmemory (DRAM)", "gap\n677 µs", "time measured", "flops counted", "bytes/dram modelled"):  # fmt: skip
        assert words in text
    combined.settle()
    lit = combined.page.locator("#grid tr.lit td.first").all_inner_texts()
    assert lit == ["adam multi_tensor"]


def test_click_isolates_and_click_again_shows_all(combined: Opened) -> None:
    everything = combined.rows()
    click(combined, 1)
    assert combined.rows() == 1
    assert combined.time() == pytest.approx(1.9e-3)
    assert combined.first_cells() == ["adam multi_tensor"]
    assert "only adam multi_tensor" in combined.page.inner_text("#selection")
    click(combined, everything)
    assert combined.rows() == everything


def test_a_box_selects_and_one_selection_holds_for_all_charts(combined: Opened) -> None:
    choose(combined, "#drag", "select")
    point(combined)
    area = combined.page.locator("#chart .plot-area").first.bounding_box()
    assert area is not None
    x, y = area["x"] + area["width"] * 0.6, area["y"] + 4
    combined.page.mouse.move(x, y)
    combined.page.mouse.down()
    combined.page.mouse.move(
        area["x"] + area["width"] - 4, area["y"] + area["height"] * 0.35, steps=6
    )
    combined.page.mouse.up()
    combined.until("timeroofPage.state.box !== null")
    combined.settle()
    chosen = combined.rows()
    assert 5 < chosen < 67
    for name in ("time", "roofline", "complexity"):
        combined.page.click(f"#tab-{name}")
        combined.settle()
        assert combined.rows() == chosen
        assert combined.js("timeroofPage.figure().points.length") <= chosen
    combined.page.click("#tab-combined")
    choose(combined, "#drag", "zoom")


def test_zoom_keeps_the_second_axes_in_step(combined: Opened) -> None:
    point(combined)
    area = combined.page.locator("#chart .plot-area").first.bounding_box()
    assert area is not None
    combined.page.mouse.move(area["x"] + area["width"] * 0.5, area["y"] + 10)
    combined.page.mouse.down()
    combined.page.mouse.move(
        area["x"] + area["width"] * 0.9, area["y"] + area["height"] * 0.5, steps=6
    )
    combined.page.mouse.up()
    combined.until("timeroofPage.state.views.combined !== undefined")
    combined.settle()
    shift = combined.js(
        "(() => { const { x2, y2 } = timeroofPage.figure().axes; return [x2.shift, y2.shift]; })()"
    )
    roofs = chart_roofs(step_report())
    assert shift[0] == pytest.approx(math.log10(roofs.bytes_per_s), abs=1e-6)
    assert shift[1] == pytest.approx(math.log10(roofs.flops_per_s), abs=1e-6)
    zoomed = combined.js("timeroofPage.figure().range.x[1] - timeroofPage.figure().range.x[0]")
    combined.page.click("#reset-view")
    combined.settle()
    assert (
        combined.js("timeroofPage.figure().range.x[1] - timeroofPage.figure().range.x[0]") > zoomed
    )


def test_rows_without_flops_are_on_their_axis_and_unknown_ones_are_counted(
    combined: Opened,
) -> None:
    zeros = combined.js(
        "timeroofPage.figure().points.filter((p) => p.F === 0).map((p) => p.marks[1][1])"
    )
    assert len(zeros) == 3
    assert len(set(zeros)) == 1
    assert "without FLOPs" in combined.page.inner_text("#chart-words")
    strip = combined.page.inner_text("#strip")
    assert "Not on this chart: 4.4 % of the run" in strip
    assert "1 row" in strip
    combined.page.click("#tab-roofline")
    combined.settle()
    assert "Not here, as they have no FLOPs: 3 rows" in combined.page.inner_text("#chart-words")


def test_the_slider_hides_short_rows(combined: Opened) -> None:
    combined.js(
        "(() => { const s = document.getElementById('size'); s.value = 60; s.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    combined.settle()
    combined.settle()
    least = combined.js("timeroofPage.state.minTime")
    assert 0 < combined.rows() < 67
    assert combined.js("timeroofPage.shownRows().length") == combined.rows()
    assert least > 0
    assert "Hide rows under" in str(combined.page.text_content("#size-text"))


def test_colours_levels_precisions_and_ceilings(combined: Opened) -> None:
    for colour in ("phase", "op", "module", "precision", "limit"):
        choose(combined, "#colour", colour)
        assert combined.page.locator("#legend button").count() >= 2
    sizes = combined.js("timeroofPage.figure().points.map((p) => p.size)")
    shares = combined.js("timeroofPage.figure().points.map((p) => p.share)")
    large = [(s, t) for s, t in zip(sizes, shares, strict=True) if s > 9]
    ratios = [s * s / t for s, t in large]
    assert max(ratios) == pytest.approx(min(ratios))
    choose(combined, "#roof", "flop/fp32")
    assert combined.js("timeroofPage.figure().roofs.peak") == 66.9e12
    choose(combined, "#roof", "own")
    choose(combined, "#roof", "flop/bf16-tensor")
    choose(combined, "#per-call", "call")
    assert combined.js("timeroofPage.figure().points[0].n") == 1
    choose(combined, "#per-call", "total")
    combined.page.click("#tab-roofline")
    combined.settle()
    before = combined.js("timeroofPage.figure().under.length")
    combined.page.click("#ceilings summary")
    combined.page.locator("#ceilings input").first.click()
    combined.settle()
    assert combined.js("timeroofPage.figure().under.length") != before
    combined.page.locator("#ceilings input").first.click()
    combined.page.keyboard.press("Escape")


def test_the_legend_hides_a_colour(combined: Opened) -> None:
    button = combined.page.locator("#legend button", has_text="memory")
    button.click()
    combined.settle()
    assert button.get_attribute("aria-pressed") == "false"
    assert combined.js("timeroofPage.figure().points.length") < 60
    assert "without memory" in combined.page.inner_text("#selection")


def test_keys_walk_the_chart(combined: Opened) -> None:
    combined.page.focus("#chart")
    combined.js("document.getElementById('chart').blur()")
    combined.page.focus("#chart")
    combined.page.keyboard.press("ArrowRight")
    combined.settle()
    assert combined.page.is_visible("#tooltip")
    combined.page.keyboard.press("Enter")
    combined.settle()
    assert combined.rows() == 1
    combined.page.keyboard.press("Escape")
    combined.settle()
    assert combined.rows() == 67
