"""The same work on other machines: one table of machines, one of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from timeroof.core.columns import Row
from timeroof.core.units import format_percent, format_seconds, resource_words
from timeroof.views.style import TERMINAL_COLOURS
from timeroof.views.terminal import Bar, Cell, Column, console, fitted_table, plain_text

if TYPE_CHECKING:
    from rich.console import Console

MACHINE_COLUMNS = (
    Column("machine", "name", least=20),
    Column("bound", "figure", leaves=2),
    Column("predicted", "figure"),
    Column("low", "figure", leaves=1),
    Column("high", "figure", leaves=1),
    Column("speed-up", "figure"),
)
BAR_COLUMNS = (
    Column("", "name", least=16, most=20),
    Column("", "bar", least=20, most=30, leaves=1),
    Column("", "prose", least=16),
)
MOST_ROWS = 12
SECONDS = ("predicted_s", "low_s", "high_s")
# Seconds of a run in which none of its kernels runs.
OUTSIDE = "beside kernels"
WITHOUT_IDLE = "Times of kernels alone, without the idle time before them."


def print_whatif(document: Row, *, stderr: bool = False) -> None:
    """A `timeroof.whatif/1` document as tables."""
    out = console(stderr=stderr)
    seconds, bound = (format_seconds(document[c]) for c in ("measured_s", "measured_bound_s"))
    head = f"Measured on {plain_text(document['from'])}: {seconds}, could be {bound}"
    out.print(Text(head, style="bold"))
    machines = [machine_cells(document, machine) for machine in document["machines"]]
    rows = [[plain_text(text) for text in cells] for cells in machines]
    out.print(fitted_table(MACHINE_COLUMNS, rows, out.width))
    if bars := _bars(document):
        out.print(fitted_table(BAR_COLUMNS, bars, out.width))
    for machine in document["machines"]:
        for change, seconds in list(machine["limiter_changes_s"].items())[:4]:
            name, took = plain_text(machine["name"]), format_seconds(seconds)
            words = f"On {name} {took} has another limit: {plain_text(change_words(change))}."
            out.print(Text(words))
    _print_rows(document, out)
    for caption in _captions(document):
        out.print(Text(caption, style="italic"))
    for note in document["notes"]:
        out.print(Text(f"Note: {plain_text(note)}"))


def machine_cells(document: Row, machine: Row) -> list[str]:
    """A machine's line of the table."""
    faster = document["measured_s"] / machine["predicted_s"] if machine["predicted_s"] else None
    seconds = [format_seconds(machine[c]) for c in ("bound_s", "predicted_s", "low_s", "high_s")]
    return [machine["name"], *seconds, "?" if faster is None else f"{faster:.2f}×"]


def change_words(change: str) -> str:
    """A change of the limiter in words.

    >>> change_words("flop/bf16-tensor → byte/l2")
    'BF16 tensor → L2 bandwidth'
    """
    return " → ".join(resource_words(limiter) for limiter in change.split(" → "))


def is_predicted(document: Row) -> bool:
    """Whether there are seconds to show; without a timed row there is no prediction."""
    seconds = [document["measured_s"], *(m["predicted_s"] for m in document["machines"])]
    return all(s is not None for s in seconds)


def split_seconds(by_limiter: Mapping[str, float], whole_s: float) -> dict[str, float]:
    """Seconds by limiter that sum to the whole: overlapping rows shrink, idle is added.

    Measured and predicted seconds are split by this one rule.

    >>> split_seconds({"compute": 2.0}, 3.0)
    {'compute': 2.0, 'beside kernels': 1.0}
    """
    rows_s = sum(by_limiter.values())
    if rows_s > whole_s and rows_s > 0:
        return {k: s * whole_s / rows_s for k, s in by_limiter.items()}
    rest_s = whole_s - rows_s
    return {**by_limiter, **({OUTSIDE: rest_s} if rest_s > 1e-9 * whole_s else {})}


