"""What to read and how: which files are of which format, and which belong together."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import PurePath

import msgspec

from timeroof.core.errors import InputError, Note
from timeroof.read.csv import split_ways
from timeroof.read.events import shown_list
from timeroof.read.formats import Format, sniffed
from timeroof.read.open import Entry, Input, short_name
from timeroof.read.text import head_text

# What to say about a file that no format reads: what it is, and what to do.
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

_NSYS_EXPORT = (
    "a report of Nsight Systems, which only Nsight Systems can open",
    "export it: nsys export --type sqlite REPORT, then read the .sqlite file",
)
_PERFETTO = (
    "a trace in Perfetto's binary format",
    "record another one: rocprofv3 --output-format json, torch.profiler's export_chrome_trace",
)
# Binary formats that have no magic number of their own.
_BY_SUFFIX = {
    ".pftrace": _PERFETTO,
    ".perfetto-trace": _PERFETTO,
    ".nsys-rep": _NSYS_EXPORT,
    ".qdrep": _NSYS_EXPORT,
    ".et": (
        "a Chakra execution trace in protobuf",
        "convert it: chakra_jsonizer --input_filename TRACE.et --output_filename TRACE.json",
    ),
}

_PRINTED = (
    "is a table that torch.profiler printed, without shapes or times of kernels",
    "save the trace itself: profiler.export_chrome_trace('trace.json.gz')",
)
_NO_PROFILER = (
    "is text, but of no profiler that is known", "see docs/reading.md for what can be read",
)  # fmt: skip
_PACKED = re.compile(r"(?i)\.(gz|zst|xz)$")

# How far a packed file of no known profiler is searched for damage.
MOST_CHUNKS = 16


def refusal(entry: Entry, notes: list[str]) -> InputError:
    """An error that says what an unreadable file seems to be, and which readers failed on it."""
    # Damage that hid the content shows itself here; of plain files the head tells enough.
    head = b""
    for place, chunk in enumerate(entry.chunks()):
        head = head or chunk[:4096]
        if entry.plain_path is not None or place >= MOST_CHUNKS:
            break
    what, advice = _what(entry, head)
    return InputError(" ".join([what, *notes]), where=entry.name, advice=advice)


def _why(entry: Entry) -> str:
    try:
        return refusal(entry, []).what
    except InputError as damage:
        return damage.what


def _binary(entry: Entry, head: bytes) -> tuple[str, str] | None:
    """What a file is by its first bytes, or by its name where it is no text."""
    for magic, name in _BINARY:
        if head.startswith(magic):
            return f"is {name}", "see docs/reading.md for what can be read"
    for suffix, (name, advice) in _BY_SUFFIX.items():
        if entry.name.lower().endswith(suffix) and (b"\0" in head or not head.isascii()):
            return f"is {name}", advice
    return None


def _what(entry: Entry, head: bytes) -> tuple[str, str]:
    if not head:
        return "is empty", "record it again"
    if binary := _binary(entry, head):
        return binary
    text = head_text(entry)
    if head.lstrip()[:1] in (b"{", b"["):
        return (
            "is JSON, but of no profiler that is known",
            "see docs/reading.md for what can be read",
        )
    if _is_no_text(text[:4096]):
        return "is a binary file of no profiler that is known", "see docs/reading.md"
    first = text.split("\n", 1)[0]
    fields = max((fields for _, fields in split_ways(first)), key=len, default=[])
    if len(fields) > 1 and text.count("\n"):
        return _table(fields)
    return _PRINTED if "Self CPU" in text else _NO_PROFILER


def _is_no_text(text: str) -> bool:
    """Whether bytes are none of any encoding: zeros, or many that are letters of no alphabet.

    >>> [_is_no_text(t) for t in ("a\\x00b", "name,Gr\ufffd\ufffde\\n1,2", "\ufffd\\x01\ufffd,")]
    [True, False, True]
    """
    odd = sum(c == "\ufffd" or (c < " " and c not in "\n\t\r\f\x1b") for c in text)
    return "\0" in text or odd > len(text) / 5


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


# Of files in a folder that were not read, so many are named with a reason.
MOST_NAMED = 4
# In a folder of more files, the format of the last one is tried first.
MANY = 16


class Job(msgspec.Struct, frozen=True):
    """One input for one reader, and the inputs that lend it what it lacks."""

    format: Format
    found: Input
    companions: tuple[Input, ...] = ()


@dataclass
class Plan:
    """The jobs of one call; several are ranks of one run."""

    jobs: list[Job] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plan_of(found: Input, forced: Format | None = None) -> Plan:
    """How to read an input, or an error that says why it cannot be read."""
    if len(found.entries) == 1:
        chosen = forced or sniffed(found)
        if chosen is None:
            raise refusal(found.only, found.notes)
        return Plan([Job(chosen, found)])
    if not found.entries:
        raise InputError("holds no file", where=found.name, advice="name the folder of a run")
    if forced is not None:
        return Plan(_jobs(forced, found, list(found.entries)))
    whole = sniffed(found)
    # Nsight Compute's CSV takes any files of its own together, whatever lies beside them.
    if whole is not None and whole.name != "ncu-csv":
        return Plan([Job(whole, found)])
    return _plan_by_entry(found)


def _plan_by_entry(found: Input) -> Plan:
    groups: dict[str, list[Entry]] = defaultdict(list)
    formats: dict[str, Format] = {}
    unknown: list[Entry] = []
    likely = None
    for entry in found.entries:
        chosen = sniffed(Input(entry.name, (entry,), notes=found.notes), likely)
        likely = chosen if len(found.entries) > MANY else None
        if len(found.entries) > MANY:
            entry.__dict__.pop("head", None)  # thousands of beginnings are a lot to hold
        if chosen is None:
            unknown.append(entry)
        else:
            groups[chosen.name].append(entry)
            formats[chosen.name] = chosen
    if unknown and (not found.is_folder or len(found.entries) == 1):
        raise refusal(unknown[0], found.notes)
    companions = _companions(groups)
    if not groups:
        names = shown_list([short_name(e.name) for e in unknown])
        advice = "see docs/reading.md for what can be read"
        raise InputError(f"holds no file of a profiler that is known ({names})", found.name, advice)
    if len(groups) > 1:
        raise _mixed(found, groups)
    ((name, entries),) = groups.items()
    plan = Plan(_jobs(formats[name], found, entries, companions))
    if unknown:
        why = "; ".join(f"{short_name(e.name)} {_why(e)}" for e in unknown[:MOST_NAMED])
        more = f"; and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
        text = f"Not read: {why}{more}."
        plan.notes.append(Note(text, "not-read", "warning"))
    return plan


def empty_files(found: Input, plan: Plan) -> list[str]:
    """A warning of files without a byte that are called as those that are read: lost ranks."""
    kinds = {_kind(entry.name) for job in plan.jobs for entry in job.found.entries}
    lost = [short_name(name) for name in found.empty if _kind(name) in kinds]
    if not lost:
        return []
    are = "is" if len(lost) == 1 else "are"
    text = f"Not read: {shown_list(lost, MOST_NAMED)} {are} empty."
    return [Note(text, "not-read", "warning")]


def _kind(name: str) -> str:
    """What a name says of a format, packed or not."""
    return PurePath(_PACKED.sub("", name)).suffix.lower()


def _mixed(found: Input, groups: dict[str, list[Entry]]) -> InputError:
    kinds = "; ".join(
        f"{name}: {shown_list([short_name(e.name) for e in entries], 2)}"
        for name, entries in groups.items()
    )
    what = f"has files of several profilers ({kinds}), which may be several runs"
    return InputError(what, found.name, "name the files of one run, or choose with --format")


def _companions(groups: dict[str, list[Entry]]) -> list[tuple[Input, ...]]:
    """ExecutionTraces that lie beside Kineto traces: they lend them shapes."""
    if not {"execution-trace", "kineto"} <= set(groups):
        return []
    lent = [Input(e.name, (e,)) for e in groups.pop("execution-trace")]
    traces = len(groups["kineto"])
    return [(one,) for one in lent] if traces == len(lent) else [tuple(lent)] * traces


def _jobs(
    chosen: Format,
    found: Input,
    entries: list[Entry],
    companions: list[tuple[Input, ...]] | None = None,
) -> list[Job]:
    if chosen.folders:
        return [Job(chosen, Input(found.name, tuple(entries), found.is_folder, found.notes))]
    lent = companions or [()] * len(entries)
    return [
        Job(chosen, Input(e.name, (e,)), borrowed)
        for e, borrowed in zip(entries, lent, strict=True)
    ]
