"""Going on in a store: what is finished is used, what failed is measured once more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from timeroof.study import run
from timeroof.study.case import QUICK, Case, Plan, Result
from timeroof.study.store import Kept, Store


class FakeWorker:
    """Measures everything at once."""

    def __init__(self, *where: object) -> None:
        self.where = where

    def measured(self, cases: Sequence[Case], plan: Plan) -> Iterator[Result]:
        for case in cases:
            yield Result(case=case, status="done", samples_s=[1.0])

    def stop(self) -> None:
        pass


def test_only_failed_cases_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "Worker", FakeWorker)
    place = run.Place(None, "here", "torch 1")
    states = ("done", "failed", "unsupported")
    cases = [Case(kernel="gemm", params={"m": n}, pass_name="forward") for n in range(4)]
    with Store(tmp_path / "a.sqlite") as store:
        for case, status in zip(cases, states, strict=False):
            result = Result(case=case, status=status)
            store.keep(Kept(case_key=place.key(case), result=result))
        told: list[str] = []
        done = run.run_cases(cases, store, place, QUICK, told.append)
    assert [r.status for r in done.results] == ["done", "done", "unsupported", "done"]
    assert [len(r.samples_s) for r in done.results] == [0, 1, 0, 1]
    assert done.found == 2
    assert len(told) == 4
