"""Names that want to be code, through every kind of page and output: they stay text."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import OpenPage
from tests.live.live_programs import MACHINE
from tests.study.factor_samples import Truth, batch_sweep
from tests.study.test_output import study_of
from tests.views.samples import HOSTILE_NAMES
from timeroof.cli.main import main
from timeroof.study.case import Case, Result
from timeroof.study.factors.published import paper_report
from timeroof.study.output.page import write_study
from timeroof.study.output.paper_page import paper_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = [name.replace("\0", "") for name in HOSTILE_NAMES if len(name) < 2000]
STEERING = ("\x1b", "\x07", "\u202e", "\u2066")


def write_rows(path: Path, names: Sequence[str], factor: float = 1.0) -> Path:
    """A tidy table with a hostile text in every cell that may hold one, and as a column."""
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        texts = (
            "op",
            "phase",
            "module",
            "dtype",
            "device",
            "stream",
            "<b onclick=hacked()>",
            "=1+1",
        )
        out.writerow(["name", "time_s", "flops_fp32", "bytes_dram", *texts])
        for k, name in enumerate(names):
            others = [names[(k + i) % len(names)] for i in range(len(texts))]
            others[1] = ("forward", "backward")[k % 2]
            out.writerow([name, (k + 1) * 1e-3 * factor, 1e9 * (k + 1), 1e6, *others])
    return path


def write_machine(path: Path) -> Path:
    """A machine whose every text is hostile."""
    title, source = (json.dumps("".join(names)) for names in (NAMES[:6], NAMES))
    path.write_text(
        MACHINE.replace('"Toy CPU"', title).replace('"a round number"', source), encoding="utf-8"
    )
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every page and output that a command makes of hostile files."""
    folder = tmp_path_factory.mktemp("hostile")
    one = str(write_rows(folder / "a<img src=x onerror=window.hacked=8>.csv", NAMES))
    two = str(write_rows(folder / "b'\"><script>window.hacked=9<!--.csv", NAMES[::-1], 1.5))
    on = ["--machine", "h100-sxm"]
    assert main(["read", one, *on, "--html", str(folder / "report.html")]) == 0
    assert main(["read", one, two, *on, "--html", str(folder / "ranks.html")]) == 0
    assert main(["compare", one, two, *on, "--html", str(folder / "compare.html")]) == 0
    assert main(["whatif", one, "--from", "h100-sxm", "--machine", "a100-sxm4-80gb",
                 "--html", str(folder / "whatif.html")]) == 0  # fmt: skip
    machine = str(write_machine(folder / "m<b>.toml"))
    assert main(["machine", machine, "--html", str(folder / "machine.html")]) == 0
    assert main(["read", one, "--machine", machine, "--html", str(folder / "judged.html")]) == 0
    for suffix in ("csv", "md", "svg"):
        assert main(["report", one, *on, "-o", str(folder / f"report.{suffix}")]) == 0
        assert main(["compare", one, two, *on, "-o", str(folder / f"compare.{suffix}")]) in (0, 2)
    return folder


def hostile_study() -> list[Truth]:
    """Cases whose kernel, parameters and values are hostile."""
    found = [
        Truth(name, {"batch": n, NAMES[(k + 1) % len(NAMES)]: n}, n * 1e-4, n * 5e6, n * 1e5)
        for k, name in enumerate(NAMES[:8])
        for n in (16, 32)
    ]
    return [*found, *batch_sweep()]


@pytest.fixture(scope="module")
def case_pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("cases")
    case = Case(kernel=NAMES[0], params={NAMES[1]: NAMES[2]}, pass_name="forward")
    failed = [Result(case=case, status="failed", error="".join(NAMES))]
    study = study_of(hostile_study(), failures=failed)
    page = folder / "paper.html"
    page.write_text(paper_page(paper_report(), "".join(NAMES[:7])), encoding="utf-8")
    return {"study": write_study(study, folder), "paper": page}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["report", "ranks", "compare", "whatif", "machine", "judged", "study", "paper"]
)
def test_nothing_in_a_page_runs(
    kind: str, made: Path, case_pages: dict[str, Path], open_page: OpenPage
) -> None:
    opened = open_page(case_pages.get(kind, made / f"{kind}.html"))
    opened.settle()
    for element in opened.page.locator("summary").all()[:20]:
        if element.is_visible():
            element.click()
    for disc in opened.page.locator("svg.plot .disc").all()[:6]:
        if disc.is_visible():
            disc.hover(force=True)
    opened.settle()
    assert opened.js("window.hacked") is None
    assert opened.js("document.querySelectorAll('img, iframe, object, embed').length") == 0
    assert opened.js("document.querySelectorAll('[onclick], [onerror], [onload]').length") == 0
    places = "[...document.querySelectorAll('[href], [src]')].map((e) => e.getAttribute('href') || e.getAttribute('src'))"
    assert not [p for p in opened.js(places) if str(p).strip().lower().startswith("javascript")]
    policy = opened.js("document.querySelector('meta[http-equiv=Content-Security-Policy]').content")
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    # A script that somebody brings in is refused by the policy, and says so.
    opened.check()
    opened.js(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 99';"
        " document.body.append(s); })()"
    )
    assert opened.js("window.hacked") is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report", "compare"])
def test_tables_and_pictures_hold_names_as_text(name: str, made: Path, browser: Browser) -> None:
    markdown = made / f"{name}.md"
    if markdown.exists():
        text = markdown.read_text("utf-8")
        assert "<script" not in text
        assert "<img" not in text
        assert not any(letter in text for letter in STEERING)
    table = made / f"{name}.csv"
    if table.exists():
        cells = [cell for row in csv.reader(io.StringIO(table.read_text("utf-8"))) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t", "\r"))]
    picture = made / f"{name}.svg"
    if picture.exists():
        tags = {element.tag.rpartition("}")[2] for element in ET.parse(picture).iter()}
        assert not tags & {"script", "foreignObject", "image", "a"}
        page = browser.new_page()
        page.goto(picture.as_uri())
        assert page.evaluate("window.hacked") is None
        page.close()


def test_a_terminal_is_steered_by_no_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_rows(tmp_path / "a.csv", NAMES)
    other = write_rows(tmp_path / "b.csv", NAMES[::-1], 1.5)
    machine = str(write_machine(tmp_path / "m.toml"))
    for words in (
        ["read", str(path), "-v", "--machine", "h100-sxm"],
        ["read", str(path), str(other), "-v", "--machine", machine],
        ["explain", str(path), "--machine", "h100-sxm"],
        ["explain", str(path), "--row", "0", "--machine", machine],
        ["compare", str(path), str(other), "--machine", machine],
        ["check", str(path), "--baseline", str(other), "--rule", f"op={NAMES[7]}:time<1ms"],
        ["whatif", str(path), "--from", machine, "--machine", "h100-sxm"],
        ["machine", machine],
    ):
        assert main(words) in (0, 1)
        shown = capsys.readouterr()
        assert not any(letter in shown.out + shown.err for letter in STEERING)
