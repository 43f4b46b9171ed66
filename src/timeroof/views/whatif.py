"""The same work on other machines: one table of machines, one of kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from timeroof.units import format_percent, format_seconds
from timeroof.views.terminal import COLOURS, console, plain_text

BAR = 30
MOST_ROWS = 12
# Seconds of a run in which none of its kernels runs.
OUTSIDE = "beside kernels"
WITHOUT_IDLE = "Kernels alone, without the idle before them."


def print_whatif(document: Mapping[str, Any], *, stderr: bool = False) -> None:
    """A `timeroof.whatif/1` document as tables."""
    out = console(stderr=stderr)
    out.print(
        Text(
            f"Measured on {plain_text(document['from'])}: {format_seconds(document['measured_s'])},"
            f" bound {format_seconds(document['measured_bound_s'])}",
            style="bold",
        )
    )
    out.print(_machines(document))
    for bar in _bars(document):
        out.print(bar)
    for machine in document["machines"]:
        for change, seconds in list(machine["limiter_changes_s"].items())[:4]:
            out.print(
                Text(
                    f"{plain_text(machine['name'])}: {format_seconds(seconds)} with another"
                    f" limiter, {plain_text(change)}"
                )
            )
    out.print(_rows(document))
    for caption in _captions(document):
        out.print(Text(caption, style="italic"))
    for note in document["notes"]:
        out.print(Text(f"Note: {plain_text(note)}"))


def _machines(document: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("machine", no_wrap=True)
    for column in ("bound", "predicted", "low", "high", "speed-up"):
        table.add_column(column, justify="right", no_wrap=True)
    for m in document["machines"]:
        faster = document["measured_s"] / m["predicted_s"] if m["predicted_s"] else None
        table.add_row(
            Text(plain_text(m["name"])),
            *(format_seconds(m[c]) for c in ("bound_s", "predicted_s", "low_s", "high_s")),
            "?" if faster is None else f"{faster:.2f}x",
        )
    return table


def is_predicted(document: Mapping[str, Any]) -> bool:
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


def _bars(document: Mapping[str, Any]) -> list[Text]:
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


def _bar(name: str, split: Mapping[str, float], longest_s: float) -> Text:
    text = Text(f"{plain_text(name)[:20]:20} ")
    whole_s = sum(split.values()) or 1.0
    for kind, seconds in split.items():
        if seconds > 0 and longest_s > 0:
            text.append(
                "█" * max(1, round(BAR * seconds / longest_s)), COLOURS.get(kind, "bright_black")
            )
    shares = [f"{k} {format_percent(s / whole_s)}" for k, s in split.items() if s > 0]
    return text.append(" " + ", ".join(shares))


def _rows(document: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("kernel", no_wrap=True, overflow="ellipsis", max_width=36)
    table.add_column("now", justify="right", no_wrap=True)
    names = [m["name"] for m in document["machines"]][:3]
    for name in names:
        table.add_column(plain_text(name), justify="right", no_wrap=True)
    longest = sorted(document["rows"], key=lambda row: -(row["time_s"] or 0.0))
    told = told_apart(document["rows"])
    for row in longest[:MOST_ROWS]:
        cells = [
            f"{format_seconds(m['predicted_s'])}{' *' if m['limiter_changes'] else ''}"
            for m in row["machines"][: len(names)]
        ]
        now = format_seconds(row["time_s"])
        table.add_row(Text(plain_text(told[row["id"]])), now, *cells)
    rest = len(document["rows"]) - MOST_ROWS
    if rest > 0:
        table.add_row(Text(f"({rest} more rows)"), "", *([""] * len(names)))
    return table


def told_apart(rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Names by id; those that several rows have are followed by module or shape."""
    counts = Counter(row["short_name"] for row in rows)
    names = {}
    for row in rows:
        where = (row["module"] or row["shape"]) if counts[row["short_name"]] > 1 else None
        names[row["id"]] = f"{row['short_name']} {where}" if where else row["short_name"]
    return names


def has_idle(document: Mapping[str, Any]) -> bool:
    """Whether the idle before kernels is known, and stands beside them."""
    return any((row["elapsed_s"] or 0.0) > (row["time_s"] or 0.0) for row in document["rows"])


def _captions(document: Mapping[str, Any]) -> list[str]:
    changes = any(m["limiter_changes"] for row in document["rows"] for m in row["machines"])
    return [
        *(["* another limiter"] if changes else []),
        *([WITHOUT_IDLE] if has_idle(document) else []),
    ]
