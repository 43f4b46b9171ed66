"""A machine in the terminal and on its page: what was reached beside what should be possible.

Figures first, in the field's words; what a reader must know of them comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from timeroof.core.machine import LAUNCH, PAGES, SCOPES
from timeroof.core.units import (
    format_cores,
    format_percent,
    format_rate,
    format_seconds,
    resource_words,
)  # fmt: skip
from timeroof.views.terminal import Column, console, fitted_table, plain_text, wrapped

if TYPE_CHECKING:
    from timeroof.core.machine import Ceiling, Machine
from collections.abc import Sequence

from timeroof.core.units import format_amount
from timeroof.views.page.payload import MEASURED, machine_facts
from timeroof.views.page.templates import BarLine, Table, static_page

COLUMNS = (
    Column("", "whole"),
    Column("cores", "figure", leaves=1),
    Column("measured", "figure"),
    Column("theoretical", "figure", leaves=3),
    Column("ratio", "figure", leaves=4),
    Column("spread", "figure", leaves=5),
)


def print_measured(
    machine: Machine, clocks_hz: Mapping[int, float] | None = None, *, when: str = ""
) -> None:
    """Ceilings by scope: measured, theoretical, their ratio, the spread of the samples.

    `clocks_hz` by threads: what theoretical figures are made of. `when` it was measured, and how.
    """
    out = console()
    parts = [machine.device, *([when] if when else [])]
    out.print(Text(plain_text(" · ".join(parts)), style="bold"))
    rows = [_cells(measured, paper) for measured, paper in _pairs(machine)]
    out.print(fitted_table(COLUMNS, rows, out.width))
    if clocks_hz:
        clocks = [f"{hz / 1e9:.2f} GHz on {format_cores(n)}" for n, hz in clocks_hz.items()]
        out.print(Text(f"Clock, measured, behind the theoretical figures: {', '.join(clocks)}."))
    latencies = [
        f"{level.level.upper()} {format_seconds(level.latency_s)}"
        for level in machine.memory
        if level.latency_s is not None
    ]
    if latencies:
        out.print(Text(f"Load latency: {', '.join(latencies)}."))
    for line in (*launch_lines(machine), *_page_lines(machine)):
        out.print(Text(line))


def launch_lines(machine: Machine) -> list[str]:
    """What each framework takes to start work: per op, per call of a compiled function, per kernel
    inside one."""
    launch = next((c for c in machine.ceilings if c.resource == LAUNCH and c.variants), None)
    found: dict[str, dict[str, float]] = {}
    for name, rate in (launch.variants if launch else {}).items():
        framework, _, what = name.partition(" ")
        found.setdefault(framework, {})[what] = 1 / rate
    lines = []
    for framework, costs in found.items():
        ops = [s for what, s in costs.items() if "python loop" in what]
        words = {
            "per op from Python": f"{_range(ops)}" if ops else "",
            "per op in a loop without Python": _range(
                [s for what, s in costs.items() if "C++" in what]
            ),
            "per call of a compiled function": _range(_named(costs, "call")),
            "per kernel inside": _range(_named(costs, "kernel")),
        }
        told = ", ".join(f"{text} {what}" for what, text in words.items() if text)
        lines.append(f"Launch cost in {framework}: {told}.")
    return lines


def _named(costs: Mapping[str, float], what: str) -> list[float]:
    return [s for name, s in costs.items() if name.startswith(what)]


def _range(seconds: list[float]) -> str:
    if not seconds:
        return ""
    low, high = format_seconds(min(seconds), 2), format_seconds(max(seconds), 2)
    return low if low == high else f"{low} to {high}"


def _page_lines(machine: Machine) -> list[str]:
    pages = machine.software.get(PAGES)
    return (
        []
        if pages is None
        else [f"Memory was measured in {pages} pages, page faults in 4 kB pages."]
    )


def _cells(measured: Ceiling | None, paper: Ceiling | None) -> tuple[str, ...]:
    best = measured or paper
    spread = measured.spread if measured else None
    return (
        resource_words(best.resource) if best else "",
        "" if best is None or best.threads is None else str(best.threads),
        format_rate(measured.resource, measured.rate) if measured else "-",
        format_rate(paper.resource, paper.rate) if paper else "-",
        format_percent(measured.rate / paper.rate) if measured and paper else "",
        format_percent(spread) if spread is not None else "",
    )


def _pairs(machine: Machine) -> Iterable[tuple[Ceiling | None, Ceiling | None]]:
    """Measured and theoretical ceiling of every scope and resource, widest scope first.

    A machine with one socket has the same figures for it as for all: said once.
    """
    one = all(c.threads in (None, 1) for c in machine.ceilings)
    said: set[tuple[str, float, int | None]] = set()
    for scope in SCOPES:
        own = [c for c in machine.ceilings if c.scope == scope]
        measured = {c.resource: c for c in own if c.origin == "measured"}
        paper = {c.resource: c for c in own if c.origin == "theoretical"}
        for resource in dict.fromkeys([*measured, *paper]):
            best = measured.get(resource) or paper[resource]
            figures = (resource, best.rate, best.threads)
            if (scope == "core" and not one) or figures not in said:
                yield measured.get(resource), paper.get(resource)
            said.add(figures)


def print_remarks(title: str, lines: Iterable[str], *, style: str = "") -> None:
    """Notes, warnings or errors, each from a new line on."""
    out = console(stderr=True)
    for line in lines:
        words = wrapped(plain_text(f"{title}: {line}"), out.width)
        text = Text("\n".join(words))
        text.stylize(style, 0, len(title) + 1)
        out.print(text)


_SCOPE_WORDS = {"all": "whole machine", "socket": "one socket", "core": "one core"}
_HEADS = ("ceiling", "scope", "rate", "origin", "spread", "threads", "source")


def machine_page(machine: Machine, notes: Sequence[str] = ()) -> str:
    """One page that opens from disk: a bar per precision and memory level, all ceilings below."""
    bars = [*_bars(machine, "flop/", "compute"), *_bars(machine, "byte/", "memory")]
    device = machine.device or machine.name
    facts = [fact for fact in machine_facts(machine) if fact not in device]
    return static_page(
        " · ".join([device, *facts]),
        machine_sentence(machine),
        kind="machine",
        bars=bars,
        bars_title="What this machine can do",
        bars_key=[("kind-compute", "arithmetic"), ("kind-memory", "memory bandwidth")],
        bars_note="Bars of one colour have one scale.",
        tables=[Table("Ceilings", _HEADS, [_page_cells(c) for c in _told_once(machine)])],
        notes=list(dict.fromkeys([*machine.notes, *notes])),
    )


def _told_once(machine: Machine) -> list[Ceiling]:
    """All ceilings, the widest scope first; without a socket's that equal the machine's."""
    widest = sorted(machine.ceilings, key=lambda c: SCOPES.index(c.scope))
    told = {(c.resource, c.rate, c.threads, c.origin): c for c in reversed(widest)}
    return [c for c in widest if told[c.resource, c.rate, c.threads, c.origin] is c]


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
    share = format_percent(ceiling.rate / printed[0]) if printed else ""
    return f"measured, {share} of theory" if share else "measured"


def _page_cells(ceiling: Ceiling) -> list[str]:
    spread = f"± {format_percent(ceiling.spread / 2)}" if ceiling.spread else "–"
    threads = str(ceiling.threads) if ceiling.threads else "–"
    rate = format_rate(ceiling.resource, ceiling.rate)
    scope = _SCOPE_WORDS.get(ceiling.scope, ceiling.scope)
    origin, source = str(ceiling.origin), ceiling.source or ""
    return [resource_words(ceiling.resource), scope, rate, origin, spread, threads, source]
