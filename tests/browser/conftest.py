"""A real browser without a network, and pages written to disk once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.views.samples import hostile_report, large_report, step_report
from timeroof.core.report import Report
from timeroof.study.factors.published import paper_report
from timeroof.views.page import html_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = ROOT / "artifacts" / "browser"
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# A busy machine must not fail a test: waiting is cheap where the page is quick.
PATIENCE_MS = 60_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser" in str(item.path):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no chromium is installed: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def reports() -> dict[str, Callable[[], Report]]:
    return {
        "step": step_report,
        "paper": paper_report,
        "hostile": hostile_report,
        "large": lambda: large_report(5_000),
    }


@pytest.fixture(scope="session")
def page_file(
    tmp_path_factory: pytest.TempPathFactory, reports: dict[str, Callable[[], Report]]
) -> Callable[[str], Path]:
    """The file of a sample's page, made once."""
    folder = tmp_path_factory.mktemp("pages")

    def made(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(html_page(reports[name]()), encoding="utf-8")
        return path

    return made


@dataclass
class Opened:
    """A page in the browser, with what went wrong in it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Nothing may be logged as an error, and nothing may be asked of the network."""
        assert self.errors == []
        assert self.requests == []

    def js(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    def settle(self) -> None:
        """Two frames later everything that was asked for is drawn."""
        self.js(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))"
        )

    def until(self, condition: str) -> None:
        """Wait for a condition; the page's own policy forbids Playwright's way of waiting."""
        for _ in range(200):
            if self.js(condition):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(condition)

    def rows(self) -> int:
        return int(self.page.locator("#selection .sum").get_attribute("data-rows") or -1)

    def time(self) -> float:
        return float(self.page.locator("#selection .sum").get_attribute("data-time") or "nan")

    def first_cells(self, count: int = 5) -> list[str]:
        return self.page.locator("#grid tr.item td.first").all_inner_texts()[:count]

    def reset(self) -> None:
        """Everything shown again, whatever a test before did."""
        if self.page.locator("#show-all").count():
            self.page.locator("#show-all").click()
        self.js("document.querySelector('#grid-box').scrollTop = 0")
        self.settle()

    def picture(self, name: str) -> None:
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(ARTIFACTS / f"{name}.png"), full_page=True)


OpenPage = Callable[..., Opened]


@pytest.fixture(scope="session")
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Open a file with the network off and watch what it does."""
    contexts = []

    def opened(path: Path, *, width: int = 1440, height: int = 900, dark: bool = False) -> Opened:
        phone = width < 600
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            offline=True,
            is_mobile=phone,
            has_touch=phone,
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        result = Opened(context.new_page())
        page = result.page
        page.on(
            "console",
            lambda m: result.errors.append(m.text) if m.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: result.errors.append(str(error)))
        page.on(
            "request",
            lambda r: (
                result.requests.append(r.url)
                if not r.url.startswith(("file:", "data:", "blob:"))
                else None
            ),
        )
        page.on("dialog", lambda dialog: result.errors.append(f"dialog {dialog.message}"))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return result

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def step_page(open_page: OpenPage, page_file: Callable[[str], Path]) -> Opened:
    return open_page(page_file("step"))


@pytest.fixture
def step(step_page: Opened) -> Iterator[Opened]:
    """The page of the training step, all rows shown one by one; no test may leave an error."""
    step_page.reset()
    step_page.page.select_option("#points", "rows")
    step_page.settle()
    yield step_page
    step_page.check()
