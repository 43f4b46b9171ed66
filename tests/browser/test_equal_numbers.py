"""Numbers of a page that mean the same are equal, wherever they stand, over the twelve runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import OpenPage
from tests.browser.test_first_screen import NAMES, report_of
from timeroof.core.units import format_seconds
from timeroof.views.overview import overview
from timeroof.views.page import html_page
from timeroof.views.style import page_look

# What the legend calls the parts of the run.
LEGEND_KEYS = {str(word): key for key, word in dict(page_look()["words"]).items()}  # type: ignore[call-overload]
# Every `data-key` with its values, in the order of the page.
KEYED = """
(() => {
  const found = {};
  for (const element of document.querySelectorAll("[data-key][data-value]")) {
    const { key, value } = element.dataset;
    if (key !== "kernel_s" && value !== "None") (found[key] ||= []).push(Number(value));
  }
  return found;
})()
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_number_is_the_same_wherever_it_stands(
    name: str, open_page: OpenPage, tmp_path: Path
) -> None:
    report = report_of(name)
    path = tmp_path / "page.html"
    path.write_text(html_page(report), encoding="utf-8")
    opened = open_page(path)
    for key, values in opened.js(KEYED).items():
        assert len(set(values)) == 1, (key, values)
    seen, ladder = overview(report), report.totals.ladder
    line = opened.page.locator("#selection .sum").inner_text()
    # All rows: what the run could be is the first screen's and the ladder's, not a sum of rows.
    if ladder.roof_s is not None and seen.parts:
        assert f"could be {format_seconds(ladder.roof_s)}" in line
        assert f"could be {format_seconds(ladder.roof_s)}" in (seen.potential or "")
        assert f"{format_seconds(report.totals.recoverable_s)} less" in line
    else:
        assert "could be" not in line
    # The longest kernel has one time and one share, on the first screen and in the table.
    if seen.kernels and not opened.page.locator("#table").is_hidden():
        first = seen.kernels[0]
        opened.page.select_option("#group", "name")
        opened.settle()
        cells = opened.page.locator("#grid tr.item").first.inner_text()
        data = "JSON.parse(document.getElementById('data').textContent).runs[0]"
        if opened.js(f"{data}.devices") == 1:
            assert first.time in cells
            labels = opened.page.locator("#chart .label.longest").all_text_contents()
            for kernel in seen.kernels:
                # A label is cut to what the chart has room for.
                at = [k for k, text in enumerate(labels) if text == kernel.name]
                for k in at:
                    assert labels[k + 1].startswith(f"{kernel.time} ({kernel.percent})"), kernel
    # The legend's shares are those of the parts of the first screen's bar.
    if len(seen.parts) and opened.page.locator("#legend-title").inner_text().startswith("Limited"):
        parts = {part.key: part.percent for part in seen.parts}
        for button in opened.page.locator("#legend button").all():
            key = LEGEND_KEYS.get(button.locator(".name").inner_text())
            if key in parts:
                assert button.locator("small").inner_text() == parts[key], key
    opened.check()
