"""The page of `timeroof machine`: one sentence, its ceilings as bars, all of them in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from timeroof.core.units import (
    format_amount,
    format_percent,
    format_rate,
    format_seconds,
    resource_words,
)
from timeroof.views.page.payload import MEASURED, machine_facts
from timeroof.views.page.templates import BarLine, Table, static_page

if TYPE_CHECKING:
    from timeroof.core.machine import Ceiling, Machine

SCOPES = {"all": "whole machine", "socket": "one socket", "core": "one core"}
_HEADS = ("ceiling", "scope", "rate", "origin", "spread", "threads", "source")


def machine_page(machine: Machine, notes: Sequence[str] = ()) -> str:
    """One page that opens from disk: a bar per precision and memory level, all ceilings below."""
    bars = [*_bars(machine, "flop/", "compute"), *_bars(machine, "byte/", "memory")]
    return static_page(
        machine.device or machine.name,
        machine_sentence(machine),
        kind="machine",
        bars=bars,
        bars_title="What this machine can do",
        bars_key=[("kind-compute", "arithmetic"), ("kind-memory", "memory bandwidth")],
        bars_note="Bars of one colour have one scale. Behind a bar: its share of the datasheet's"
        " or theoretical rate, where both are known.",
        tables=[
            Table("Ceilings", _HEADS, [_cells(c) for c in machine.ceilings]),
            Table("Facts", ("what", ""), [["machine", fact] for fact in machine_facts(machine)]),
        ],
        notes=[*machine.notes, *notes],
    )


def machine_sentence(machine: Machine) -> str:
    """The rate that programs ask for first, the bandwidth of DRAM and the cost of a launch."""
    roofs = machine.roofs()
    flops = {r: c.rate for r, c in roofs.items() if r.startswith("flop/")}
    words = []
    if flops:
        cpu = machine.kind == "cpu" and "flop/fp32" in flops
        best = "flop/fp32" if cpu else max(flops, key=lambda r: flops[r])
        words.append(f"{format_rate(best, flops[best])} in {resource_words(best)}")
    if "byte/dram" in roofs:
        words.append(f"{format_amount(roofs['byte/dram'].rate, 'B/s')} from memory")
    if "launch" in roofs:
        words.append(f"{format_seconds(1 / roofs['launch'].rate)} per launch")
    return f"{', '.join(words)}." if words else "No ceiling of this machine is known."


def _bars(machine: Machine, head: str, colour: str) -> list[BarLine]:
    roofs = {r: c for r, c in machine.roofs().items() if r.startswith(head)}
    longest = max((c.rate for c in roofs.values()), default=1.0)
    return [
        BarLine(
            r.partition("/")[2].upper() if head == "byte/" else resource_words(r),
            [(0.0, c.rate / longest, f"kind-{colour}")],
            format_rate(r, c.rate),
            _share(machine, c),
        )
        for r, c in sorted(roofs.items(), key=lambda item: -item[1].rate)
    ]


def _share(machine: Machine, ceiling: Ceiling) -> str:
    printed = [
        c.rate
        for c in machine.ceilings
        if (c.resource, c.scope) == (ceiling.resource, ceiling.scope) and c.origin not in MEASURED
    ]
    if ceiling.origin not in MEASURED:
        return str(ceiling.origin)
    return f"measured, {format_percent(ceiling.rate / printed[0])}" if printed else "measured"


def _cells(ceiling: Ceiling) -> list[str]:
    spread = f"± {format_percent(ceiling.spread / 2)}" if ceiling.spread else "–"
    threads = str(ceiling.threads) if ceiling.threads else "–"
    rate = format_rate(ceiling.resource, ceiling.rate)
    scope = SCOPES.get(ceiling.scope, ceiling.scope)
    origin, source = str(ceiling.origin), ceiling.source or ""
    return [resource_words(ceiling.resource), scope, rate, origin, spread, threads, source]
