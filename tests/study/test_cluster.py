"""A study on a Dask cluster: every case once, on its node's ceilings, whatever worker dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conftest import make_machine
from timeroof.core.engines import Answer, DaskCluster, Failure, Here
from timeroof.core.machine import Machine
from timeroof.study.case import QUICK, Case, Result
from timeroof.study.cluster import Measured, Turn, on_any_node, run_on_nodes, where_cases_ran
from timeroof.study.grid import all_cores, grid_cases
from timeroof.study.judged_cases import sweeps
from timeroof.study.report import Study, judged_study
from timeroof.study.run import Place
from timeroof.study.store import Store

PLAN = msgspec.structs.replace(QUICK, warmup_s=0.02, budget_s=0.1, least=3)
PLACE = on_any_node(Place(None, "this computer", "torch 0"))
FAST = make_machine()
SLOW = make_machine(ceilings=[msgspec.structs.replace(c, rate=c.rate / 4) for c in FAST.ceilings])


def cases(count: int) -> list[Case]:
    """Cases in turns of four: a kernel's passes are not compared with one another."""
    sizes: dict[str, dict[str, Sequence[int]]] = {
        "elementwise": {"elements": [64, 128, 256, 512]}, "gemm": {"m": [8, 16, 24, 32]},
        "softmax": {"rows": [8, 16, 24, 32]},
    }  # fmt: skip
    found = [
        grid_cases(kernel, sweeps=sweep, passes=[pass_name])[:4]
        for pass_name in ("forward", "backward")
        for kernel, sweep in sizes.items()
    ]
    return [case for turn in found for case in turn][:count]


class Nodes:
    """Two nodes of different hardware, which have measured what they are given."""

    def __init__(self, failing: int | None = None) -> None:
        self.failing = failing

    def map(
        self, function: Callable[[Turn], Measured], orders: Sequence[Turn]
    ) -> Iterator[Answer[Measured]]:
        for index, turn in enumerate(orders):
            if index == self.failing:
                yield Answer(index, None, Failure("its process died"))
                continue
            node, kind, machine = [("n1", "big", FAST), ("n2", "small", SLOW)][index % 2]
            results = [
                Result(
                    case=msgspec.structs.replace(case, threads=8), status="done",
                    samples_s=[10.0] * 3, launches=0.0,
                    amounts={"flop/fp32": 100.0, "byte/dram": 1.0},
                    labels={"node": node, "machine": kind},
                )
                for case in turn.cases
            ]  # fmt: skip
            yield Answer(index, Measured(results, node, kind, "torch 0", machine))


def studied(path: Path, count: int, engine: Nodes) -> tuple[Study, list[Result]]:
    with Store(path) as store:
        done = run_on_nodes(cases(count), store, PLACE, QUICK, engine, lambda _: None)
        on = where_cases_ran(store, done.results, None)
    study = judged_study(done.results, on.machine, notes=on.notes, by_node=on.by_node)
    return study, done.results


def test_every_case_is_judged_on_the_ceilings_of_its_own_node(tmp_path: Path) -> None:
    study, _ = studied(tmp_path / "store.sqlite", 12, Nodes())
    bounds = {
        (row["label.node"], row["label.machine"]): row["bound_s"]
        for row in study.report.rows.iter_rows(named=True)
    }
    # 100 FLOPs at 100 a second on one node, at 25 on the other.
    assert bounds == {("n1", "big"): pytest.approx(1.0), ("n2", "small"): pytest.approx(4.0)}
    assert study.report.machine == FAST  # eight of twelve cases ran on it
    (note,) = [n for n in study.report.notes if n.code == "other-nodes"]
    assert "2 kinds of machine: big (8 cases), small (4 cases)" in note


def test_cases_of_different_hardware_are_in_no_sweep_together(tmp_path: Path) -> None:
    study, results = studied(tmp_path / "store.sqlite", 4, Nodes())
    (whole,) = sweeps(study.rows, "elementwise")
    assert len(whole.rows) == 4
    moved = [
        msgspec.structs.replace(r, labels={"node": "n2", "machine": "small"}) if n > 1 else r
        for n, r in enumerate(results)
    ]
    both = {("n1", "big"): FAST, ("n2", "small"): SLOW}
    parts = sweeps(judged_study(moved, FAST, by_node=both).rows, "elementwise")
    assert sorted((len(p.rows), p.rows[0].machine) for p in parts) == [(2, ""), (2, "small")]


def test_nodes_of_the_same_hardware_need_no_word(tmp_path: Path) -> None:
    study, _ = studied(tmp_path / "store.sqlite", 4, Nodes())
    assert not [n for n in study.report.notes if n.code == "other-nodes"]
    assert {row.machine for row in study.rows} == {""}


def test_what_no_node_measured_is_a_failure_and_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    study, _ = studied(path, 12, Nodes(failing=1))
    assert [f.error for f in study.failures] == ["no node measured it: its process died"] * 4
    study, results = studied(path, 12, Nodes())
    assert (len(study.rows), study.failures, len(results)) == (12, [], 12)
    with Store(path) as store:
        assert len(store.read()) == 12  # each once, whoever measured it


def test_machines_of_nodes_outlive_the_command(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    studied(path, 12, Nodes())
    again, _ = studied(path, 12, Nodes(failing=0))  # nothing is left to measure
    assert sorted(set(again.report.rows["bound_s"])) == pytest.approx([1.0, 4.0])
    with Store(path) as store:
        assert store.machines() == {("n1", "big"): FAST, ("n2", "small"): SLOW}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    started = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    yield started
    started.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_loses_no_case_and_doubles_none(cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    asked, told = cases(24), list[str]()
    workers = {address: worker.process.pid for address, worker in cluster.workers.items()}
    killed = []

    def kill_one() -> None:
        while len(told) < 4:
            time.sleep(0.02)
        killed.append(len(told))
        os.kill(next(iter(workers.values())), signal.SIGKILL)

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    with Store(tmp_path / "store.sqlite") as store:
        engine = DaskCluster(cluster.scheduler_address)
        done = run_on_nodes(asked, store, PLACE, PLAN, engine, told.append)
        kept, machines = store.read(), store.machines()
        on = where_cases_ran(store, done.results, None)
    killer.join()
    assert killed[0] < 24  # in the middle, not after the end
    assert [r.status for r in done.results] == ["done"] * 24
    assert (len(kept), len(told)) == (24, 24)
    assert {(k.result.labels["node"], k.machine) for k in kept} == set(machines)
    rows = judged_study(done.results, on.machine, by_node=on.by_node).report.rows
    assert rows["bound_s"].null_count() == 0


@pytest.mark.slow
def test_cases_that_any_node_has_measured_are_not_measured_again(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    with Store(tmp_path / "store.sqlite") as store:
        run_on_nodes(cases(2), store, PLACE, PLAN, Here(), lambda _: None)
        done = run_on_nodes(cases(3), store, PLACE, PLAN, Here(), lambda _: None)
        assert (len(done.results), done.found) == (3, 2)
        assert isinstance(next(iter(store.machines().values())), Machine)
    assert {r.case.threads for r in done.results} <= {1, all_cores()}
