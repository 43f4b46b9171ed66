"""What a live run says of its own noise."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.live.test_cutting import timed
from timeroof.live.accounting import Balance, contention_note, waiting_share
from timeroof.live.building import notes_of
from timeroof.live.frameworks import Framework
from timeroof.live.recording import Described, Recording


@pytest.mark.parametrize(("unmatched", "words"), [(0, ""), (4, ""), (5, "0.1%"), (500, "5.0%")])
def test_ops_without_a_description_are_named_where_they_are_not_nothing(
    unmatched: int, words: str
) -> None:
    op = Described("aten::add", None, 1, -1, 0, "", (), ())
    rows = SimpleNamespace(unmatched=unmatched, events=10_000, keys=[], fused={})
    recording = Recording(timed=[timed([("aten::add", 10, 60, 1)])], described=[op])
    notes = notes_of(recording, rows, Balance(None, 1.0, 0.0, None), Framework())  # type: ignore[arg-type]
    found = [note for note in notes if "counterpart" in note]
    assert [note.split(" ")[0] for note in found] == ([words] if words else [])


def test_without_an_unprofiled_step_the_corrected_one_is_the_step() -> None:
    found = Balance(None, 1.0, 0.25, None)
    assert (found.wall_s, found.corrected_s) == (0.75, 0.75)


def test_waiting_for_a_cpu_is_summed_over_threads() -> None:
    assert waiting_share({}) is None
    assert waiting_share({1: (900, 50), 2: (0, 50), 3: (0, 0)}) == pytest.approx(0.1)


def test_a_word_only_where_others_had_the_cpus() -> None:
    assert contention_note(0.049) is None
    assert "waited 10 % of its time" in (contention_note(0.1) or "")
