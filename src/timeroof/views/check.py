"""The gate's result: a table for a terminal, and Markdown for a pull request."""

from __future__ import annotations

from rich.text import Text

from timeroof.core.columns import Row
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.model.check.gate import SLOWDOWN
from timeroof.views.compare import speed_words
from timeroof.views.style import markdown_text
from timeroof.views.terminal import Cell, Column, console, fitted_table, plain_text

PREFIXES = {
    "n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3,
    "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
}  # fmt: skip
COLUMNS = (
    Column("limit", "prose"),
    Column("allowed", "figure"),
    Column("found", "figure"),
    Column("noise", "figure", leaves=1),
    Column("", "whole"),
)


def print_check(document: Row, *, stderr: bool = True) -> None:
    """A `timeroof.check/1` document as a table."""
    out = console(stderr=stderr)
    styles = {"holds": "green", "FAIL": "bold red", "INCONCLUSIVE": "bold yellow"}
    words = [(limit, _word(limit)) for limit in document["limits"]]
    rows: list[list[Cell]] = [[*cells(limit), Text(word, styles[word])] for limit, word in words]
    out.print(fitted_table(COLUMNS, rows, out.width))
    for note in document["notes"]:
        out.print(Text(f"Note: {plain_text(note)}"))


def cells(limit: Row) -> tuple[str, str, str, str]:
    """A limit's name, allowed value, value found and noise as a person reads them."""
    what = plain_text(limit["what"])
    if limit["note"]:
        what += f" ({plain_text(limit['note'])})"
    noise = "unknown" if limit["noise"] is None else shown(limit["noise"], limit["unit"])
    if limit["unit"] == "share" and (limit["noise"] or 0.0) > 1:
        noise = "over 100 %"
    return what, allowed(limit), _found(limit), noise


def _found(limit: Row) -> str:
    """A value as a person reads it: a slow-down or speed-up by large factors is one of times."""
    value = limit["value"]
    if limit["what"] != SLOWDOWN or value is None or -0.5 < value < 1:
        return shown(value, limit["unit"])
    return speed_words(1.0, 1.0 + value)


def allowed(limit: Row) -> str:
    """A limit as it was typed, never rounded to another one; a baseline's share to six digits.

    >>> allowed({"limit": 1.5, "unit": ""}), allowed({"limit": 0.12345, "unit": "share"})
    ('1.5', '12.345 %')
    >>> allowed({"limit": 0.0123456, "unit": "s"}), allowed({"limit": 3.25e9, "unit": "B"})
    ('12.3456 ms', '3.25 GB')
    """
    value, unit = limit["limit"], limit["unit"]
    digits = 12 if limit.get("baseline") is None else 6
    if unit == "share":
        return f"{_exact(value * 100, digits)} %"
    if unit == "":
        return _exact(value, digits)
    # The rounded text has the prefix that a person expects; its number is put back.
    rounded = format_seconds(value) if unit == "s" else format_amount(value, unit)
    prefix = rounded.rpartition(" ")[2]
    return f"{_exact(value / PREFIXES[prefix.removesuffix(unit)], digits)} {prefix}"


def _exact(value: float, digits: int) -> str:
    """A number without an exponent where it is not huge, and without idle zeros."""
    return f"{value:,.0f}" if value == round(value) and value < 1e15 else f"{value:.{digits}g}"


def shown(value: float | None, unit: str) -> str:
    """A value in the unit of its limit.

    >>> shown(0.05, "share"), shown(0.0123, "s"), shown(500, ""), shown(None, "s")
    ('5 %', '12.3 ms', '500', '?')
    """
    if value is None:
        return "?"
    if unit == "share":
        return format_percent(value, 3).replace(".00", "")
    if unit == "s":
        return format_seconds(value)
    return f"{value:,.0f}" if unit == "" else format_amount(value, unit)


def _word(limit: Row) -> str:
    if limit["passed"] and limit["note"]:
        return "INCONCLUSIVE"
    return "holds" if limit["passed"] else "FAIL"


def markdown_check(document: Row, comparison: str = "") -> str:
    """The check as Markdown, with what changed against the baseline if that is given."""
    verdict = "passed" if document["passed"] else "FAILED"
    lines = [f"### timeroof check: {verdict}", "", "| limit | allowed | found | noise | |"]
    lines.append("|---|---:|---:|---:|---|")
    for limit in document["limits"]:
        what, *numbers = cells(limit)
        lines.append(f"| {markdown_text(what)} | {' | '.join(numbers)} | {_word(limit)} |")
    lines += ["", *(markdown_text(note) for note in document["notes"])]
    if comparison:
        lines += ["", comparison]
    return "\n".join(lines).rstrip() + "\n"
