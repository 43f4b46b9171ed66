"""A study on other computers: each node measures its own machine, only the driver keeps cases.

A turn of compared cases goes to one node as a whole, so that both sides of a comparison run on the
same hardware. A node that is lost has its turn measured again by another. Every case is judged on
the ceilings of the node that ran it.
"""

from __future__ import annotations

import atexit
import errno
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import msgspec

from timeroof.core.engines import Answer, Engine
from timeroof.core.errors import Note
from timeroof.core.machine import Machine
from timeroof.study.case import MACHINE, NODE, Case, Plan, Result
from timeroof.study.grid import all_cores, turns
from timeroof.study.report import case_name
from timeroof.study.run import Done, Place, Worker
from timeroof.study.store import Kept, Store

# Processes of one computer that measure at the same time would measure one another.
_LOCK = "\0timeroof study"
_RETRY_S = 0.05
# A note names so many kinds of machines.
MOST_NAMED = 3


@dataclass(frozen=True)
class Turn:
    """Cases that are measured in turns on one node."""

    cases: tuple[Case, ...]
    plan: Plan
    # What "all cores" is on the computer that asks.
    cores: int


@dataclass(frozen=True)
class Measured:
    """What a node gives back: a result of each case, and what they ran on."""

    results: list[Result]
    node: str
    machine_key: str
    software: str
    machine: Machine | None


# Workers of this node, by framework and device: the next turn finds its framework loaded.
_warm: dict[tuple[str, str], Worker] = {}


def measure_turn(turn: Turn) -> Measured:
    """On a node: measure its machine if it never was, then the cases."""
    first, node = turn.cases[0], socket.gethostname()
    with _alone():
        machine = _machine(first.device)
        place = Place.here(machine, first.framework)
        where = (first.framework, first.device)
        if where not in _warm:
            _warm[where] = Worker(machine, *where)
            atexit.register(_warm[where].stop)
        ran = [_on_all_cores(case, turn) for case in turn.cases]
        results = list(_warm[where].measured(ran, turn.plan))
    labels = {NODE: node, MACHINE: place.machine_key}
    return Measured(
        [msgspec.structs.replace(r, labels=r.labels | labels) for r in results],
        node, place.machine_key, place.software_of(first), machine,
    )  # fmt: skip


@contextmanager
def _alone() -> Iterator[None]:
    """One process of a computer at a time; a name that goes with the process that holds it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as held:
        while True:
            try:
                held.bind(_LOCK)
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    break  # a system without such names
                time.sleep(_RETRY_S)
        yield


def _machine(device: str) -> Machine | None:
    """This node's machine, measured once, as a study on one computer does."""
    if device == "cpu":
        from timeroof.api.live import machine_for

        return machine_for(None)[0]
    from timeroof.probe.measure import load_or_measure

    return load_or_measure(quick=True, device=device).machine


def _on_all_cores(case: Case, turn: Turn) -> Case:
    """A case on all cores of this node, where all cores of the driver were asked for."""
    if not turn.plan.one_thread_beside_others or case.threads != turn.cores:
        return case
    return msgspec.structs.replace(case, threads=all_cores())


def on_any_node(place: Place) -> Place:
    """The place of a study whose cases are the same ones on whatever node they run."""
    return replace(place, machine_key="any node")


def run_on_nodes(
    cases: Sequence[Case], store: Store, place: Place, plan: Plan, engine: Engine,
    told: Callable[[str], None],
) -> Done:  # fmt: skip
    """Measure on a cluster what no node has measured yet; one transaction per case."""
    keys = {place.key(case): case for case in cases}
    over = {key for key, status in store.finished().items() if status != "failed"} & set(keys)
    for key in over:
        told(case_name(keys[key]))
    todo = turns(case for key, case in keys.items() if key not in over)
    orders = [Turn(tuple(turn), plan, all_cores()) for turn in todo]
    for answer in engine.map(measure_turn, orders):
        if (done := answer.value) is not None and done.machine is not None:
            store.keep_machine(done.node, done.machine_key, done.machine)
        for kept in _kept(answer, orders[answer.index], place):
            store.keep(kept)
            told(case_name(keys[kept.case_key]))
    return Done([kept.result for kept in store.read(keys)], len(over))


def _kept(answer: Answer[Measured], turn: Turn, place: Place) -> list[Kept]:
    """Cases under the key of how they were asked for: a node has other cores, and may be busy."""
    done = answer.value
    if done is not None:
        on = {"machine": done.machine_key, "software": done.software}
        pairs = zip(turn.cases, done.results, strict=True)
        return [Kept(case_key=place.key(case), result=result, **on) for case, result in pairs]
    why = f"no node measured it: {answer.failure.what if answer.failure else 'no answer'}"
    return [
        Kept(case_key=place.key(case), result=Result(case=case, status="failed", error=why))
        for case in turn.cases
    ]


@dataclass(frozen=True)
class Ran:
    """Where the cases of a study ran: the machine of most of them, and that of every node."""

    machine: Machine | None
    by_node: dict[tuple[str, str], Machine] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)


def where_cases_ran(store: Store, results: Sequence[Result], here: Machine | None) -> Ran:
    """The machines of the nodes that ran cases; `here` where no case came from a node."""
    kept = store.machines()
    places = Counter((r.labels[NODE], r.labels[MACHINE]) for r in results if NODE in r.labels)
    by_node = {place: kept[place] for place in places if place in kept}
    kinds = Counter[str]()
    for (_, kind), cases in places.items():
        kinds[kind] += cases
    if not by_node:
        return Ran(here)
    main = max(by_node, key=lambda place: (kinds[place[1]], places[place]))
    return Ran(by_node[main], by_node, [_mixed(kinds)] if len(kinds) > 1 else [])


def _mixed(kinds: Counter[str]) -> Note:
    named = [f"{kind} ({cases} cases)" for kind, cases in kinds.most_common(MOST_NAMED)]
    more = f" and {len(kinds) - MOST_NAMED} more" if len(kinds) > MOST_NAMED else ""
    words = (
        f"Cases ran on {len(kinds)} kinds of machine: {', '.join(named)}{more}. Each is compared"
        " with the ceilings of its own node; lines in charts are those of the first."
    )
    return Note(words, "other-nodes", "warning")
