"""Machines as TOML files: the catalogue's form, for reading and for sharing one's own."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from timeroof.core.errors import InputError
from timeroof.core.machine import (
    MACHINE_SCHEMA,
    Ceiling,
    DeviceKind,
    Launching,
    Machine,
    MemoryLevel,
    check_machine,
)
from timeroof.core.resources import FAULT, LAUNCH, Origin, Scope
from timeroof.core.schema import check_schema
from timeroof.core.writing import write_atomically

LARGEST_FILE_BYTES = 4 * 2**20

# What a file may give as `source` without spelling it out under [sources].
COMMON_SOURCES = {
    "default-gpu-launch": (
        "default, not measured on this device: the 4.2 us per launch that arXiv 2009.04598"
        " measured on a V100"
    ),
}


class _CeilingEntry(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    resource: str
    rate: float | None = None
    seconds_each: float | None = None
    origin: Origin = "user"
    scope: Scope = "all"
    threads: int | None = None
    spread: float | None = None
    source: str = ""
    variants: dict[str, float] = {}


class _MachineFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    schema: str
    name: str
    title: str
    ceilings: list[_CeilingEntry]
    vendor: str = ""
    kind: DeviceKind = "gpu"
    architecture: str = ""
    compute_capability: str | None = None
    launching: Launching = "asynchronous"
    device_names: list[str] = []
    sources: dict[str, str] = {}
    memory: list[MemoryLevel] = []
    software: dict[str, str] = {}
    emulated: dict[str, str] = {}
    notes: list[str] = []


def read_machine(path: Path) -> Machine:
    """Read a machine from a TOML file."""
    try:
        if path.exists() and not path.is_file():
            raise InputError("is no file", where=str(path), advice="name a TOML file")
        with path.open("rb") as stream:
            raw = stream.read(LARGEST_FILE_BYTES + 1)
        if len(raw) > LARGEST_FILE_BYTES:
            raise InputError(
                f"is too large for a machine file (over {LARGEST_FILE_BYTES // 2**20} MiB)",
                where=str(path),
            )
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", where=str(path), advice="check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            "is not UTF-8 text", where=str(path), advice="machine files are TOML in UTF-8"
        ) from error
    return parse_machine(text, where=str(path))


def parse_machine(text: str, where: str) -> Machine:
    """Make a machine from the text of a TOML file."""
    try:
        data: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not valid TOML ({error})", where=where) from error
    check_schema(data.get("schema"), MACHINE_SCHEMA, where)
    try:
        entry = msgspec.convert(data, _MachineFile)
    except msgspec.ValidationError as error:
        raise InputError(
            str(error),
            where=where,
            advice="see the machine files in docs/machines.md for the fields",
        ) from error
    return check_machine(_machine_of(entry, where), where)


def _machine_of(entry: _MachineFile, where: str) -> Machine:
    sources = COMMON_SOURCES | entry.sources
    return Machine(
        name=entry.name,
        device=entry.title,
        ceilings=[
            _ceiling_of(ceiling, index, sources, where)
            for index, ceiling in enumerate(entry.ceilings)
        ],
        memory=[
            msgspec.structs.replace(level, source=sources.get(level.source, level.source))
            for level in entry.memory
        ],
        software=entry.software,
        vendor=entry.vendor,
        kind=entry.kind,
        architecture=entry.architecture,
        compute_capability=entry.compute_capability,
        launching=entry.launching,
        device_names=entry.device_names,
        emulated=entry.emulated,
        notes=entry.notes,
    )


def _ceiling_of(entry: _CeilingEntry, index: int, sources: dict[str, str], where: str) -> Ceiling:
    field = f"ceilings[{index}] ({entry.resource})"
    if (entry.rate is None) == (entry.seconds_each is None):
        raise InputError(
            f"{field} needs one of 'rate' and 'seconds_each'",
            where=where,
            advice="give the rate per second, or the seconds that one launch or fault takes",
        )
    if entry.seconds_each is not None and not (
        entry.seconds_each > 0 and entry.resource in (LAUNCH, FAULT)
    ):
        raise InputError(
            f"{field} has seconds_each {entry.seconds_each}",
            where=where,
            advice="it is above 0, and only launch and fault have one; others have a rate",
        )
    rate = entry.rate if entry.rate is not None else 1.0 / (entry.seconds_each or 1.0)
    return Ceiling(
        resource=entry.resource,
        rate=rate,
        origin=entry.origin,
        scope=entry.scope,
        threads=entry.threads,
        spread=entry.spread,
        source=sources.get(entry.source, entry.source),
        variants=entry.variants,
    )


def machine_toml(machine: Machine) -> str:
    """The TOML text of a machine, in the catalogue's form."""
    import tomli_w

    data = msgspec.to_builtins(machine)
    device = data.pop("device")
    data = {"schema": MACHINE_SCHEMA, "name": data.pop("name"), "title": device} | data
    for ceiling in data["ceilings"]:
        if ceiling["resource"] in (LAUNCH, FAULT):
            ceiling["seconds_each"] = 1.0 / ceiling.pop("rate")
    return tomli_w.dumps(_said(data))


def write_machine(machine: Machine, path: Path) -> None:
    """Write a machine as TOML; the file is replaced whole or not at all."""
    write_atomically(path, machine_toml(machine).encode())


def _said(value: Any) -> Any:
    """A value without the parts that say nothing."""
    if isinstance(value, dict):
        kept = {k: _said(v) for k, v in value.items()}
        return {k: v for k, v in kept.items() if v not in (None, "", [], {})}
    if isinstance(value, list):
        return [_said(item) for item in value]
    return value
