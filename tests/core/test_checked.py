"""What a profile says beside its rows is refused where it cannot be true."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from timeroof.core.checked import checked_whole, in_utf8
from timeroof.core.errors import InputError, reading
from timeroof.core.profile import Profile, Source, SourceFile, Steps
from timeroof.core.run_file import SavedRun, load_run, save_run

ROWS = [{"name": "a", "time_s": 1.0}, {"name": "b", "time_s": 2.0}]
TIMELINE = {"start_s": [0.0, 1.0], "duration_s": [1.0, 2.0], "kernel": [0, 1]}


def profile(**whole: object) -> Profile:
    return Profile.of(ROWS, Source(tool="test"), **whole)


def timeline(**columns: object) -> pl.DataFrame:
    return pl.DataFrame(TIMELINE | columns)


@pytest.mark.parametrize(
    ("whole", "message"),
    [
        ({"wall_s": float("nan")}, "wall_s is nan"),
        ({"wall_s": -1.0}, "wall_s is -1.0"),
        ({"kernel_s": 1e300}, "kernel_s is 1e"),
        ({"idle_by_cause": {"data": float("inf")}}, "idle data is inf"),
        ({"threads": -3}, "threads is -3"),
        ({"steps": Steps(count=2, samples=[1.0, float("nan")])}, "a step's seconds is nan"),
        ({"timeline": timeline(duration_s=[1.0, -2.0])}, "duration_s has -2.0"),
        ({"timeline": timeline(start_s=[0.0, float("inf")])}, "start_s has inf"),
        ({"timeline": timeline(duration_s=[1.0, None])}, "duration_s has no value"),
        ({"timeline": timeline(kernel=[0, 7])}, "row 7, which is not there"),
        ({"timeline": timeline(start_s=["now", "then"])}, "another type"),
        ({"timeline": timeline(start_s=[{"a": 0.0}, {"a": 1.0}])}, "'start_s' is Struct"),
        ({"timeline": timeline().drop("duration_s")}, "no column 'duration_s'"),
        ({"rungs": pl.DataFrame({"name": ["fused"], "flop/fp32": [-1.0]})}, "flop/fp32 has -1.0"),
        ({"rungs": pl.DataFrame({"flop/fp32": [1.0]})}, "no column 'name'"),
    ],
)
def test_what_cannot_be_true_is_refused_with_its_name(
    whole: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        checked_whole(profile(**whole), "file")
    if not {"timeline", "rungs", "threads"} & set(whole):
        return
    path = tmp_path / "a.troof"
    save_run(SavedRun(profile(**whole), machine=None), path)
    with pytest.raises(InputError, match=message):
        load_run(path)


def test_what_can_be_true_stays() -> None:
    given = profile(wall_s=4.0, kernel_s=3.0, timeline=timeline(), idle_by_cause={"data": -1e-12})
    found = checked_whole(given, "file")
    assert found.timeline is not None
    assert found.timeline.columns == ["start_s", "duration_s", "stream", "kernel", "idle_cause"]
    assert found.wall_s == 4.0


def test_a_saved_run_is_not_busier_than_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.troof"
    save_run(SavedRun(profile(kernel_s=30.0), machine=None), path)
    with pytest.raises(InputError, match="kernel_s is 30 s, its rows take 3 s"):
        load_run(path)


def test_names_that_are_not_utf8_can_be_written() -> None:
    strange = Source(tool="t", files=[SourceFile(name="a\udcff.json")])
    found = in_utf8(replace(profile(notes=("b\udcfe",)), source=strange))
    assert (found.source.files[0].name, list(found.notes)) == ("a?.json", ["b?"])


@pytest.mark.parametrize(
    "error", [OverflowError("int too large"), RecursionError("deep"), MemoryError(), KeyError("x"),
              pl.exceptions.PanicException("panic"), AssertionError()],
)  # fmt: skip
def test_whatever_reading_raises_is_one_sentence(error: BaseException) -> None:
    with pytest.raises(InputError) as caught, reading("file", "trace", "record it again"):
        raise error
    assert caught.value.message.startswith("file: ")


def test_messages_stay_short_whatever_a_file_says() -> None:
    error = InputError("w" * 5000, where="/long" * 1000, advice="a" * 5000)
    assert len(error.message) < 1000
