"""What a live run says of its own noise."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.test_cutting import timed
from timeroof.live.balance import Balance
from timeroof.live.building import notes_of
from timeroof.live.contention import contention_note, waiting_share
from timeroof.live.torch.recording import CleanStep, Described, Recording
from timeroof.live.torch.sampling import slow_clean_note


@pytest.mark.parametrize(
    ("residual_s", "error_s", "expected"),
    [
        (-2.4e-3, 1e-3, "a clean step is 2.4 ms shorter (24.0% ± 10.0%) than a timed one"),
        (2.4e-3, None, "a clean step is 2.4 ms longer (24.0%) than a timed one"),
        (2.4e-3, 5e-3, "is 2.4 ms longer (24.0% ± 50.0%)"),
        (2.4e-3, 5.1e-3, "too few steps were seen, or too noisy ones"),
    ],
)
def test_the_residual_is_a_sentence(
    residual_s: float, error_s: float | None, expected: str
) -> None:
    line = Balance(10e-3, 12e-3, 1e-3, 0.0, residual_s, error_s).line
    assert line is not None
    assert expected in line


@given(
    st.floats(1e-5, 1e3),
    st.floats(-1e-4, 1e-4) | st.floats(-0.4, 0.4),
    st.floats(-1e-4, 1e-4) | st.floats(-0.4, 0.4),
)
def test_what_rounds_to_nothing_is_not_a_number(
    clean_s: float, residual: float, faults: float
) -> None:
    """Both are given as shares of the step."""
    line = Balance(clean_s, clean_s, 0.0, faults * clean_s, residual * clean_s, None).line
    assert line is not None
    assert ("page faults" in line) == (abs(faults * clean_s) >= 0.0005 * clean_s)
    assert ("as long as a timed one" in line) == (abs(residual * clean_s) < 0.0005 * clean_s)
    assert "(0.0%)" not in line
    assert not re.search(r"\de[-+]\d", line)


def test_an_error_stays_where_the_difference_is_none() -> None:
    line = Balance(10e-3, 12e-3, 2e-3, 2.17e-19, 1e-9, 2e-4).line
    assert line == (
        "residual: a clean step is as long (± 2.0%) as a timed one without the profiler's cost"
    )


@pytest.mark.parametrize(("unmatched", "words"), [(0, ""), (4, ""), (5, "0.1%"), (500, "5.0%")])
def test_ops_without_a_description_are_named_where_they_are_not_nothing(
    unmatched: int, words: str
) -> None:
    op = Described("aten::add", None, 1, -1, 0, "", (), ())
    rows = SimpleNamespace(unmatched=unmatched, events=10_000, keys=[], fused={})
    recording = Recording(timed=[timed([("aten::add", 10, 60, 1)])], described=[op])
    notes = notes_of(recording, rows, Balance(None, 1.0, 0.0, 0.0, None, None))  # type: ignore[arg-type]
    found = [note for note in notes if "counterpart" in note]
    assert [note.split(" ")[0] for note in found] == ([words] if words else [])


def test_slow_clean_steps_are_told_in_readable_seconds() -> None:
    step = timed([("a", 10, 60, 1)])
    found = Recording(
        clean=[CleanStep(3_000_000_000 + n, 0) for n in range(4)],
        timed=[replace(step, finish_ns=2_000_000_000 + n) for n in range(4)],
    )
    assert "(3.000 s against 2.000 s, medians)" in (slow_clean_note(found) or "")


def test_no_clean_step_no_residual() -> None:
    assert Balance(None, 1.0, 0.0, 0.0, None, None).line is None


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
