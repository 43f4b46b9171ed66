"""A study on other computers: each node measures its own machine, only the driver keeps cases.

A turn of compared cases goes to one node as a whole, so that both sides of a comparison run on the
same hardware. A node that is lost has its turn measured again by another.
"""

from __future__ import annotations

import atexit
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from timeroof.core.engines import Answer, Engine
from timeroof.core.notes import Note
from timeroof.study.case import Case, Plan, Result
from timeroof.study.grid import turns
from timeroof.study.report import case_name
from timeroof.study.run import Done, Place, Worker
from timeroof.study.store import Kept, Store


@dataclass(frozen=True)
class Turn:
    """Cases that are measured in turns on one node."""

    cases: tuple[Case, ...]
    plan: Plan


# Workers of this node, by framework and device: the next turn finds its framework loaded.
_warm: dict[tuple[str, str], Worker] = {}


def measure_turn(turn: Turn) -> list[Kept]:
    """On a node: measure its machine if it never was, then the cases."""
    from timeroof.probe.measure import load_or_measure

    first = turn.cases[0]
    machine = load_or_measure(quick=True).machine if first.device == "cpu" else None
    place = Place.here(machine, first.framework)
    where = (first.framework, first.device)
    if where not in _warm:
        _warm[where] = Worker(machine, *where)
        atexit.register(_warm[where].stop)
    results = list(_warm[where].measured(turn.cases, turn.plan))
    return [
        Kept(
            case_key=place.key(case),
            result=msgspec.structs.replace(
                result, labels=result.labels | {"node": socket.gethostname()}
            ),
            machine=place.machine_key,
            software=place.software_of(case),
        )
        for case, result in zip(turn.cases, results, strict=True)
    ]


def run_on_nodes(
    cases: Sequence[Case], store: Store, plan: Plan, engine: Engine, told: Callable[[str], None]
) -> Done:
    """Measure on a cluster what no node has measured yet; one transaction per case."""
    found = {_same(kept): kept for kept in store.read() if kept.result.status != "failed"}
    asked = {msgspec.json.encode(case): case for case in cases}
    over = set(asked) & set(found)
    for key in over:
        told(case_name(asked[key]))
    todo = turns(case for key, case in asked.items() if key not in over)
    orders = [Turn(tuple(turn), plan) for turn in todo]
    for answer in engine.map(measure_turn, orders):
        for kept in _kept(answer, orders[answer.index]):
            store.keep(kept)
            found[_same(kept)] = kept
            told(case_name(kept.result.case))
    return Done([found[key].result for key in asked if key in found], len(over))


def _same(kept: Kept) -> bytes:
    """What makes a case the same one on whatever node."""
    return msgspec.json.encode(kept.result.case)


def _kept(answer: Answer[list[Kept]], turn: Turn) -> list[Kept]:
    if answer.value is not None:
        asked = turn.cases
        # A case that ran on one thread beside other programs is kept as it was asked for.
        return [
            msgspec.structs.replace(kept, result=msgspec.structs.replace(kept.result, case=case))
            for kept, case in zip(answer.value, asked, strict=True)
        ]
    why = answer.failure.what if answer.failure is not None else "was not measured"
    return [
        Kept(
            case_key=case.key("no node", ""),
            result=Result(case=case, status="failed", error=f"no node measured it: {why}"),
            machine="none",
            software="",
        )
        for case in turn.cases
    ]


def node_notes(store: Store, results: Sequence[Result], machine_key: str) -> list[Note]:
    """Which computers the cases ran on, where it was another than the one that judges them."""
    asked = {msgspec.json.encode(result.case) for result in results}
    machines = {k.machine for k in store.read() if _same(k) in asked and k.machine != "none"}
    others = sorted(machines - {machine_key})
    if not others:
        return []
    words = (
        f"Cases ran on {len(machines)} kind{'s' if len(machines) > 1 else ''} of machine"
        f" ({', '.join(others[:3])}); bounds are those of this computer. --machine names another."
    )
    return [Note(words, "other-nodes", "warning")]
