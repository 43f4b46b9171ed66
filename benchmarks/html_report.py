"""How long the page of a report takes to make and to answer, and how large it is.

Target: 5,000 rows in under 1 s after imports, under 2 MB, and every scroll, sort, search and zoom
within a frame or a blink; 100,000 rows for scale. With chromium the page is opened and used.

Run: python benchmarks/html_report.py [--rows 5000 100000] [--keep FOLDER] [--page OTHER.html …]

`--page` uses other pages in the same way, such as those of an older commit.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import polars as pl

from timeroof.api.reports import analyze
from timeroof.core.profile import Profile, Source
from timeroof.core.report import Report
from timeroof.views.page import html_page
from timeroof.views.page.page import REPORT_SCRIPT
from timeroof.views.page.templates import asset

REPEATS = 7
LIMIT_S = 1.0
LIMIT_BYTES = 2_000_000
TARGET_ROWS = 5_000
# Each returns the milliseconds until its change is drawn; scrolling: of the worst of 40 frames.
DRAWN = "const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));"
USES = {
    "scroll the table": """const box = document.getElementById("grid-box"); let worst = 0;
      for (let k = 1; k <= 40; k++) {
        const begin = performance.now(); box.scrollTop = k * box.scrollHeight / 45; await drawn();
        worst = Math.max(worst, performance.now() - begin);
      } return worst;""",
    "sort": """const begin = performance.now();
      document.querySelector('[data-sort="gap_s"]').click(); await drawn();
      return performance.now() - begin;""",
    "search": """const field = document.getElementById("search"), begin = performance.now();
      field.value = "layers.7"; field.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((done) => setTimeout(done, 1)); await drawn(); await drawn();
      const taken = performance.now() - begin;
      field.value = ""; field.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((done) => setTimeout(done, 400)); return taken;""",
    "group by kernel": """const list = document.getElementById("group"), begin = performance.now();
      list.value = "name"; list.dispatchEvent(new Event("change", { bubbles: true }));
      await drawn();
      return performance.now() - begin;""",
    # A page whose chart stays as it is takes no time for it: null.
    "zoom the chart": """const chart = document.getElementById("chart");
      chart.scrollIntoView(); await drawn();
      const box = chart.getBoundingClientRect(), before = chart.innerHTML;
      const target = chart.querySelector(".nsewdrag") || chart.querySelector("svg") || chart;
      const begin = performance.now();
      target.dispatchEvent(new WheelEvent("wheel", { deltaY: -120, ctrlKey: true, bubbles: true,
        cancelable: true, clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 }));
      await drawn(); await drawn();
      const taken = performance.now() - begin;
      await new Promise((done) => setTimeout(done, 200));
      return chart.innerHTML === before ? null : taken;""",
}


def make_report(rows: int) -> Report:
    """Rows with names, modules and shapes of realistic length; no two names alike."""
    chance = random.Random(rows)
    ops = ("aten::add", "aten::mm", "aten::sum", "aten::native_layer_norm", "aten::cat")
    moved = [10 ** chance.uniform(3, 9) for _ in range(rows)]
    flops = [b * 10 ** chance.uniform(-1, 2.5) for b in moved]
    table = pl.DataFrame(
        {
            "name": [
                f"void at::native::vectorized_elementwise_kernel<4, at::native::functor_{k % 700}"
                f"<c10::BFloat16, float>, std::array<char*, {k % 97}ul>>(int, T2, Calc<{k}>)"
                for k in range(rows)
            ],
            "short_name": [f"elementwise {k % 700}" for k in range(rows)],
            "op": [ops[k % 5] for k in range(rows)],
            "phase": [("forward", "backward", "optimizer")[k % 3] for k in range(rows)],
            "module": [f"model.layers.{k % 48}.{'abcd'[k % 4]}" for k in range(rows)],
            "shape": [f"[{k % 61}, {chance.randrange(4096)}, 128]" for k in range(rows)],
            "dtype": ["bf16"] * rows,
            "calls": [float(1 + k % 5) for k in range(rows)],
            "time_s": [b / 1e12 + 2e-6 + chance.random() * 1e-5 for b in moved],
            "flop/fp32": flops,
            "byte/dram": moved,
            "byte/l2": [2.5 * b for b in moved],
            "origin.time": ["measured"] * rows,
        }
    )
    return analyze(Profile.of(table, Source(tool="synthetic")), "h100-sxm")


def use(pages: list[Path]) -> None:
    """Open pages in chromium, one after the other, and print what each use of them takes."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("no chromium here: pages were not opened")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for path in pages:
            page = opened.new_page(viewport={"width": 1440, "height": 900})
            start = time.perf_counter()
            page.goto(path.resolve().as_uri())
            page.wait_for_selector("html[data-ready]", state="attached", timeout=120_000)
            page.wait_for_timeout(500)
            print(f"{path.name}: ready after {time.perf_counter() - start - 0.5:.2f} s")
            for name, script in USES.items():
                taken = [page.evaluate(f"async () => {{ {DRAWN} {script} }}") for _ in range(5)]
                print(f"  {name:18} {_told([ms for ms in taken if ms is not None])}")
            page.close()
        opened.close()


def _told(taken: list[float]) -> str:
    """The milliseconds of a use; a page that does not answer to it is not quick."""
    if not taken:
        return "does nothing"
    return f"median {statistics.median(taken):6.0f} ms, worst {max(taken):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[TARGET_ROWS, 100_000])
    parser.add_argument("--keep", type=Path, help="folder for the pages")
    parser.add_argument("--page", type=Path, nargs="*", default=[], help="other pages to use")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        use([*_make(arguments.rows, folder), *arguments.page])


def _make(counts: list[int], folder: Path) -> list[Path]:
    """Make pages of so many rows, and print how long it took."""
    pages = []
    print(f"the page's script: {len(asset(REPORT_SCRIPT).encode()) / 1e6:.2f} MB")
    for rows in counts:
        report = make_report(rows)
        seconds = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            page = html_page(report)
            seconds.append(time.perf_counter() - start)
        pages.append(folder / f"{rows}.html")
        pages[-1].write_text(page, encoding="utf-8")
        size = len(page.encode())
        verdict = ""
        if rows == TARGET_ROWS:
            holds = statistics.median(seconds) < LIMIT_S and size < LIMIT_BYTES
            verdict = (
                f"  under {LIMIT_S:g} s and {LIMIT_BYTES / 1e6:g} MB: {'yes' if holds else 'NO'}"
            )
        print(
            f"{rows:8,} rows: median {statistics.median(seconds):.3f} s"
            f" ({min(seconds):.3f} to {max(seconds):.3f}), {size / 1e6:.2f} MB{verdict}"
        )
    return pages


if __name__ == "__main__":
    main()
