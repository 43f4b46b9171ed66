"""The ten-second test: what a stranger sees of a report without scrolling, wide and on a phone.

Asserted from the boxes that are visible in the window as it opens. The recorded runs are those of
a review of nine reports, of which five said "unknown" although the page knew the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.browser.conftest import OpenPage
from tests.recorded_data import DATA
from tests.views.samples import step_report
from timeroof.api.reports import load
from timeroof.core.report import Report
from timeroof.views.overview import overview, word_count
from timeroof.views.page import html_page

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "live"
RECORDED = {
    "qwen": "kineto/h100_qwen1.5_0.5b_chat.json.gz",
    "resnet": "kineto/mi300x_resnet_train_8gpu_rank0.json.gz",
    "recsys": "kineto/v100_recsys_train_rank1of2.json.gz",
    "dlrm": "kineto/v100_dlrm_8rank",
    "fsdp": "nsys/h100_2gpu_fsdp_1s.sqlite.gz",
    "rocprofv3": "rocprof/rocprofv3_mi350x_train_results.json.gz",
    "ncu": "ncu/v100_deepcam_pytorch_fp32-O0-Adam",
}
LIVE = ("conv_padding", "embedding_loader", "lstm_loop", "transformer_inference")
NAMES = (*RECORDED, *LIVE, "step")
# Texts of elements that are wholly inside the window, as a reader sees them.
VISIBLE = """
(() => {
  const seen = [];
  for (const element of document.querySelectorAll("SELECTOR")) {
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    const inside = box.width > 0 && box.height > 0 && box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth + 1;
    if (inside && style.visibility !== "hidden") seen.push(element.innerText.replace(/\\s+/g, " ").trim());
  }
  return seen;
})()
"""


@cache
def report_of(name: str) -> Report:
    if name == "step":
        return step_report()
    if name in LIVE:
        return load(GOLDEN / f"{name}.troof")
    path = DATA / RECORDED[name]
    if not path.exists():
        pytest.skip(f"the recorded data is not here ({path})")
    return load(path)


@pytest.fixture(scope="session")
def first_page(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("first")

    def made(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(html_page(report_of(name)), encoding="utf-8")
        return path

    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_first_screen_answers_in_ten_seconds(
    name: str, width: int, height: int, open_page: OpenPage, first_page: Callable[[str], Path]
) -> None:
    seen = overview(report_of(name))
    opened = open_page(first_page(name), width=width, height=height)

    def visible(selector: str) -> list[str]:
        found: list[str] = opened.js(VISIBLE.replace("SELECTOR", selector))
        return found

    assert visible("#title") == [seen.title]
    assert visible(".verdict") == [seen.sentence]
    assert f"{seen.time} {seen.time_label.lower()}" in visible(".where-time h2")
    largest = seen.largest
    assert largest is not None
    first = visible(".parts li:first-child")
    assert first == [f"{largest.label} {largest.text} {largest.percent}"]
    [action] = visible(".do-first li:first-child h3")
    if seen.actions:
        do = seen.actions[0]
        assert action == f"{do.title} up to {do.gain} ({do.percent})"
    else:
        assert action == seen.nothing
    doubts = [f"{doubt.text} {doubt.advice}".replace("`", "").strip() for doubt in seen.doubts]
    shown = " ".join(visible(".doubts p"))
    assert all(words in shown for words in doubts[:2])
    # Nothing hangs over the window's edge.
    assert opened.js("document.documentElement.scrollWidth") <= width
    opened.page.context.close()


@pytest.mark.parametrize("name", NAMES)
def test_the_sentence_is_short_and_names_the_largest_part(name: str) -> None:
    seen = overview(report_of(name))
    assert word_count(seen.sentence) <= 25
    assert seen.largest is not None
    # Also where profiled steps took many times an unprofiled one.
    assert all(part.share <= 1 for part in seen.parts)
    if seen.subject:
        assert seen.sentence.startswith(f"{seen.largest.subject} {seen.largest.verb} ")
        assert f"{seen.largest.percent} of the" in seen.sentence
    else:
        # Nothing limits a kernel where no machine is known: the largest kernels are named.
        assert report_of(name).machine is None
        assert seen.kernels[0].percent in seen.sentence
