"""WCAG AA by axe-core, in light and in dark, for every kind of page."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.browser.conftest import ROOT, OpenPage
from tests.conftest import make_machine
from tests.study.test_output import paper_like, study_of
from tests.views.samples import step_report
from timeroof.core.report import Report
from timeroof.model.compare.compare import compare
from timeroof.model.whatif.project import what_if
from timeroof.paper.build import TITLE, build_paper
from timeroof.study.factors.published import paper_report
from timeroof.study.output.page import write_study
from timeroof.study.output.paper_page import paper_page
from timeroof.views.compare_page import comparison_outputs, whatif_outputs
from timeroof.views.machine import machine_page
from timeroof.views.page import html_page

AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


@cache
def step() -> Report:
    return step_report()


def study_html(folder: Path) -> str:
    return write_study(study_of(paper_like()), folder, overlay=build_paper()).read_text("utf-8")


PAGES: dict[str, Callable[[Path], str]] = {
    "report": lambda _: html_page(step()),
    "two runs": lambda _: html_page(step(), runs=[step(), step_report()]),
    "study": study_html,
    "paper": lambda _: paper_page(paper_report(), TITLE),
    "compare": lambda _: comparison_outputs(compare(step(), step()), step(), step()).page(),
    "whatif": lambda _: whatif_outputs(what_if(step(), [make_machine()])).page(),
    "machine": lambda _: machine_page(make_machine()),
}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", PAGES)
def test_every_page_meets_wcag_aa(
    kind: str, dark: bool, open_page: OpenPage, tmp_path: Path
) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is absent: make web (it needs Node)")
    path = tmp_path / "page.html"
    path.write_text(PAGES[kind](tmp_path / "files"), encoding="utf-8")
    opened = open_page(path, dark=dark)
    # By the debugger, which the page's policy does not concern.
    opened.page.evaluate(AXE.read_text("utf-8"))
    found = opened.page.evaluate(
        "(tags) => axe.run(document, { runOnly: tags, resultTypes: ['violations'] })", RULES
    )
    problems = [
        f"{rule['id']}: {node['target']} {node.get('failureSummary', '')}"
        for rule in found["violations"]
        for node in rule["nodes"][:4]
    ]
    assert problems == []
    opened.check()
