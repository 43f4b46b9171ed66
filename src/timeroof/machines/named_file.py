"""A file that is named as a machine: a machine file under another suffix, or what it is instead."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import msgspec

from timeroof.core.errors import InputError
from timeroof.core.machine import Machine
from timeroof.core.machine_file import LARGEST_FILE_BYTES, read_machine

_WAY = "`timeroof machine NAME --save FILE.toml` writes a machine file, which `--machine FILE.toml`"
HOW_TO = f"{_WAY} of any command takes"
HOW_TO_READ = f"`timeroof read FILE --machine NAME` reads it; {HOW_TO}"


def machine_in_file(path: Path) -> Machine:
    """The machine in a TOML file whose name does not end in .toml; other files are refused."""
    if not path.is_file():
        return read_machine(path)
    kind = _kind(path)
    if kind is not None:
        what, advice = kind
        raise InputError(f"{what}, no machine file", where=str(path), advice=advice)
    try:
        return read_machine(path)
    except InputError as error:
        advice = f"{error.advice}; {HOW_TO}" if error.advice else HOW_TO
        raise InputError(error.what, where=error.where, advice=advice) from error


def _kind(path: Path) -> tuple[str, str] | None:
    """What a file is and what to do with it; None for one that may be a machine file."""
    try:
        if zipfile.is_zipfile(path):
            return "is a saved run or an archive", HOW_TO_READ
        with path.open("rb") as stream:
            raw = stream.read(LARGEST_FILE_BYTES + 1)
    except OSError:
        return None  # whoever reads it says why it cannot be read
    if raw.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return _json_kind(msgspec.json.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None if len(raw) <= LARGEST_FILE_BYTES else _json_kind(None)


def _json_kind(data: Any) -> tuple[str, str]:
    fields = data if isinstance(data, dict) else {}
    schema = fields.get("schema")
    if isinstance(schema, str) and schema.startswith("timeroof."):
        return f"is a {schema[:40]} document, for scripts", HOW_TO
    if {"name", "ceilings", "memory"} <= set(fields):
        return "is a machine as JSON, for scripts", HOW_TO
    return "is JSON", HOW_TO_READ
