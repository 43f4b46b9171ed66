"""What a live run says of its own noise."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.live.test_cutting import timed
from timeroof.core.errors import CROWDED
from timeroof.live.accounting import Balance, Look, contention_note, own_waiting, waiting_share
from timeroof.live.building import notes_of
from timeroof.live.frameworks import Framework
from timeroof.live.recording import Described, Recording
from timeroof_recorder.clocks import cpus_ns


@pytest.mark.parametrize(("unmatched", "words"), [(0, ""), (4, ""), (5, "0.1%"), (500, "5.0%")])
def test_ops_without_a_description_are_named_where_they_are_not_nothing(
    unmatched: int, words: str
) -> None:
    op = Described("aten::add", None, 1, -1, 0, "", (), ())
    rows = SimpleNamespace(unmatched=unmatched, events=10_000, keys=[], fused={})
    recording = Recording(timed=[timed([("aten::add", 10, 60, 1)])], described=[op])
    notes = notes_of(recording, rows, Balance(None, 1.0, 0.0, None), Framework())  # type: ignore[arg-type]
    found = [note for note in notes if "were not described" in note]
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


def test_threads_that_wait_for_one_another_are_no_other_programs() -> None:
    """A program of four threads on two CPUs: nobody else runs."""
    second = 10**9
    begin = Look({1: (0, 0), 2: (0, second)}, 100 * second, 50 * second)
    threads = dict.fromkeys((1, 3, 4), (second, second)) | {2: (second, 2 * second)}
    alone = Look(threads, 104 * second, 54 * second)
    assert own_waiting([begin, alone]) == 1
    beside = Look(threads, 107 * second, 54 * second)
    assert own_waiting([begin, begin, beside]) == 0.25
    crowd = Look(threads, 204 * second, 54 * second)
    assert own_waiting([begin, crowd]) == 0
    assert own_waiting([begin]) is None
    assert own_waiting([begin, begin]) is None  # nobody waited
    note = contention_note(0.4, 1.0)
    assert note is not None
    assert "they waited 40 % of their time for one another" in note
    assert (note.code, note.level) == (CROWDED, "info")
    assert "waited 20 % of its time" in (contention_note(0.4, 0.5) or "")


def test_what_the_cpus_of_a_process_ran_is_read(tmp_path: Path) -> None:
    plain = "".join(f"cpu{n} 1 2 3 1000 50 4 5 600 7 0\n" for n in range(1024))
    (tmp_path / "stat").write_text(f"cpu  9 9 9 9 9 9 9 9 9 9\n{plain}intr 9 9 9\n")
    found = cpus_ns(str(tmp_path / "stat"))
    assert found is not None
    assert found[0] == 15 * 10_000_000 * len(os.sched_getaffinity(0))
    assert found[1] > 0
    assert cpus_ns(str(tmp_path / "none")) is None
