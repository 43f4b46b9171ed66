"""Bugs of a visual review that everyone saw, each in the window as it opens (look.md, B5 to B12)."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from tests.browser.conftest import Opened, OpenPage
from tests.conftest import make_machine
from tests.views.samples import step_report
from timeroof.api.reports import analyze
from timeroof.core.profile import Profile, Source
from timeroof.model.compare.compare import compare
from timeroof.model.whatif.project import what_if
from timeroof.views.compare_page import comparison_outputs, whatif_outputs
from timeroof.views.page import html_page


def opened_text(open_page: OpenPage, folder: Path, text: str) -> Opened:
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    return open_page(path)


@pytest.mark.parametrize("kind", ["compare", "whatif"])
def test_tables_of_compare_and_whatif_use_the_window(  # B5
    kind: str, open_page: OpenPage, tmp_path: Path
) -> None:
    step = step_report()
    made = (
        comparison_outputs(compare(step, step), step, step)
        if kind == "compare"
        else whatif_outputs(what_if(step, [make_machine()]))
    )
    opened = opened_text(open_page, tmp_path, made.page())
    assert opened.js("document.documentElement.scrollWidth") <= 1440
    clipped = opened.js(
        "[...document.querySelectorAll('.scroller')].filter((b) => b.scrollWidth > b.clientWidth + 1).length"
    )
    assert clipped == 0
    assert opened.js("document.querySelector('main').clientWidth") > 1300
    opened.check()


def test_escape_undoes_a_finding_wherever_the_focus_is(step: Opened) -> None:  # B7
    step.page.locator(".kernel-link").first.click()
    step.settle()
    assert step.js("timeroofPage.state.isolated !== null")
    step.page.locator("#theme").focus()
    step.page.keyboard.press("Escape")
    step.settle()
    assert step.js("timeroofPage.state.isolated === null")


def test_many_streams_share_lanes_in_the_order_of_their_numbers(  # B8
    open_page: OpenPage, tmp_path: Path
) -> None:
    streams = [str(n) for n in (2, 10, 1, *range(100, 160))]
    long = {"1": 5e-3, "2": 4e-3, "10": 3e-3}
    rows = [
        {"id": k, "name": f"k{k}", "time_s": long.get(s, 1e-6), "stream": s, "flop/fp32": 1e6,
         "byte/dram": 1e6}
        for k, s in enumerate(streams)
    ]  # fmt: skip
    timeline = pl.DataFrame({
        "start_s": [0.0] * len(streams), "duration_s": [r["time_s"] for r in rows],
        "stream": streams, "kernel": list(range(len(streams))), "idle_cause": [None] * len(streams),
    })  # fmt: skip
    profile = Profile.of(rows, Source(tool="t"), timeline=timeline)
    opened = opened_text(open_page, tmp_path, html_page(analyze(profile, make_machine())))
    lanes = opened.js("timeroofPage.streams()")
    assert lanes[:3] == ["1", "2", "10"]
    assert len(lanes) <= 12
    assert "other streams" in lanes[-1]
    assert opened.js("document.getElementById('timeline-canvas').clientHeight") < 500
    opened.check()


def test_the_five_longest_symbols_have_their_names(step: Opened) -> None:  # B9
    step.page.select_option("#points", "groups")
    step.settle()
    named = step.page.locator("#chart .label.longest.bold").all_text_contents()
    wanted = step.js("timeroofPage.figure().points.slice(0, 5).map((p) => p.name.slice(0, 12))")
    assert all(any(text.startswith(name) for text in named) for name in wanted)


def test_the_hover_has_phase_and_op_in_lines_of_their_own(step: Opened) -> None:  # B10
    x, y = step.js("timeroofPage.pixelOf(timeroofPage.figure().points[0])")
    step.page.locator("#chart").scroll_into_view_if_needed()
    box = step.page.locator("#chart svg.plot").bounding_box()
    assert box is not None
    step.page.mouse.move(box["x"] + x, box["y"] + y)
    step.settle()
    words = step.page.locator("#tooltip dt").all_inner_texts()
    facts = dict(zip(words, step.page.locator("#tooltip dd").all_inner_texts(), strict=True))
    assert facts.get("op") not in ("forward", "backward", "optimizer")
    # Calls of different sizes are no noise.
    assert not re.search(r"± \d{3,} %", facts.get("time", ""))
    step.page.mouse.move(2, 2)


def test_a_whatif_label_stands_at_the_end_of_its_bar(  # B11
    open_page: OpenPage, tmp_path: Path
) -> None:
    page = whatif_outputs(what_if(step_report(), [make_machine()])).page()
    opened = opened_text(open_page, tmp_path, page)
    for line in opened.page.locator(".bars ol li").all():
        label = line.locator(".end").bounding_box()
        pieces = [p.bounding_box() for p in line.locator(".track i:not(.interval)").all()]
        assert label is not None
        end = max(p["x"] + p["width"] for p in pieces if p is not None)
        assert min(abs(label["x"] - end), abs(label["x"] + label["width"] - end)) < 12
    notes = opened.page.locator(".bars ol li small").all_inner_texts()
    assert any(re.search(r" to ", note) for note in notes)


def test_what_is_not_selected_is_one_pale_layer(step: Opened) -> None:  # B12
    step.page.locator(".kernel-link").first.click()
    step.settle()
    ghosts = step.page.locator("#chart svg.plot .ghosts")
    assert ghosts.count() == 1
    assert step.js("Number(getComputedStyle(document.querySelector('.ghosts')).opacity)") <= 0.3
