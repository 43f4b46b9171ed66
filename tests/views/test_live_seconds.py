"""One time base: every view of a live run shows seconds of an unprofiled step, unscaled."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, strategies as st

from tests.views.live_sample import BUSY_S, PYTHON_S, live_report
from tests.views.test_html_page import Reader
from tests.views.test_payload import values
from timeroof.core.profile import Steps
from timeroof.core.report import Report
from timeroof.views.overview import overview
from timeroof.views.page import html_page, notebook_html
from timeroof.views.parts import seconds_words, time_parts
from timeroof.views.render import report_markdown
from timeroof.views.run_summary import print_run

seconds = st.floats(0.5, 50)
TIMES = [6.0, 2.5, 1.4, 0.1]


@given(seconds)
@pytest.mark.slow
def test_the_step_is_kernels_idle_time_and_what_is_unexplained(step_s: float) -> None:
    report = live_report(step_s)
    totals = report.totals
    assert (totals.wall_s, totals.kernel_s, totals.idle_s) == (step_s, BUSY_S, PYTHON_S)
    assert totals.unexplained_s == pytest.approx(step_s - BUSY_S - PYTHON_S)
    assert totals.ladder.measured_s == step_s
    parts = {part.key: part.seconds for part in time_parts(report)}
    assert parts["idle"] == pytest.approx(PYTHON_S)
    assert sum(parts.values()) == pytest.approx(step_s)


def test_page_and_json_have_the_same_seconds() -> None:
    report = live_report(9.0)
    reader = Reader(html_page(report))
    shown = reader.values()
    assert shown["measured_s"] == 9.0
    parts = {k: v for k, v in shown.items() if k.startswith("by_class")}
    assert sum(parts.values()) == pytest.approx(9.0)
    assert parts["by_class.unexplained"] == pytest.approx(-3.0)
    column = msgspec.json.decode(reader.scripts[0])["runs"][0]["columns"]["time_s"]
    document = msgspec.json.decode(report.to_json())
    assert [row["time_s"] for row in document["kernels"]] == TIMES
    assert values(column, len(TIMES)) == pytest.approx(TIMES)
    assert document["totals"]["unexplained_s"] == pytest.approx(-3.0)
    assert '<span class="notch" style="width:25.0%"' in html_page(report)
    assert document["totals"]["unexplained_error_s"] == 0.1


@pytest.mark.parametrize(
    ("step_s", "words"),
    [
        (10.0, "profiled steps are 2.00 s (20.0 % ± 1.0 %) slower than unprofiled ones"),
        (15.0, "profiled steps are 3.00 s (20.0 % ± 0.7 %) faster than unprofiled ones"),
        (12.0, "Together they explain the whole step."),
    ],
)
def test_words_say_what_is_unexplained(step_s: float, words: str) -> None:
    text = seconds_words(live_report(step_s))
    assert "seconds of an unprofiled step" in text
    assert words in text


@pytest.mark.parametrize(("step_s", "warns"), [(12.3, False), (11.6, True), (13.0, True)])
def test_beyond_three_percent_and_two_errors_a_note_warns(step_s: float, warns: bool) -> None:
    notes = [str(note) for note in live_report(step_s).notes]
    assert any(note.startswith("Unexplained: ") for note in notes) == warns


def test_a_run_without_unprofiled_steps_says_nothing_of_them() -> None:
    report = live_report()
    totals = msgspec.structs.replace(report.totals, steps=None, unexplained_s=None)
    bare: Report = replace(report, totals=totals)
    assert seconds_words(bare) == ""
    assert "unprofiled" not in "".join(Reader(html_page(bare)).text).split("What the words")[0]


def test_every_view_for_people_shows_the_same_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    report = live_report(9.0)
    markdown = report_markdown([report], ["run"])
    notebook = "".join(Reader(notebook_html(report)).text)
    print_run(report)
    terminal = capsys.readouterr().err
    for text in (markdown, notebook, terminal):
        assert "6.00 s" in text
        assert "2.50 s" in text
    assert "unprofiled step" in markdown
    assert "unprofiled step" in notebook


def test_the_title_counts_steps_in_words_of_one_and_many() -> None:
    report = live_report()
    assert overview(report).title.endswith(" · 20 steps")
    assert overview(report).subtitle.endswith("4 launches")
    steps = Steps(count=1, unprofiled_s=6.0)
    one = msgspec.structs.replace(report.totals, steps=steps, launches=1.0)
    first = overview(replace(report, totals=one))
    assert first.title.endswith(" · 1 step")
    assert first.subtitle.endswith("1 launch")
