"""Clean seconds: parts sum to the step without instruments, and the words say what was done."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.views.live_sample import live_report
from tests.views.samples import step_report
from tests.views.test_html_page import Reader
from timeroof.core.profile import Steps
from timeroof.core.report import Report
from timeroof.views.clean import (
    clean_by_limiter,
    clean_idle,
    clean_step,
    clean_table,
    clean_tables,
    clean_words,
)
from timeroof.views.page import html_page, notebook_html
from timeroof.views.page.headline import cards, idle_parts, limiter_parts, sum_text
from timeroof.views.page.payload import run_payload
from timeroof.views.tables import report_markdown
from timeroof.views.terminal import print_gaps

seconds = st.floats(0.5, 50)


@given(seconds)
def test_bars_sum_to_the_clean_step(clean_s: float) -> None:
    totals = live_report(clean_s).totals
    busy = sum(part.seconds for part in limiter_parts(totals))
    parts = {part.key: part.seconds for part in idle_parts(totals)}
    assert parts["busy"] == pytest.approx(busy)
    assert sum(parts.values()) == pytest.approx(clean_s)
    assert not any("profiler" in key for key in parts)
    assert sum(clean_by_limiter(totals).values()) + (clean_idle(totals)[0] or 0) == pytest.approx(
        clean_s
    )


@given(seconds)
def test_a_rows_bound_and_gap_sum_to_its_time(clean_s: float) -> None:
    report = live_report(clean_s)
    table = clean_table(report)
    outside = table.filter(table["time_s"] > table["overhead_time_s"])
    assert (outside["bound_s"] + outside["gap_s"]).to_list() == pytest.approx(
        outside["elapsed_s"].to_list()
    )
    assert table["bound_s"].to_list() == report.verdicts.table["bound_s"].to_list()
    assert table.filter(table["time_s"] <= table["overhead_time_s"])["gap_s"].min() in (None, 0.0)


def test_gaps_and_idle_are_what_the_ladder_leaves() -> None:
    report = live_report(10.0)
    totals = report.totals
    gaps = clean_tables(report)[1]["gap_s"].sum()
    assert totals.ladder.roof_s is not None
    left = totals.ladder.measured_s - totals.ladder.roof_s
    # The view is inside its launch box: what its launch alone takes longer is no gap.
    launch_s = 0.1 - 0.1 * totals.clean_scale
    assert gaps + (clean_idle(totals)[0] or 0) == pytest.approx(left + launch_s)


def test_an_unknown_gap_stays_unknown() -> None:
    report = step_report()
    steps = Steps(count=20, clean_s=1e-3, timed_s=None)
    slow = replace(report, totals=msgspec.structs.replace(report.totals, steps=steps))
    before, after = report.verdicts.table["gap_s"], clean_tables(slow)[1]["gap_s"]
    assert before.null_count() > 0
    assert before.is_null().to_list() == after.is_null().to_list()


def test_without_a_difference_nothing_is_touched() -> None:
    report = step_report()
    rows, verdicts = clean_tables(report)
    assert rows is report.profile.kernels
    assert verdicts is report.verdicts.table


def test_the_page_is_in_clean_seconds_and_the_json_as_it_was_timed() -> None:
    report = live_report(6.0)
    reader = Reader(html_page(report))
    shown, text = reader.values(), "".join(reader.text)
    assert shown["measured_s"] == 6.0
    limiters = sum(v for k, v in shown.items() if k.startswith("by_limiter"))
    assert limiters == pytest.approx(5.0)
    assert "5.00 s in kernels" in text
    assert "idle: profiler" not in text
    times = msgspec.json.decode(reader.scripts[0])["runs"][0]["columns"]["time_s"]["v"]
    assert times == pytest.approx([3.0, 1.25, 0.7, 0.05])
    document = msgspec.json.decode(report.to_json())
    assert [row["time_s"] for row in document["kernels"]] == [6.0, 2.5, 1.4, 0.1]
    assert sum(document["totals"]["by_limiter"].values()) == pytest.approx(10.0)
    assert document["totals"]["idle_by_cause"]["profiler"] == 2.0


def test_the_gap_that_is_promised_fits_into_the_step() -> None:
    text = "".join(Reader(html_page(live_report(6.0))).text)
    assert "better kernels could bring back (" in text
    promised = float(text.split("bring back (")[1].split(" s)")[0])
    assert promised < 6.0


@pytest.mark.parametrize(
    ("clean_s", "words"),
    [
        (6.0, "The other 12.0 s are 6.00 s more than a clean step: this difference (see the note"),
        (15.0, "The other 12.0 s are 3.00 s less than a clean step: this difference (see the note"),
        (12.0, "left out, and the rest is as long as a clean step."),
    ],
)
def test_words_say_where_the_profiler_and_the_residual_are(clean_s: float, words: str) -> None:
    text = clean_words(live_report(clean_s))
    assert f"without instruments ({clean_s:.3g}" in text.replace(".00", "").replace(".0 s", " s")
    assert "the profiler's own 2.00 s are left out" in text
    assert words in text
    assert ("see the note on the residual" in text) == (clean_s != 12.0)


def test_without_a_note_the_words_name_the_residual() -> None:
    bare = replace(live_report(), notes=())
    assert "this difference, the residual, is shared out, every part times 0.5." in clean_words(
        bare
    )


def test_a_run_without_clean_steps_says_nothing_of_them() -> None:
    report = live_report()
    bare: Report = replace(report, totals=msgspec.structs.replace(report.totals, steps=None))
    assert clean_step(bare.totals) is None
    assert clean_words(bare) == ""
    assert "clean step" not in "".join(Reader(html_page(bare)).text).split("What the words")[0]


def test_every_view_for_people_shows_the_same_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    report = live_report(6.0)
    markdown = report_markdown([report], ["run"])
    notebook = "".join(Reader(notebook_html(report)).text)
    print_gaps(report)
    terminal = capsys.readouterr().err
    for text in (markdown, notebook, terminal):
        assert "3.00 s" in text
        assert "1.25 s" in text
        assert "2.50 s" not in text
    assert "those of a clean step" in markdown
    assert "those of a clean step" in notebook


def test_the_headline_counts_in_words_of_one_and_many() -> None:
    report = live_report()
    hints = {card.key: card.hint for card in cards(report)}
    assert hints["measured_s"] == "without instruments; 20 steps seen; 4 rows, 4 launches"
    one = msgspec.structs.replace(report.totals, steps=Steps(count=1, clean_s=6.0), launches=1.0)
    hints = {card.key: card.hint for card in cards(replace(report, totals=one))}
    assert hints["measured_s"] == "without instruments; 1 step seen; 4 rows, 1 launch"
    # Kernels alone in clean seconds too: twice what was timed.
    assert report.totals.kernel_efficiency is not None
    assert run_payload(report, "r")["clean_scale"] == pytest.approx(0.5)


def test_parts_say_what_they_sum_to() -> None:
    assert sum_text(limiter_parts(live_report(6.0).totals)) == "5.00 s"
    assert sum_text([]) == ""
