"""Nsight Compute's CSV in all its layouts: long, wide, transposed, one metric per file."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.format import ReadOptions
from timeroof.read.launches import shown_list
from timeroof.read.nvidia.ncu_console import is_console, read_console
from timeroof.read.nvidia.ncu_long import is_long, read_long
from timeroof.read.nvidia.ncu_parts import Part
from timeroof.read.nvidia.ncu_profile import profile_of_parts
from timeroof.read.nvidia.ncu_wide import (
    is_summed,
    is_transposed,
    is_wide,
    read_transposed,
    read_wide,
)
from timeroof.read.opening import Entry, Input, folder_in, short_name
from timeroof.read.tables import find_table, split_ways
from timeroof.read.text import head_text, lines

# Lines that ncu itself prints around a table.
_PROF = re.compile(r"(?m)^==PROF== ")
_TROUBLE = re.compile(r"^==(?:ERROR|WARNING)== (.*?)\.?\s*$")
_HEAD_LINES = 400


def is_table(header: list[str]) -> bool:
    """Whether a header is of one of the layouts with one header line."""
    return is_long(header) or is_wide(header) or is_summed(header)


def sniff_text(head: str) -> bool:
    """Whether the beginning of a text is Nsight Compute's CSV, preamble or table."""
    first = head.split("\n")[:_HEAD_LINES]
    if any(is_table(fields) for line in first for _, fields in split_ways(line)):
        return True
    if is_transposed(first):
        return True
    # All of the beginning is preamble, or the profiled program failed.
    return bool(_PROF.search(head)) and not is_console(head)


def read_part(entry: Entry, folder: str) -> Part:
    """One file's launches, whatever its layout, or an error that says why there are none."""
    if is_transposed(head_text(entry).split("\n")[:_HEAD_LINES]):
        return read_transposed(lines(entry), entry.name, folder)
    table = find_table(entry, is_table)
    if table is None:
        part = read_console(lines(entry), entry.name, folder)
        if part is None:
            raise _no_table(entry)
        return part
    if is_long(table.header):
        part = read_long(table, entry.name, folder)
    else:
        part = read_wide(table, entry.name, folder, summed=not is_wide(table.header))
    if not part.table.height:
        raise InputError("has a table without a launch", where=entry.name, advice="record it again")
    return part


def _no_table(entry: Entry) -> InputError:
    troubles = [match[1] for line in lines(entry) if (match := _TROUBLE.match(line))]
    why = f" ({shown_list(troubles, 2)})" if troubles else ""
    return InputError(
        f"holds no table, only messages of Nsight Compute{why}",
        where=entry.name,
        advice="the profiled program failed or launched no kernel: run it again",
    )


@dataclass(frozen=True)
class NcuCsv:
    """CSV of `ncu`, one file or many that belong together."""

    name: str = "ncu-csv"
    title: str = "Nsight Compute CSV"

    def sniff(self, found: Input) -> bool:
        """A header with kernels and metrics in any of the files."""
        return any(sniff_text(head_text(entry)) for entry in found.entries)

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """One profile of all files; those that hold nothing are named in a note."""
        parts, failures = [], list[InputError]()
        for index, entry in enumerate(found.entries):
            options.progress(entry.name, index / len(found.entries))
            try:
                parts.append(read_part(entry, folder_in(found, entry)))
            except InputError as error:
                failures.append(error)
        if failures and (not parts or not found.is_folder):
            raise failures[0]
        profile = profile_of_parts(
            parts, found.name, is_folder=found.is_folder, architecture=options.architecture
        )
        notes = [f"Left out: {short_name(e.where or '')} {e.what}." for e in failures]
        return replace(profile, notes=(*profile.notes, *notes))


FORMAT = NcuCsv()
