"""Words with one meaning, and what is kept of those that files say."""

from __future__ import annotations

from timeroof.core.vocabulary import LONGEST_REMEMBERED, remembered
from timeroof.work.recorded import LONGEST_WORD, call_from_kineto


def test_answers_about_texts_of_no_sensible_length_are_not_kept() -> None:
    asked: list[str] = []

    @remembered(10)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    long = "x" * (LONGEST_REMEMBERED + 1)
    assert [length(t) for t in ("a", "a", long, long)] == [1, 1, len(long), len(long)]
    assert asked == ["a", long, long]


def test_a_recorded_call_holds_no_text_of_megabytes() -> None:
    long = "x" * 10**6
    args = {"Input Dims": [[2, 3], []], "Input type": [long, ""], "Concrete Inputs": ["", long]}
    for more in ({}, {"Collective name": long, "dtype": long, "In msg nelems": 3}):
        assert len(repr(call_from_kineto(long, args | more))) < 5 * LONGEST_WORD
