"""How the first screen reads: no codes in prose, no phrase that we gave up, short sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.views.live_sample import live_report
from tests.views.samples import step_report
from timeroof.api.reports import analyze, load
from timeroof.core.profile import Profile, Source
from timeroof.core.report import Report
from timeroof.views import parts as words
from timeroof.views.overview import overview, word_count
from timeroof.views.run_summary import print_run

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "live"
# Grows: what nobody says (guide: subject, verb, number, unit; the field's own words).
BANNED = (
    "come back", "bring back", "bound by being", "is told", "not told", "cannot be told", "said",
    "judge", "clean step", "let go", "seconds order", "rows that", "limits broken", "BROKEN",
)  # fmt: skip
CODE = re.compile(r"\b(?:flop|byte|link|hop|pipe)/\w|\bfault\b")
LONGEST = 25


def dark() -> Report:
    """A run of which nothing is known but its time."""
    return analyze(Profile.of([{"name": "k", "time_s": 1e-3}], Source(tool="t")), "h100-sxm")


def nameless() -> Report:
    return analyze(Profile.of([{"name": "k", "time_s": 1e-3}], Source(tool="t")))


RUNS = {
    "step": step_report,
    "live": live_report,
    "slower when profiled": lambda: live_report(9.0),
    "unknown work": dark,
    "no machine": nameless,
    **{path.stem: (lambda path=path: load(path)) for path in sorted(GOLDEN.glob("*.troof"))},
}


def texts(report: Report) -> list[str]:
    """What we write on the first screen; findings have tests of their own."""
    seen = overview(report)
    parts = [text for part in seen.parts for text in (part.label, part.subject)]
    causes = [cause.label for part in seen.parts for cause in part.causes]
    own = [seen.sentence, seen.potential, seen.counted, seen.together, seen.overlap, seen.nothing]
    doubts = [text for doubt in seen.doubts for text in (doubt.text, doubt.advice)]
    return [*own, *parts, *causes, *doubts, *(line.limit_word for line in seen.kernels)]


@pytest.mark.parametrize("name", RUNS)
def test_no_code_no_banned_phrase_and_no_long_sentence(name: str) -> None:
    for text in texts(RUNS[name]()):
        assert not CODE.search(text), text
        assert not [phrase for phrase in BANNED if phrase.lower() in text.lower()], text
        for sentence in re.split(r"(?<=[.;])\s", text):
            assert word_count(sentence) <= LONGEST, sentence


def test_every_class_of_time_has_words_on_a_device_and_on_a_host() -> None:
    assert set(words.DEVICE_WORDS) == set(words.HOST_WORDS)
    for table in (words.DEVICE_WORDS, words.HOST_WORDS):
        for part in table.values():
            assert part.subject[0].isupper()
            assert part.verb in ("take", "takes")
            assert not CODE.search(f"{part.label} {part.subject}")


def test_the_terminal_says_what_to_do_below_each_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = overview(step_report())
    assert seen.actions
    for width in ("200", "80"):
        monkeypatch.setenv("COLUMNS", width)
        print_run(step_report())
        said = " ".join(capsys.readouterr().err.split())
        for action in seen.actions:
            assert said.index(action.title.split(":")[0]) < said.index(action.how.split()[0])
            if width == "200":
                assert action.how.replace("`", "") in said


@pytest.mark.parametrize("name", RUNS)
def test_reasons_on_the_first_screen_are_whole_sentences(name: str) -> None:
    for action in overview(RUNS[name]()).actions:
        assert action.reason.endswith(".")
        assert "Largest:" not in action.reason
        assert action.why.startswith(action.reason)


def test_what_gains_next_to_nothing_is_not_done_first() -> None:
    for name, made in RUNS.items():
        seen = overview(made())
        assert all(a.gain_s >= 0.01 * (seen.time_s or 0.0) for a in seen.actions[1:]), name
