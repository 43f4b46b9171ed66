"""Kills at random moments over outputs that exist: each is the whole old or the whole new one."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import time
import zipfile
from pathlib import Path

import pytest

from tests.faults.started import Started, write_trace
from tests.live.live_programs import MACHINE

pytestmark = pytest.mark.long
# `make faults` asks for moments of each kind: three times this many.
KILLS = 20 * int(os.environ.get("TIMEROOF_FAULTS", "1"))
# A study of few cases takes about this long.
LATEST_S = 6.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kills")
    write_trace(folder / "trace.json", 1500)
    (folder / "toy.toml").write_text(MACHINE)
    return folder


WORDS = ("read", "trace.json", "--out", "out", "--html", "page.html", "--save", "kept.troof")


def _killed(place: Path, chance: random.Random, latest_s: float, *words: str) -> bool:
    """Whether the kill met it: it may have come to its end before."""
    started = Started.of(place, *words)
    try:
        began_s, wait_s = time.monotonic(), chance.uniform(0.1, latest_s)
        while started.process.poll() is None and time.monotonic() < began_s + wait_s:
            time.sleep(0.005)
        met = started.process.poll() is None
        started.process.send_signal(chance.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)))
        assert not started.gone_after()
        return met
    finally:
        started.end()
        shutil.rmtree(started.temporary)


def _whole(path: Path) -> bool:
    if path.suffix == ".json":
        return bool(json.loads(path.read_text())["schema"])
    if path.suffix == ".troof":
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    if path.suffix == ".html":
        return path.read_text("utf-8").rstrip().endswith("</html>")
    return path.stat().st_size > 0


def test_outputs_are_whole_after_kills(place: Path) -> None:
    began_s = time.monotonic()
    first = Started.of(place, *WORDS)
    assert first.process.wait(300) == 0
    latest_s = time.monotonic() - began_s
    outputs = [*(place / "out").iterdir(), place / "page.html", place / "kept.troof"]
    assert len(outputs) == 7
    chance = random.Random(time.time_ns())
    met = 0
    while met < KILLS:
        met += _killed(place, chance, latest_s, *WORDS)
        assert all(_whole(path) for path in outputs)


def test_stores_resume_after_kills(place: Path) -> None:
    pytest.importorskip("torch")
    sizes = ",".join(str(1 << p) for p in range(4, 12))
    words = ("study", "elementwise", "--set", f"elements={sizes}", "--pass", "forward", "--quick",
             "--machine", "toy.toml", "--db", "study.sqlite", "--resume")  # fmt: skip
    chance = random.Random(time.time_ns())
    for _ in range(max(2, KILLS // 8)):
        _killed(place, chance, LATEST_S, *words)
        if (place / "study.sqlite").exists():
            with sqlite3.connect(place / "study.sqlite") as sql:
                assert sql.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            sql.close()
    last = Started.of(place, *words)
    assert last.process.wait(300) == 0, (place / "said").read_text()
    with sqlite3.connect(place / "study.sqlite") as sql:
        found = sql.execute("SELECT status, count(*) FROM cases GROUP BY status").fetchall()
    sql.close()
    assert found == [("done", 8)]
