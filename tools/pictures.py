"""Makes the pictures of README.md and docs anew, from the pages of the tutorial's commands.

make pictures                               # needs chromium; a few minutes

Everything is made on the computer that runs it: times on the pictures are that computer's.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LARGEST_BYTES = 300_000
# One command per page; later ones read what earlier ones saved.
COMMANDS = (
    "run --save loop.troof --html loop.html examples/lstm_loop.py --threads 1",
    "run --save fused.troof --html fused.html examples/lstm_loop.py --threads 1 --fused",
    "compare loop.troof fused.troof --html compare.html",
    "read examples/trace.json.gz --html trace.html",
    "study conv2d lstm --pass forward --factor all --quick --fresh --overlay paper --out study",
    # What `make run-frameworks` runs; frameworks that are not installed are left out.
    "study conv2d lstm --framework torch,jax,tensorflow --quick --fresh --overlay paper --out all",
)
# Picture, page, width and height of the window, and the part of the page (its beginning: None).
WINDOWS: tuple[tuple[str, str, int, int, str | None], ...] = (
    ("first_screen", "trace.html", 1280, 900, None),
    ("combined_chart", "trace.html", 1280, 900, "#chart-panel"),
    ("tutorial_1_loop", "loop.html", 1280, 800, None),
    ("tutorial_2_fused", "fused.html", 1280, 800, None),
    ("tutorial_3_compare", "compare.html", 1280, 760, None),
    ("make_run", "study/index.html", 1280, 860, None),
    ("frameworks", "all/index.html", 1280, 760, None),
)


def main() -> None:
    """Run the commands, look at the pages, keep the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", type=Path, help="folder for the pages, to look at them")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = (chosen.keep or Path(made)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
        for command in COMMANDS:
            _timeroof(command, folder)
        IMAGES.mkdir(exist_ok=True)
        with _browser() as browser:
            for name, page, width, height, element in WINDOWS:
                _picture(browser, folder / page, IMAGES / f"{name}.png", width, height, element)
    for picture in sorted(IMAGES.glob("*.png")):
        size = picture.stat().st_size
        print(f"{picture.relative_to(ROOT)}  {size / 1e3:.0f} kB")
        if size > LARGEST_BYTES:
            sys.exit(f"{picture.name} is larger than {LARGEST_BYTES / 1e3:.0f} kB")


def _timeroof(command: str, folder: Path) -> None:
    print("timeroof", command, flush=True)
    subprocess.run([sys.executable, "-m", "timeroof", *command.split()], cwd=folder, check=True)


@contextmanager
def _browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        sys.exit("No chromium is installed: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _picture(
    browser: Browser, page: Path, target: Path, width: int, height: int, element: str | None
) -> None:
    window = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
    window.goto(page.as_uri())
    window.wait_for_timeout(1500)
    if element is None:
        window.screenshot(path=str(target))
    else:
        window.locator(element).screenshot(path=str(target))
    window.close()


if __name__ == "__main__":
    main()
