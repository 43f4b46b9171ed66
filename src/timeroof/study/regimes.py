"""What bounds a kernel as a parameter grows: its regimes, and where one follows another."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from timeroof.core.machine import limiter_kind
from timeroof.core.report import Finding
from timeroof.study.case import Value
from timeroof.study.judged_cases import Row, Sweep, ops, sweeps
from timeroof.views.pictures.marks import value_text

_WORDS = {
    "compute": "compute-bound",
    "launch": "launch-bound",
    "latency": "bound by overhead",
    "fault": "bound by page faults",
    "link": "link-bound",
    "unknown": "not known",
}
# Values of a sweep from which on its regimes are worth a line.
FEWEST_VALUES = 3


class Regime(NamedTuple):
    """Neighbouring values of a parameter at which the same thing bounds the time."""

    name: str
    values: tuple[Value, ...]


def regime_of(row: Row) -> str:
    """What bounds a case, with all caches as one.

    >>> regime_of(Row(limiter="byte/l2")), regime_of(Row(limiter="byte/dram"))
    ('cache-bound', 'DRAM-bound')
    """
    kind = limiter_kind(row.limiter or "")
    if kind == "memory":
        return "DRAM-bound" if row.limiter in ("byte/dram", "pipe/memory") else "cache-bound"
    return _WORDS.get(kind, kind)


def regimes(rows: Sequence[Row], parameter: str) -> list[Regime]:
    """The regimes of a sweep in the order of its values."""
    found: list[Regime] = []
    for row in rows:
        name, value = regime_of(row), row.params[parameter]
        if found and found[-1].name == name:
            found[-1] = Regime(name, (*found[-1].values, value))
        else:
            found.append(Regime(name, (value,)))
    return found


def crossovers(found: Sequence[Regime]) -> list[tuple[Value, Value]]:
    """Between which two values each regime takes over from the one before.

    >>> crossovers([Regime("launch-bound", (1, 8)), Regime("compute-bound", (64,))])
    [(8, 64)]
    """
    return [(a.values[-1], b.values[0]) for a, b in itertools.pairwise(found)]


def regime_words(found: Sequence[Regime], parameter: str) -> str:
    """Regimes with the values at which they begin and end.

    >>> regime_words([Regime("launch-bound", (1, 8)), Regime("compute-bound", (64,))], "n")
    'launch-bound up to 8, compute-bound from 64'
    >>> regime_words([Regime("launch-bound", (0,)), Regime("compute-bound", (64, 128))], "n")
    'launch-bound at 0, compute-bound from 64'
    """
    texts = []
    for place, regime in enumerate(found):
        first, last = (value_text(parameter, v) for v in (regime.values[0], regime.values[-1]))
        upto = f"up to {last}" if len(regime.values) > 1 else f"at {last}"
        texts.append(f"{regime.name} {f'from {first}' if place else upto}")
    return ", ".join(texts) if len(found) > 1 else f"{found[0].name} at all values"


def numeric(sweep: Sweep) -> bool:
    """Whether a sweep has an order, and values enough."""
    return len(set(sweep.values)) >= FEWEST_VALUES and not any(
        isinstance(value, str) for value in sweep.values
    )


def regime_findings(rows: Sequence[Row]) -> list[Finding]:
    """A finding per sweep whose cases change from one regime to another."""
    findings = []
    for sweep in (s for op in ops(rows) for s in sweeps(rows, op) if numeric(s)):
        found = regimes(sweep.rows, sweep.parameter)
        if len(found) < 2:
            continue
        how = sweep.rows[0].series("threads")
        words = regime_words(found, sweep.parameter)
        findings.append(
            Finding(
                code="study/regimes",
                title=f"{sweep.op} over {sweep.word}: {words}",
                why=f"What bounds the time at each value ({how})." if how else "",
                kernels=[row.id for row in sweep.rows],
                evidence={
                    "parameter": sweep.parameter,
                    "regimes": [{"name": r.name, "values": list(r.values)} for r in found],
                    "crossovers": [list(pair) for pair in crossovers(found)],
                },
            )
        )
    return findings