def _bars(document: Row) -> list[list[Cell]]:
    """Measured and predicted seconds by limiter, drawn to the scale of the longest."""
    if not is_predicted(document):
        return []
    longest_s = max([document["measured_s"], *(m["predicted_s"] for m in document["machines"])])
    now = split_seconds(document["measured_by_limiter"], document["measured_s"])
    bars = [_bar("measured", now, longest_s)]
    for machine in document["machines"]:
        split = split_seconds(machine["by_limiter"], machine["predicted_s"])
        bars.append(_bar(machine["name"], split, longest_s))
    return bars


def _bar(name: str, split: Mapping[str, float], longest_s: float) -> list[Cell]:
    whole_s = sum(split.values()) or 1.0
    taken = {kind: seconds for kind, seconds in split.items() if seconds > 0}
    colours = {kind: TERMINAL_COLOURS.get(kind, "bright_black") for kind in taken}
    parts = [(s / longest_s, "█", colours[kind]) for kind, s in taken.items()]
    shares = [f"{kind} {format_percent(s / whole_s)}" for kind, s in taken.items()]
    return [plain_text(name), Bar(parts), ", ".join(shares)]


def _print_rows(document: Row, out: Console) -> None:
    names = [plain_text(m["name"]) for m in document["machines"]][:3]
    kernels = kernels_told(document["rows"])
    rows = []
    for row in kernels[:MOST_ROWS]:
        cells = [
            f"{format_seconds(m['predicted_s'])}{' *' if m['limiter_changes'] else ''}"
            for m in row["machines"][: len(names)]
        ]
        rows.append([plain_text(row["name"]), format_seconds(row["time_s"]), *cells])
    machines = [Column(name, "figure", leaves=place) for place, name in enumerate(names)]
    columns = [Column("kernel", "name", most=60), Column("now", "figure"), *machines]
    out.print(fitted_table(columns, rows, out.width))
    if len(kernels) > MOST_ROWS:
        out.print(f"({len(kernels) - MOST_ROWS} more kernels)")


def kernels_told(rows: Sequence[Row]) -> list[Row]:
    """Kernels as lists show them, longest first: rows of one name together, as everywhere.

    Each has `name`, `time_s`, `limiter` (that of most of its time) and per machine the sums of
    `predicted_s`, `low_s`, `high_s`, its limiter there, and whether that is another one.
    """
    groups: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: -(row["time_s"] or 0.0)):
        groups.setdefault(row["short_name"], []).append(row)
    told = [_kernel(name, members) for name, members in groups.items()]
    return sorted(told, key=lambda kernel: -(kernel["time_s"] or 0.0))


def _kernel(name: str, rows: Sequence[Row]) -> Row:
    many = f" ({len(rows)} rows)" if len(rows) > 1 else ""
    now = _most(rows, [row["limiter"] for row in rows])
    machines = [
        {
            "name": first["name"],
            **{c: _sum(row["machines"][k][c] for row in rows) for c in SECONDS},
            "limiter": (there := _most(rows, [row["machines"][k]["limiter"] for row in rows])),
            "limiter_changes": there != now,
        }
        for k, first in enumerate(rows[0]["machines"])
    ]
    return {
        "name": f"{name}{many}",
        "time_s": _sum(row["time_s"] for row in rows),
        "limiter": now,
        "machines": machines,
    }


def _sum(seconds: Iterable[float | None]) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [s for s in seconds if s is not None]
    return sum(known) if known else None


def _most(rows: Sequence[Row], limiters: Sequence[str | None]) -> str:
    """The limiter that holds most of the rows' time."""
    held: dict[str, float] = {}
    for row, limiter in zip(rows, limiters, strict=True):
        held[limiter or "unknown"] = held.get(limiter or "unknown", 0.0) + (row["time_s"] or 0.0)
    return max(held, key=lambda limiter: held[limiter])


def has_idle(document: Row) -> bool:
    """Whether the idle before kernels is known, and stands beside them."""
    return any((row["elapsed_s"] or 0.0) > (row["time_s"] or 0.0) for row in document["rows"])


def _captions(document: Row) -> list[str]:
    kernels = kernels_told(document["rows"])[:MOST_ROWS]
    changes = any(m["limiter_changes"] for kernel in kernels for m in kernel["machines"])
    return ["* another limit"] * changes + [WITHOUT_IDLE] * has_idle(document)
