"""What all tests share: the recorded data where it is there, and a small machine."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.recorded_data import DATA
from timeroof.core.machine import Ceiling, Machine, MemoryLevel
from timeroof.core.profile import Source

# Tests raise signals and start programs that get them. What starts the tests in the background (nohup,
# a CI's runner, `&`) may have had them ignored, and children inherit that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: shared machines stall. The same cases every time: a failure can be run again.
settings.register_profile("timeroof", deadline=None, derandomize=True)
settings.load_profile("timeroof")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not DATA.is_dir():
        pytest.skip(f"the recorded data is not here ({DATA})")
    return DATA


@pytest.fixture(autouse=True, scope="session")
def own_home_from_the_start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What fixtures of whole modules keep never touches what the user keeps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIMEROOF_HOME", str(tmp_path_factory.getbasetemp() / "home"))
        yield


@pytest.fixture(autouse=True)
def signals_of_its_own() -> Iterator[None]:
    """A signal that one test raises ends no command of the next."""
    yield
    if (process := sys.modules.get("timeroof.cli.main")) is not None:
        process._pressed.clear()


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements that tests make never touch those of the user."""
    monkeypatch.setenv("TIMEROOF_HOME", str(tmp_path_factory.getbasetemp() / "home"))


@pytest.fixture
def source() -> Source:
    return Source(tool="test")


def make_machine(**changes: object) -> Machine:
    """Round numbers: 100 FLOP/s, 200 tensor FLOP/s, 10 B/s, 40 B/s in L2, 0.1 s per launch."""
    values: dict[str, object] = {
        "name": "toy",
        "device": "Toy device",
        "ceilings": [
            Ceiling(resource="flop/fp32", rate=100.0, origin="measured"),
            Ceiling(resource="flop/fp16-tensor", rate=200.0, origin="measured"),
            Ceiling(resource="byte/l2", rate=40.0, origin="measured"),
            Ceiling(resource="byte/dram", rate=10.0, origin="measured"),
            Ceiling(resource="link/nvlink", rate=5.0, origin="datasheet"),
            Ceiling(resource="fault", rate=2.0, origin="measured"),
            Ceiling(resource="launch", rate=10.0, origin="measured"),
        ],
        "memory": [
            MemoryLevel(level="l2", size_bytes=50),
            MemoryLevel(level="dram", size_bytes=10**6),
        ],
    }
    return Machine(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture
def machine() -> Machine:
    return make_machine()


def texts(document: dict[str, Any]) -> list[str]:
    """The sentences of a report's notes."""
    return [note["text"] for note in document["notes"]]
