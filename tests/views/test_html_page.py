"""The page as text: one file, its totals those of the JSON, nothing of a name becomes markup."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import msgspec
import polars as pl
import pytest

from tests.views.samples import HOSTILE_NAMES, hostile_report, large_report, step_report
from timeroof.api.reports import analyze
from timeroof.core.errors import UNTRUSTED, Note, as_notes
from timeroof.core.profile import Profile, Source
from timeroof.core.report import Report
from timeroof.study.factors.published import paper_report
from timeroof.views.overview import overview
from timeroof.views.page import html_page, notebook_html
from timeroof.views.page.page import run_names
from timeroof.views.page.payload import finding_cards


class Reader(HTMLParser):
    """Elements, attributes and scripts of a page, as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text: list[str] = []
        self._open: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def handle_data(self, data: str) -> None:
        if self._open == "script":
            self.scripts[-1] += data
        elif self._open != "style":
            self.text.append(data)

    def values(self) -> dict[str, float]:
        """The first number of every `data-key`."""
        found: dict[str, float] = {}
        for _, attrs in self.tags:
            key, value = attrs.get("data-key"), attrs.get("data-value")
            if key and value not in (None, "None"):
                found.setdefault(key, float(str(value)))
        return found


@pytest.fixture(scope="module")
def step() -> Report:
    return step_report()


@pytest.fixture(scope="module")
def hostile_page() -> Reader:
    return Reader(html_page(hostile_report(), title=HOSTILE_NAMES[1]))


@pytest.mark.parametrize("make", [step_report, paper_report])
def test_totals_are_those_of_the_json(make: Any) -> None:
    report = make()
    totals = msgspec.json.decode(report.to_json())["totals"]
    shown = Reader(html_page(report)).values()
    assert shown["efficiency"] == totals["efficiency"]
    for rung, seconds in totals["ladder"].items():
        assert shown.get(rung) == seconds
    for key, seconds in totals["by_class"].items():
        if not key.startswith("idle."):
            assert shown.get(f"by_class.{key}", 0.0) == pytest.approx(seconds, abs=1e-12)


def test_nothing_is_fetched_and_only_our_scripts_run(step: Report) -> None:
    page = html_page(step)
    reader = Reader(page)
    for tag, attrs in reader.tags:
        assert "src" not in attrs, tag
        assert not str(attrs.get("href", "#")).startswith("http"), tag
    policy = next(a["content"] for _, a in reader.tags if a.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    data, *scripts = reader.scripts
    assert len(scripts) == 1
    assert msgspec.json.decode(data)["schema"] == "timeroof.page/1"
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_hostile_names_are_text(hostile_page: Reader) -> None:
    allowed = {"script", "style", "link", "meta"}
    assert len(hostile_page.scripts) == 2
    tags = {tag for tag, _ in hostile_page.tags}
    assert not tags & {"img", "iframe", "object", "b onclick"}
    assert allowed <= tags
    for tag, attrs in hostile_page.tags:
        assert not [name for name in attrs if name.startswith("on")], tag
        assert not str(attrs.get("href", "")).startswith("javascript"), tag
    text = "".join(hostile_page.text)
    assert "<script>window.hacked=1</script>" in text
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert max(map(len, hostile_page.text)) < 5_000


def test_a_title_of_markup_is_text(hostile_page: Reader) -> None:
    assert HOSTILE_NAMES[1] in hostile_page.text


def test_the_page_of_5000_rows_is_under_8_mb() -> None:
    assert len(html_page(large_report(5_000)).encode()) < 8_000_000


def test_several_runs_have_their_panels_and_names(step: Report) -> None:
    other = replace(step, extras={"name": "after"})
    reader = Reader(html_page(step, runs=[step, other, step_report(2)]))
    panels = [a for _, a in reader.tags if "run-panel" in str(a.get("class"))]
    assert len(panels) == 3
    assert run_names([step, other, step_report(2)]) == ["step", "after", "step #2"]
    data = msgspec.json.decode(reader.scripts[0])
    assert [run["name"] for run in data["runs"]] == ["step", "after", "step #2"]


def test_of_several_runs_each_says_what_to_do_or_why_nothing(step: Report) -> None:
    waited = as_notes([Note("Times are not to be trusted.", UNTRUSTED, "warning")])
    busy = replace(step, findings=(), notes=waited, extras={"name": "busy"})
    text = html_page(step, runs=[step, busy])
    findings = text.partition('id="findings"')[2].partition("</section>")[0]
    assert overview(busy).nothing in findings
    table = text.partition('class="plain runs"')[2].partition("</table>")[0]
    assert table.count("⚠") == 1
    assert "Warning: Times are not to be trusted." in table


def test_findings_come_by_gain_and_know_their_kernels(step: Report) -> None:
    cards = finding_cards(replace(step, findings=tuple(reversed(step.findings))))
    assert [card.gain for card in cards] == ["2.10 ms", "480 µs"]
    # Equal kernels are one link, with their number.
    assert [link.short_name for link in cards[0].links] == list(
        dict.fromkeys(link.short_name for link in cards[0].links)
    )
    assert cards[0].links[0].place.startswith("×6")
    assert len(cards[0].kernels) == 16


def test_a_report_without_machine_or_rows_has_a_page() -> None:
    rows = [{"name": "k", "time_s": 1.0}]
    text = "".join(Reader(html_page(analyze(Profile.of(rows, Source(tool="t"))))).text)
    assert "nothing is bounded" in text
    empty = pl.DataFrame(schema={"name": pl.String, "time_s": pl.Float64})
    assert "Nothing was measured" in html_page(
        analyze(Profile.of(empty, Source(tool="t")), "h100-sxm")
    )


def test_a_notebook_shows_the_headline_without_scripts(step: Report) -> None:
    shown = notebook_html(step)
    reader = Reader(shown)
    assert not reader.scripts
    assert len(shown) < 20_000
    assert "adam multi_tensor" in " ".join(reader.text)
    bad = Reader(notebook_html(hostile_report()))
    assert not bad.scripts
    assert not any(name.startswith("on") for _, attrs in bad.tags for name in attrs)


def test_where_little_is_known_nothing_is_promised() -> None:
    rows = [
        {"name": "k", "time_s": 1e-3},
        {"name": "Memset", "kind": "memset", "time_s": 1e-6, "byte/dram": 9.0},
    ]
    report = analyze(
        Profile.of(pl.DataFrame(rows, infer_schema_length=None), Source(tool="t")), "h100-sxm"
    )
    text = "".join(Reader(html_page(report)).text)
    assert "has no FLOP or byte counts, so its limit is unknown." in text
    assert "could be" not in text.split("What the words")[0]
