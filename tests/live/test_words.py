"""What a live run says of its own noise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.test_cutting import timed
from timeroof.live.accounting import Balance, contention_note, waiting_share
from timeroof.live.building import notes_of
from timeroof.live.torch.recording import CleanStep, Described, Recording
from timeroof.live.torch.schedule import slow_clean_note


@given(st.floats(1e-5, 1e3), st.floats(-1e-4, 1e-4) | st.floats(-0.4, 0.4))
def test_page_faults_are_named_where_they_show_beside_the_step(
    clean_s: float, faults: float
) -> None:
    line = Balance(clean_s, clean_s, 0.0, faults * clean_s, None).faults_line
    assert (line is not None) == (abs(faults * clean_s) >= 0.0005 * clean_s)
    assert line is None or ("more" in line) == (faults > 0)


@pytest.mark.parametrize(("unmatched", "words"), [(0, ""), (4, ""), (5, "0.1%"), (500, "5.0%")])
def test_ops_without_a_description_are_named_where_they_are_not_nothing(
    unmatched: int, words: str
) -> None:
    op = Described("aten::add", None, 1, -1, 0, "", (), ())
    rows = SimpleNamespace(unmatched=unmatched, events=10_000, keys=[], fused={})
    recording = Recording(timed=[timed([("aten::add", 10, 60, 1)])], described=[op])
    notes = notes_of(recording, rows, Balance(None, 1.0, 0.0, 0.0, None))  # type: ignore[arg-type]
    found = [note for note in notes if "counterpart" in note]
    assert [note.split(" ")[0] for note in found] == ([words] if words else [])


def test_slow_clean_steps_are_told_in_readable_seconds() -> None:
    step = timed([("a", 10, 60, 1)])
    found = Recording(
        clean=[CleanStep(3_000_000_000 + n, 0) for n in range(4)],
        timed=[replace(step, finish_ns=2_000_000_000 + n) for n in range(4)],
    )
    assert "(3.000 s against 2.000 s, medians)" in (slow_clean_note(found) or "")


def test_without_an_unprofiled_step_the_corrected_one_is_the_step() -> None:
    found = Balance(None, 1.0, 0.25, 0.0, None)
    assert (found.wall_s, found.unexplained_s, found.faults_line) == (0.75, None, None)


def test_waiting_for_a_cpu_is_summed_over_threads(tmp_path: Path) -> None:
    assert waiting_share(tmp_path) is None
    for number, text in enumerate(("900 50 3\n", "0 50 1\n", "gone\n", "")):
        folder = tmp_path / f"proc/self/task/{number}"
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(text)
    assert waiting_share(tmp_path) == pytest.approx(0.1)


def test_a_word_only_where_others_had_the_cpus() -> None:
    assert contention_note(0.049) is None
    assert "waited 10% of their time" in (contention_note(0.1) or "")
