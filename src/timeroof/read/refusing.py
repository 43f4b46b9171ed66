"""What to say about a file that no format reads: what it is, and what to do."""

from __future__ import annotations

import re

from timeroof.core.errors import InputError
from timeroof.read.launches import shown_list
from timeroof.read.opening import Entry
from timeroof.read.tables import split_ways
from timeroof.read.text import head_text

# Columns as people call them, and what the tidy table calls them.
_MEANT = (
    (re.compile(r"(?i)^(kernel|kernel[ _]?name|operator|op[ _]?name)$"), "name"),
    (re.compile(r"(?i)(^|_)(time|runtime|duration|mean|elapsed)(_\w+)?_(s|ms|us|ns)$"), "time_s"),
    (re.compile(r"(?i)^(total_)?flops?$"), "flops_fp32"),
    (re.compile(r"(?i)^(\w+_)?bytes$"), "bytes_dram"),
    (re.compile(r"(?i)^(count|launches|instances)$"), "calls"),
)
_BINARY = (
    (b"\x89PNG", "a picture"),
    (b"\x7fELF", "a program"),
    (b"%PDF", "a PDF"),
    (b"SQLite format 3", "an SQLite file without the tables of a profiler"),
    (b"QDSTRM", "a raw Nsight Systems stream: open it in Nsight Systems once"),
)

# How far a packed file of no known profiler is searched for damage.
MOST_CHUNKS = 16


def refusal(entry: Entry) -> InputError:
    """An error that says what an unreadable file seems to be."""
    # Damage that hid the content shows itself here; of plain files the head tells enough.
    head = b""
    for place, chunk in enumerate(entry.chunks()):
        head = head or chunk[:4096]
        if entry.plain_path is not None or place >= MOST_CHUNKS:
            break
    what, advice = _what(entry, head)
    return InputError(what, where=entry.name, advice=advice)


def _what(entry: Entry, head: bytes) -> tuple[str, str]:
    if not head:
        return "is empty", "record it again"
    for magic, name in _BINARY:
        if head.startswith(magic):
            return f"is {name}", "see docs/reading.md for what can be read"
    text = head_text(entry)
    if head.lstrip()[:1] in (b"{", b"["):
        return (
            "is JSON, but of no profiler that is known",
            "see docs/reading.md for what can be read",
        )
    first = text.split("\n", 1)[0]
    fields = max((fields for _, fields in split_ways(first)), key=len, default=[])
    if len(fields) > 1 and text.count("\n"):
        return _table(fields)
    if "\0" in text[:4096] or text[:4096].count("\ufffd") > 40:
        return "is a binary file of no profiler that is known", "see docs/reading.md"
    return "is text, but of no profiler that is known", "see docs/reading.md for what can be read"


def _table(fields: list[str]) -> tuple[str, str]:
    """A table that people made: which columns it lacks, and which could be meant."""
    missing = [c for c in ("name", "time_s") if c not in fields]
    meant = [
        f"{field!r} to {target!r}"
        for pattern, target in _MEANT
        if target not in fields
        if (field := next((f for f in fields if pattern.search(f)), None)) is not None
    ]
    rename = f"rename {', '.join(meant)} and use seconds and bytes" if meant else "add them"
    return (
        f"is a table that no profiler wrote ({len(fields)} columns: {shown_list(fields, 4)});"
        f" it has no column {' and no column '.join(repr(m) for m in missing)}",
        f"to bring your own numbers, {rename}: see docs/tidy.md",
    )
