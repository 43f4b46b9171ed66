"""A study on a Dask cluster: every case once, with its node, whatever worker dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from timeroof.core.engines import DaskCluster, Here
from timeroof.study.case import QUICK, Case
from timeroof.study.cluster import node_notes, run_on_nodes
from timeroof.study.store import Store

pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def cases(count: int) -> list[Case]:
    sizes = [{"elements": 64 * (i + 1), "op": "add"} for i in range(count)]
    return [Case(kernel="elementwise", params=size, pass_name="forward") for size in sizes]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    started = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    yield started
    started.close()


def test_a_killed_worker_loses_no_case_and_doubles_none(cluster: Any, tmp_path: Path) -> None:
    asked, told = cases(24), []
    pids = [worker.process.pid for worker in cluster.workers.values()]

    def kill_one() -> None:
        while len(told) < 4:
            time.sleep(0.05)
        os.kill(pids[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    with Store(tmp_path / "store.sqlite") as store:
        engine = DaskCluster(cluster.scheduler_address)
        done = run_on_nodes(asked, store, QUICK, engine, told.append)
        kept = store.read()
    killer.join()
    assert [r.status for r in done.results] == ["done"] * 24
    assert len(kept) == 24
    assert all(k.machine and k.result.labels["node"] for k in kept)


def test_cases_that_any_node_has_measured_are_not_measured_again(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        run_on_nodes(cases(2), store, QUICK, Here(), lambda _: None)
        done = run_on_nodes(cases(3), store, QUICK, Here(), lambda _: None)
        assert (len(done.results), done.found) == (3, 2)
        assert node_notes(store, done.results, store.read()[0].machine) == []
        (note,) = node_notes(store, done.results, "another computer")
    assert note.code == "other-nodes"
