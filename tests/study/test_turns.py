"""Cases in turns, with a framework of our own making: neighbours, memory, failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from timeroof.study.case import Case, Plan, Result, Status
from timeroof.study.worker import turns
from timeroof.study.worker.sampling import Entrant, Sampled
from timeroof.study.worker.turns import Turns

PLAN = Plan(warmup_s=0.001, budget_s=0.001, least=2, sample_s=1e-6)


@dataclass
class Ready:
    """Something that can be run."""

    entrant: Entrant
    working_set_bytes: int = 8


def fail() -> None:
    raise ValueError("it breaks when it runs")


@dataclass
class Maker:
    """A framework that remembers what it was asked for."""

    threads: list[int] = field(default_factory=list)
    sizes: int = 8
    cleared: list[int] = field(default_factory=list)

    def refusal(self, case: Case) -> str | None:
        return "nobody can" if case.variant == "refused" else None

    def use_threads(self, count: int) -> None:
        self.threads.append(count)

    @contextmanager
    def ready(self, case: Case) -> Iterator[Ready]:
        if case.variant == "never":
            raise ValueError("it cannot be made")
        yield Ready(Entrant(fail if case.variant == "breaks" else sum_up), self.sizes)

    def outcome(self, error: Exception) -> tuple[Status, str]:
        return "failed", str(error)

    def result(self, case: Case, ready: Ready, sampled: Sampled) -> Result:
        return Result(case=case, status="done", samples_s=sampled.samples_s)

    def clear(self, cases: Sequence[Case]) -> None:
        self.cleared.append(len(cases))


def sum_up() -> None:
    sum(range(100))


class Load:
    """What others use, reading by reading."""

    def __init__(self, *shares: float) -> None:
        self.shares = list(shares)

    def share(self) -> float:
        return self.shares.pop(0) if len(self.shares) > 1 else self.shares[0]


def measured(
    monkeypatch: pytest.MonkeyPatch, maker: Maker, cases: Sequence[Case], *,
    before: float = 0.0, during: Sequence[float] = (0.0,), plan: Plan = PLAN,
) -> list[Result]:  # fmt: skip
    meter = Load(*during)
    monkeypatch.setattr(turns, "share_of_others", lambda: before)
    monkeypatch.setattr(turns, "LoadMeter", lambda: meter)
    return list(Turns(maker).measure(cases, plan, lambda: None))


def some(count: int = 3, **changes: str) -> list[Case]:
    return [
        Case(kernel="gemm", params={"m": n}, pass_name="forward", threads=2, **changes)  # type: ignore[arg-type]
        for n in range(count)
    ]


def test_on_a_quiet_machine_all_threads_run_by_wall_time(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = Maker()
    found = measured(monkeypatch, maker, some())
    assert maker.threads == [2]
    assert {r.labels["clock"] for r in found} == {"wall"}
    assert {r.case.threads for r in found} == {2}
    assert len({r.labels["turn"] for r in found}) == 1


def test_beside_others_one_thread_runs_by_its_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = Maker()
    found = measured(monkeypatch, maker, some(), before=0.5, during=[0.5])
    assert maker.threads == [1]
    assert {(r.labels["clock"], r.case.threads, r.load) for r in found} == {("cpu", 1, 0.5)}


def test_a_turn_that_others_disturb_is_measured_again_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    maker = Maker()
    found = measured(monkeypatch, maker, some(), before=0.0, during=[0.4, 0.4])
    assert maker.threads == [2, 1]
    assert {r.labels["clock"] for r in found} == {"cpu"}
    assert len(found) == 3


def test_threads_that_are_asked_for_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(
        warmup_s=0.001, budget_s=0.001, least=2, sample_s=1e-6, one_thread_beside_others=False
    )
    maker = Maker()
    found = measured(monkeypatch, maker, some(), before=0.9, during=[0.9], plan=plan)
    assert maker.threads == [2]
    assert {r.labels["clock"] for r in found} == {"wall"}


def test_what_does_not_fit_into_memory_waits_for_the_next_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    maker = Maker(sizes=turns.MOST_BYTES // 2 + 1)
    found = measured(monkeypatch, maker, some(5))
    assert maker.cleared == [2, 2, 1]
    assert [r.case.params["m"] for r in found] == [0, 1, 2, 3, 4]
    assert len({r.labels["turn"] for r in found}) == 3


def test_a_case_that_fails_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    variants = ("eager", "refused", "never", "breaks", "eager")
    cases = [c for v in variants for c in some(1, variant=v)]
    found = measured(monkeypatch, Maker(), cases)
    assert [r.status for r in found] == ["done", "unsupported", "failed", "failed", "done"]
    reasons = [(r.error or "").partition(" (test_turns.py")[0] for r in found[1:4]]
    assert reasons == ["nobody can", "it cannot be made", "it breaks when it runs"]
