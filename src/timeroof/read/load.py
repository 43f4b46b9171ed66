"""Read what a user names: files, folders, archives, several ranks, of whatever profiler.

First a plan: which files are of which format, and which belong together.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from timeroof.core.checked import in_utf8
from timeroof.core.errors import InputError, TimeroofError, UsageError
from timeroof.core.machine import Machine
from timeroof.core.profile import Profile, SourceFile
from timeroof.core.run_file import SavedRun
from timeroof.read.formats import Progress, ReadOptions, format_named, silent
from timeroof.read.open import DEFAULT_MAX_BYTES, Input, names_below, open_input, path_of

if TYPE_CHECKING:
    from timeroof.read.fleet import Fleet

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import PurePath

from timeroof.core.errors import Note
from timeroof.read.csv import split_ways
from timeroof.read.events import shown_list
from timeroof.read.formats import Format, sniffed
from timeroof.read.open import Entry, short_name
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


@contextmanager
def _hashing(jobs: list[Job]) -> Iterator[Callable[[], dict[str, SourceFile]]]:
    """Hash files as they lie on disk in a thread beside the reader: names and digests by path.

    Only the part of a path below what all files share is kept: a report must not tell where on
    somebody's disk a run was.
    """
    inputs = [found for job in jobs for found in (job.found, *job.companions)]
    paths = list(dict.fromkeys(path_of(e) for found in inputs for e in found.entries))
    pool = ThreadPoolExecutor(1)
    digests = {path: pool.submit(_sha256, Path(path)) for path in paths}
    names = names_below(paths)
    try:
        yield lambda: {
            path: SourceFile(name=name, sha256=digest.result())
            for name, (path, digest) in zip(names, digests.items(), strict=True)
        }
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


# The format of our own saved runs, which say themselves what they were made of.
SAVED = "timeroof"


def read_files(
    paths: list[Path],
    *,
    format: str | None = None,  # noqa: A002
    max_bytes: int = DEFAULT_MAX_BYTES,
    progress: Progress = silent,
    architecture: str | None = None,
) -> Profile:
    """The profile that files hold, their format told by their content.

    Several files are parts of one run (metrics of separate runs, an ExecutionTrace beside a
    Kineto trace) or its ranks. `architecture` names the chip where the files do not.
    """
    options = ReadOptions(progress=progress, architecture=architecture)
    return read_run(paths, options, format=format, max_bytes=max_bytes).profile


def read_run(
    paths: list[Path],
    options: ReadOptions,
    *,
    format: str | None = None,  # noqa: A002
    max_bytes: int = DEFAULT_MAX_BYTES,
    machine: Machine | None = None,
    fleet: Fleet | None = None,
) -> SavedRun:
    """The profile that files hold, and the machine where it is a saved run that has one.

    `machine` is the one that work is counted for, where ranks are reduced apart; `fleet` says
    where, and which of them is wanted.
    """
    forced = None if format is None else format_named(format)
    plan = Plan()
    if fleet is not None and fleet.is_elsewhere:
        # Other computers know no working folder of ours.
        paths = [path.absolute() for path in paths]
    for found in _inputs(paths, max_bytes):
        part = plan_of(found, forced)
        plan.jobs += part.jobs
        plan.notes += [*part.notes, *found.notes, *empty_files(found, part)]
    if len(plan.jobs) == 1 and plan.jobs[0].format.name == SAVED:
        from timeroof.read.saved_run import load_entry

        return load_entry(plan.jobs[0].found.only)
    if len(plan.jobs) == 1 and not (fleet is not None and fleet.is_asked):
        run = SavedRun(_read_one(plan.jobs[0], options), machine=None)
    else:
        run = _read_ranks(plan.jobs, options, machine, fleet)
    notes = (*run.profile.notes, *plan.notes)
    return replace(run, profile=in_utf8(replace(run.profile, notes=notes)))


def _read_one(job: Job, options: ReadOptions) -> Profile:
    with _hashing([job]) as hashed:
        profile = _profile_of(job, replace(options, companions=job.companions))
        options.progress("", 1.0)
        return _with_files(profile, job, hashed())


def _read_ranks(
    jobs: list[Job], options: ReadOptions, machine: Machine | None, fleet: Fleet | None
) -> SavedRun:
    """Several files of one run: many or large ones by workers, few here."""
    from timeroof.read import fleet as many
    from timeroof.read.reduced import Rank

    fleet = fleet or many.Fleet()
    if fleet.is_asked or many.is_worth_reducing(jobs):
        orders = [
            Rank(j.format.name, j.found, j.companions, options.architecture, machine) for j in jobs
        ]
        return many.read_fleet(orders, fleet, options.progress)
    return SavedRun(_read_side_by_side(jobs, options), machine=None)


def _read_side_by_side(jobs: list[Job], options: ReadOptions) -> Profile:
    """All files read here, one after the other; one that cannot be read is left out."""
    from timeroof.read.fleet import refuse_if_none
    from timeroof.read.ranks import merged_ranks, to_merge
    from timeroof.read.reduced import summary_of

    with _hashing(jobs) as hashed:
        answers = [_read_here(job, options, i, len(jobs)) for i, job in enumerate(jobs)]
        files = hashed()
    options.progress("", 1.0)
    names = names_below([job.found.name for job in jobs])
    notes = refuse_if_none(answers, names)
    profiles = {
        names[i]: _with_files(answer, jobs[i], files)
        for i, answer in enumerate(answers)
        if not isinstance(answer, TimeroofError)
    }
    summaries = {name: summary_of(profile) for name, profile in profiles.items()}
    archived = {name for name, job in zip(names, jobs, strict=True) if "!/" in job.found.name}
    kept, left_out = to_merge(summaries, archived)
    merged = merged_ranks([profiles[name] for name in kept], kept)
    return replace(merged, notes=(*merged.notes, *notes, *left_out))


def _inputs(paths: list[Path], max_bytes: int) -> list[Input]:
    """What the paths hold; files named one by one make one input, folders one each."""
    if not paths:
        raise UsageError("no file is named", advice="name a file or folder to read")
    # Not Path.resolve: it raises where links lead in a circle, which opening tells in words.
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        raise UsageError("the same file is named twice", advice="name every file once")
    inputs = [_opened(path, max_bytes, several=len(paths) > 1) for path in paths]
    if len(inputs) == 1 or any(len(found.entries) != 1 for found in inputs):
        return inputs
    entries = tuple(found.only for found in inputs)
    return [Input(f"{inputs[0].name} and {len(inputs) - 1} more", entries)]


def _opened(path: Path, max_bytes: int, *, several: bool) -> Input:
    try:
        return open_input(path, max_bytes)
    except InputError as error:
        if several and error.advice:
            error.advice += ", or leave it out"
        raise


def _read_here(job: Job, options: ReadOptions, done: int, jobs: int) -> Profile | TimeroofError:
    def part(what: str, share: float) -> None:
        options.progress(what, (done + share) / jobs)

    own = replace(options, progress=part, companions=job.companions)
    try:
        return _profile_of(job, own)
    except TimeroofError as error:
        return error


def _profile_of(job: Job, options: ReadOptions) -> Profile:
    """What its reader makes of a job; every error names a file, also one of a table's columns."""
    try:
        return job.format.read(job.found, options)
    except InputError as error:
        names = {job.found.name, *(entry.name for entry in job.found.entries)}
        if error.where is not None and not any(Path(n).name in error.where for n in names):
            error.where = job.found.name
            error.args = (error.message,)
        raise


def _with_files(profile: Profile, job: Job, files: dict[str, SourceFile]) -> Profile:
    """The profile with the names and digests of the files that it came from."""
    if job.format.name == SAVED:
        return profile
    inputs = [job.found, *job.companions]
    own = dict.fromkeys(path_of(e) for found in inputs for e in found.entries)
    source = msgspec.structs.replace(profile.source, files=[files[key] for key in own])
    return replace(profile, source=source)
