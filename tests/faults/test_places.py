"""Places that cannot be written, are full, or are no files: the report is whole, a note says more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.live_programs import MACHINE, MODEL
from timeroof.core.files import kept, why_not_kept
from timeroof.probe.measure import load, path_of

COMMAND = [sys.executable, "-m", "timeroof"]
STEPS = MODEL + "for _ in range(12): step()\n"


def in_namespace(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A shell script with mounts of its own; skipped where the system allows none."""
    unshare = ["unshare", "-rm"]
    if (
        not shutil.which("unshare")
        or subprocess.run(
            [*unshare, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("no mounts without a privilege here")
    return subprocess.run(
        [*unshare, "sh", "-ec", script], cwd=folder, env=os.environ | variables, text=True,
        capture_output=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text("name,time_s\ngemm,1\n")
    (tmp_path / "toy.toml").write_text(MACHINE)
    return tmp_path


@pytest.mark.parametrize("home", ["a file", "absent", "a pipe", "no HOME"])
def test_a_file_is_read_whatever_the_cache_is(rows: Path, home: str) -> None:
    place = rows / "home"
    around = {k: v for k, v in os.environ.items() if k not in ("HOME", "TIMEROOF_HOME")}
    if home == "a file":
        place.touch()
        around["TIMEROOF_HOME"] = str(place)
    elif home == "a pipe":
        (place / "cache").mkdir(parents=True)
        os.mkfifo(place / "cache" / "event-costs-2.json")
        around["TIMEROOF_HOME"] = str(place)
    elif home == "absent":
        around["HOME"] = "/nonexistent"
    words = ["read", "rows.csv", "--machine", "toy.toml", "--html", "page.html"]
    done = subprocess.run(
        [*COMMAND, *words], cwd=rows, env=around, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "<html" in (rows / "page.html").read_text("utf-8")


def test_a_pipe_in_the_place_of_a_kept_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIMEROOF_HOME", str(tmp_path))
    assert kept("thing", "key", lambda: b"made") == b"made"
    (file,) = (tmp_path / "cache").iterdir()
    file.unlink()
    os.mkfifo(file)
    assert kept("thing", "key", lambda: b"again") == b"again"
    assert kept("thing", "key", lambda: b"never") == b"again"
    os.mkfifo(file.parent / "measured")
    path = path_of("0" * 16, quick=True)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    found, why = load("0" * 16, quick=True)
    assert found is None
    assert "is no regular file" in str(why)


def test_a_folder_that_takes_nothing_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert why_not_kept([tmp_path / "new" / "folder"]) is None
    assert "file/inside cannot be written" in str(why_not_kept([tmp_path / "file" / "inside"]))


@pytest.mark.slow
def test_a_run_without_a_place_to_keep_things_is_whole_and_says_so(rows: Path) -> None:
    (rows / "train.py").write_text(STEPS)
    (rows / "home").touch()
    done = subprocess.run(
        [*COMMAND, "run", "--html", "page.html", "--json", "report.json", "train.py"], cwd=rows,
        env=os.environ | {"TIMEROOF_HOME": str(rows / "home")}, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads((rows / "report.json").read_text())
    assert report["machine"]["ceilings"]
    assert report["totals"]["bound_s"] > 0
    notes = [n["text"] for n in report["notes"] if n["code"] == "nothing-kept"]
    assert len(notes) == 1
    assert "were not kept" in notes[0]


FULL = """
mkdir full
mount -t tmpfs -o size=48k none full
cp rows.csv toy.toml full/
head -c 100000 /dev/zero > full/filler 2>/dev/null || true
{python} -m timeroof read rows.csv --machine toy.toml --html page.html
echo old > full/page.html || true
{python} -m timeroof read rows.csv --machine toy.toml --html full/page.html || echo code $?
ls -A full
"""


def test_a_full_disk_costs_what_would_have_been_kept_and_no_output_of_before(rows: Path) -> None:
    script = FULL.format(python=sys.executable)
    done = in_namespace(script, rows, TIMEROOF_HOME=str(rows / "full" / "home"))
    assert done.returncode == 0, done.stderr
    assert (rows / "page.html").stat().st_size > 10_000
    assert "code 2" in done.stdout
    assert "cannot be written (No space left on device)" in done.stderr
    assert ".page.html" not in done.stdout


READ_ONLY = """
mkdir -p /dev/shm
mount -t tmpfs none /dev/shm
mkdir /dev/shm/out
for place in / /tmp /var/tmp /usr/tmp "$PWD"; do
    test -d "$place" || continue
    mount --bind "$place" "$place" && mount -o remount,bind,ro "$place" || true
done
cd {folder}
{python} -m timeroof run --machine toy.toml --html /dev/shm/out/page.html --json /dev/shm/out/r.json train.py
{python} -m timeroof read rows.csv --machine toy.toml --json -
ls /dev/shm
cat /dev/shm/out/r.json
"""


@pytest.mark.slow
def test_a_read_only_system_has_reports(rows: Path) -> None:
    (rows / "train.py").write_text("print('ran')\n")
    done = in_namespace(READ_ONLY.format(python=sys.executable, folder=rows), rows)
    assert done.returncode == 0, done.stderr
    assert "ran" in done.stdout
    assert "timeroof-" not in done.stdout
    assert '"nothing-measured"' in done.stdout
