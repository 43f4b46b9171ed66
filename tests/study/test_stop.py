"""An interruption of a study says what is kept and how to go on, whenever it comes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from timeroof.cli.main import listen
from timeroof.cli.study_cases import InterruptedStudyError, Stage, stoppable
from timeroof.study.case import Case, Result
from timeroof.study.store import Kept, Store


def store_with(path: Path, count: int) -> Path:
    case = Case(kernel="gemm", params={}, pass_name="forward")
    with Store(path) as store:
        for n in range(count):
            done = Result(case=case, status="done", samples_s=[1.0])
            store.keep(Kept(case_key=f"key{n}", result=done))
    return path


def test_before_anything_is_measured() -> None:
    assert "before any case was measured" in Stage().error().message


@pytest.mark.parametrize(
    ("kept", "fresh", "told"),
    [
        (0, True, "before any of 3 cases was measured; run the same command again"),
        (1, False, "1 of 3 cases are kept"),
        (2, False, "the same command with --resume measures the rest"),
        (2, True, "with --resume in place of --fresh measures the rest"),
        (3, False, "with --resume writes the report"),
        (3, True, "with --resume in place of --fresh writes the report"),
    ],
)
def test_what_is_left_to_do(tmp_path: Path, kept: int, fresh: bool, told: str) -> None:
    path = store_with(tmp_path / "a.sqlite", kept)
    message = Stage(fresh, path, ["key0", "key1", "key2"]).error().message
    assert told in message
    assert ("measures the rest" in message) == (0 < kept < 3)


def test_a_store_that_was_never_made_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    assert "before any case was" in Stage(store=path, keys=["a"]).error().message
    assert not path.exists()


def _signalled(number: signal.Signals, *, swallowed: bool) -> None:
    try:
        signal.raise_signal(number)
    except KeyboardInterrupt:
        if not swallowed:
            raise


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("swallowed", [False, True])
def test_signals_end_with_130_also_where_a_callback_swallows_them(
    number: signal.Signals, swallowed: bool
) -> None:
    found = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    listen()
    before = {n: signal.getsignal(n) for n in found}
    try:
        with pytest.raises(InterruptedStudyError) as caught, stoppable(Stage()):
            _signalled(number, swallowed=swallowed)
        assert caught.value.exit_code == 130
        assert {n: signal.getsignal(n) for n in found} == before
    finally:
        listen()
        for each, handler in found.items():
            signal.signal(each, handler)
