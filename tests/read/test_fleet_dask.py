"""The same files through a real Dask cluster: equal rows, a killed worker, clear refusals."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.read.test_fleet import MANY, write_ranks
from timeroof.api.reports import load
from timeroof.core import engines
from timeroof.core.engines import DaskCluster
from timeroof.core.errors import UsageError
from timeroof.read.fleet import Fleet

distributed = pytest.importorskip("distributed", reason="Dask is not installed")
# Dask's own threads and sockets end when they like.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    started = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    yield started
    started.close()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIMEROOF_HOME", str(tmp_path / "home"))


def test_a_cluster_reads_what_one_process_reads(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_ranks(tmp_path / "run", MANY)
    alone = load(folder).rows
    monkeypatch.setenv("TIMEROOF_HOME", str(tmp_path / "another"))
    there = load(folder, fleet=Fleet(scheduler=cluster.scheduler_address)).rows
    assert there.equals(alone)


def die_once(order: tuple[str, int]) -> int:
    folder, number = order
    seen = Path(folder) / str(number)
    if number == 2 and not seen.exists():
        seen.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_killed_worker_costs_nothing_but_time(cluster: Any, tmp_path: Path) -> None:
    orders = [(str(tmp_path), number) for number in range(8)]
    answers = DaskCluster(cluster.scheduler_address).map(die_once, orders)
    assert sorted(a.value for a in answers if a.value is not None) == list(range(8))


def test_a_node_that_does_not_see_a_file_is_a_note(cluster: Any, tmp_path: Path) -> None:
    """As a folder that only one node has: the file goes after the driver has looked at it."""
    folder = write_ranks(tmp_path / "run", MANY)
    gone = folder / "rank0003.csv"

    class Vanishing(DaskCluster):
        def map(self, function: Any, orders: Any) -> Any:
            gone.unlink()
            return super().map(function, orders)

    asked = Fleet(scheduler=cluster.scheduler_address)
    object.__setattr__(asked, "engine", lambda _orders: Vanishing(asked.scheduler))
    report = load(folder, fleet=asked)
    (note,) = [str(n) for n in report.notes if n.code == "files-left-out"]
    assert "rank0003.csv" in note
    assert len(report.profile.ranks) == MANY - 1


def test_other_versions_on_a_node_are_refused(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The nodes answer for themselves: only this computer believes to be another.
    monkeypatch.setattr(engines, "VERSION", "99")
    with pytest.raises(UsageError, match=r"has timeroof .*, this computer timeroof 99"):
        list(DaskCluster(cluster.scheduler_address).map(die_once, []))


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:9", "nonsense://x", "tcp://", "head", "http://127.0.0.1:9"]
)
def test_no_scheduler_at_the_address_is_one_sentence(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "CONNECT_S", 1)
    with pytest.raises(UsageError, match="no Dask scheduler answers at"):
        list(DaskCluster(address).map(die_once, [("", 0)]))


def test_a_slurm_that_does_not_answer_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="Slurm's sbatch is not on this computer"):
        DaskCluster(slurm="nodes=2").check()
    for name in ("sbatch", "sinfo"):
        (tmp_path / name).write_text("#!/bin/sh\necho could not connect >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(UsageError, match=r"Slurm does not answer \(could not connect\)"):
        DaskCluster(slurm="nodes=2").check()


def test_without_dask_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match="Dask is not installed"):
        list(DaskCluster("tcp://127.0.0.1:9").map(die_once, [("", 0)]))
