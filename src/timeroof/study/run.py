"""The study itself: cases that the store does not have are measured, one transaction each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Protocol

from timeroof.core.errors import UsageError
from timeroof.core.machine import Machine
from timeroof.probe.measure import fingerprint
from timeroof.study.case import Case, Plan, Result
from timeroof.study.driver import Worker
from timeroof.study.report import verdict_of
from timeroof.study.store import Kept, Store
from timeroof.study.table import case_name

Told = Callable[[str], None]
LOOK_AGAIN_S = 1.0


class Measurer(Protocol):
    """What measures a case: a worker, or something that stands in for it."""

    def measure(self, case: Case, plan: Plan) -> Result:
        """Measure a case; never raises for what the case does."""
        ...

    def stop(self) -> None:
        """End it."""
        ...


@dataclass(frozen=True)
class Place:
    """Where cases run: the machine and the software that make a case the same case."""

    machine: Machine | None
    machine_key: str
    software: str

    @classmethod
    def here(cls, machine: Machine | None, framework: str = "torch") -> Place:
        """This machine: its hardware, the framework and what counts the work."""
        from timeroof.probe.cpu.ir import host_cpu_name
        from timeroof.probe.cpu.probe import total_memory
        from timeroof.probe.cpu.topology import read_topology
        from timeroof.probe.measure import hardware

        shape = hardware(read_topology(), host_cpu_name(), total_memory())
        name = f"{shape['model'] or shape['cpu']} {fingerprint(shape)}"
        return cls(machine, name, f"{framework} {_version(framework)}")

    def key(self, case: Case) -> str:
        """The key of a case that runs here."""
        return case.key(self.machine_key, self.software)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise UsageError(
            f"{package} is not installed", advice=f"install it: pip install {package}"
        ) from None


@dataclass
class Done:
    """What a run did: cases in the asked order, and how many of them were there before."""

    results: list[Result] = field(default_factory=list)
    measured: int = 0
    found: int = 0


def check_store(store: Store, keys: Sequence[str], *, resume: bool) -> None:
    """Refuse to go on in a store that has some of these cases, unless that is asked for.

    Where another process is at work on the store, this one joins it.
    """
    there = set(keys) & set(store.finished())
    if resume or not there or store.others():
        return
    raise UsageError(
        f"{store.path} has {len(there)} of these {len(keys)} cases already",
        advice="--resume measures the rest and uses them; --fresh keeps that file under another"
        " name and measures all; --db names another file",
    )


def run_cases(
    cases: Sequence[Case],
    store: Store,
    place: Place,
    plan: Plan,
    told: Told,
    *,
    retry: bool = False,
    measurer: Measurer | None = None,
    counting: Callable[[Result], Result] | None = None,
) -> Done:
    """Measure what is not finished; what another process measures is waited for at the end.

    `retry` measures failed cases once more. `told` hears of every case that is there.
    """
    keys = {place.key(case): case for case in cases}
    done = Done()
    device = cases[0].device if cases else "cpu"
    worker = measurer or Worker(place.machine, device=device)
    try:
        waiting = _pass(keys, store, place, plan, told, done, worker, retry, counting)
        while waiting:
            time.sleep(LOOK_AGAIN_S)
            left = {key: keys[key] for key in waiting}
            waiting = _pass(left, store, place, plan, told, done, worker, False, counting)
    finally:
        worker.stop()
    done.results = [kept.result for kept in store.read(keys)]
    return done


def _pass(  # noqa: PLR0913, PLR0917
    keys: dict[str, Case],
    store: Store,
    place: Place,
    plan: Plan,
    told: Told,
    done: Done,
    worker: Measurer,
    retry: bool,
    counting: Callable[[Result], Result] | None,
) -> list[str]:
    """Go through the cases once; returns those that another process is measuring."""
    waiting: list[str] = []
    finished = store.finished()
    for key, case in keys.items():
        over = key in finished and not (retry and finished[key] == "failed")
        if not over and store.claim(key, again=retry):
            result = worker.measure(case, plan)
            if counting is not None and result.status == "done":
                result = counting(result)
            _keep(result, key, store, place)
            done.measured += 1
        elif not over and key not in store.finished():
            waiting.append(key)
            continue
        else:
            done.found += 1
        told(case_name(case))
    return waiting


def _keep(result: Result, key: str, store: Store, place: Place) -> None:
    kept = Kept(
        case_key=key,
        result=result,
        verdict=verdict_of(result, place.machine),
        machine=place.machine_key,
        software=place.software,
    )
    store.keep(kept, place.machine)
