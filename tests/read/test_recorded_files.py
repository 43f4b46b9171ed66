"""Every recorded file, whatever was added to the folder: read and judged, or refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recorded_data import DATA, LOOKED_AT, files, needs_recorded_data, place
from timeroof.api.reports import load
from timeroof.core.errors import InputError, TimeroofError
from timeroof.core.report import Report
from timeroof.core.run_file import SavedRun, load_run, save_run
from timeroof.read.formats import sniffed
from timeroof.read.load import read_files
from timeroof.read.open import open_input

pytestmark = needs_recorded_data

REFUSED = "refused: "


def format_of(path: Path) -> str | None:
    try:
        chosen = sniffed(open_input(path))
    except InputError:
        return None
    return chosen.name if chosen else None


def judged(path: Path) -> tuple[Report | None, str]:
    """The report, or None and why not."""
    try:
        return load(path), ""
    except TimeroofError as error:
        return None, error.message


NAMED = [name for name in LOOKED_AT if (DATA / name).is_file()]


@pytest.mark.parametrize("name", [n for n in NAMED if not LOOKED_AT[n].startswith(REFUSED)])
def test_a_file_that_was_looked_at_is_read(name: str, tmp_path: Path) -> None:
    assert format_of(DATA / name) == LOOKED_AT[name]
    profile = read_files([DATA / name])
    assert profile.kernels["calls"].sum() >= 1
    save_run(SavedRun(profile, None), tmp_path / "run.troof")
    assert load_run(tmp_path / "run.troof").profile.kernels.equals(profile.kernels)


@pytest.mark.parametrize("name", [n for n in NAMED if LOOKED_AT[n].startswith(REFUSED)])
def test_a_file_without_timed_kernels_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(InputError, match=LOOKED_AT[name].removeprefix(REFUSED)):
        read_files([DATA / name])


@pytest.mark.parametrize("path", [p for p in files() if place(p) not in LOOKED_AT], ids=place)
def test_any_other_file_is_judged_or_refused_in_one_line(path: Path) -> None:
    report, refusal = judged(path)
    if report is None:
        assert path.name in refusal
        assert "\n" not in refusal
        return
    times = report.profile.kernels["time_s"]
    assert sum(report.totals.by_limiter.values()) == pytest.approx(times.sum())
    assert report.to_json().startswith(b'{"schema":"timeroof.report/2"')


@pytest.mark.parametrize("folder", ["nsys", "xla"])
def test_content_decides_the_format_not_the_name(folder: str, tmp_path: Path) -> None:
    for path in files(f"{folder}/**/*"):
        blind = tmp_path / "file"
        blind.write_bytes(path.read_bytes())
        assert format_of(blind) == format_of(path)
