"""A what-if as a page and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from timeroof.core.units import format_percent, format_seconds
from timeroof.views.compare_page import Drawing, Table, static_page
from timeroof.views.explain import markdown_text
from timeroof.views.whatif import WITHOUT_IDLE, has_idle, told_apart

MOST_ROWS = 100
_MACHINES = ("machine", "bound", "predicted", "low", "high", "speed-up")


def whatif_page(document: Mapping[str, Any], drawings: Sequence[Drawing]) -> str:
    """A `timeroof.whatif/1` document as a page."""
    names = [m["name"] for m in document["machines"]]
    lead = (
        f"Measured on {document['from']}: {format_seconds(document['measured_s'])}. Predicted: "
        + ", ".join(f"{m['name']} {format_seconds(m['predicted_s'])}" for m in document["machines"])
    )
    return static_page(
        f"{document['from']} → {', '.join(names[:4])}{'…' if len(names) > 4 else ''}",
        lead,
        drawings,
        _tables(document, names),
        document["notes"],
    )


def _tables(document: Mapping[str, Any], names: list[str]) -> list[Table]:
    machines = [machine_cells(document, m) for m in document["machines"]]
    heads = ("kernel", "limiter", "now", *names)
    return [
        Table("Machines", _MACHINES, machines),
        Table("Limiters that change", ("machine", "from → to", "predicted"), _changes(document)),
        Table("Kernels", heads, _kernels(document), _below(document)),
    ]


def machine_cells(document: Mapping[str, Any], machine: Mapping[str, Any]) -> list[str]:
    """A machine's line of the table."""
    faster = document["measured_s"] / machine["predicted_s"] if machine["predicted_s"] else None
    seconds = [format_seconds(machine[c]) for c in ("bound_s", "predicted_s", "low_s", "high_s")]
    return [machine["name"], *seconds, "?" if faster is None else f"{faster:.2f}x"]


def _changes(document: Mapping[str, Any]) -> list[list[str]]:
    return [
        [machine["name"], change, format_seconds(seconds)]
        for machine in document["machines"]
        for change, seconds in list(machine["limiter_changes_s"].items())[:8]
    ]


def _kernels(document: Mapping[str, Any]) -> list[list[str]]:
    longest = sorted(document["rows"], key=lambda row: -(row["time_s"] or 0.0))[:MOST_ROWS]
    told = told_apart(document["rows"])
    return [
        [
            told[row["id"]],
            row["limiter"],
            format_seconds(row["time_s"]),
            *(_predicted(m) for m in row["machines"]),
        ]
        for row in longest
    ]


def _predicted(machine: Mapping[str, Any]) -> str:
    seconds = (
        f"{format_seconds(machine['predicted_s'])}"
        f" ({format_seconds(machine['low_s'])} to {format_seconds(machine['high_s'])})"
    )
    return f"{seconds}, {machine['limiter']}" if machine["limiter_changes"] else seconds


def _below(document: Mapping[str, Any]) -> str:
    """What stands below the kernels: which seconds these are, and how many rows are left out."""
    rest = len(document["rows"]) - MOST_ROWS
    more = f"The {MOST_ROWS} longest; {rest} more are in the JSON." if rest > 0 else ""
    return " ".join(filter(None, [more, WITHOUT_IDLE if has_idle(document) else ""]))


def markdown_whatif(document: Mapping[str, Any]) -> str:
    """A what-if as Markdown."""
    share = document.get("known_time_share")
    known = "" if share is None else f", {format_percent(share)} of its time with known work"
    lines = [
        f"**Measured on {markdown_text(document['from'])}:"
        f" {format_seconds(document['measured_s'])}{known}**",
        "",
        f"| {' | '.join(_MACHINES)} |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for machine in document["machines"]:
        name, *numbers = machine_cells(document, machine)
        lines.append(f"| {markdown_text(name)} | {' | '.join(numbers)} |")
    for name, change, seconds in _changes(document):
        lines += [
            "",
            f"{markdown_text(name)}: {seconds} with another limiter, {markdown_text(change)}",
        ]
    lines += ["", *(f"- {markdown_text(note)}" for note in document["notes"])]
    return "\n".join(lines).rstrip() + "\n"
