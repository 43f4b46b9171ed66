"""Saved runs: `.troof`, a zip with a Profile and its Machine, from which any view can be made."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec
import polars as pl

from timeroof.core.checked import checked_whole, refuse_busier_than_rows
from timeroof.core.errors import PARTIAL, InputError, Note, reading, without_panics_shown
from timeroof.core.files import atomic_path, check_schema
from timeroof.core.machine import Machine, check_machine
from timeroof.core.profile import (
    Profile,
    RankTotals,
    Source,
    Steps,
    complete_kernels,
    in_unprofiled_seconds,
)
from timeroof.core.report import NoteDocument, Totals, note_documents, notes_of_documents
from timeroof.core.vocabulary import idle_cause, known_causes

RUN_SCHEMA = "timeroof.run/2"
OLD_SCHEMA = "timeroof.run/1"
# What `timeroof run` calls itself: its rows are those of profiled steps.
LIVE_TOOL = "timeroof run"

# Tables are stored as they are and meta.json packs a few times: more is a trap.
MAX_MEMBER_BYTES = 16 * 2**30
MAX_META_BYTES = 256 * 2**20
MAX_PACKING = 200
CALLS_MEMBER = "calls.msgpack"
# A folder for each kind of steps, by its name.
KINDS_FOLDER, MOST_KINDS = "kinds/", 64
SAVE_AGAIN = "save it again with --save"


class _Whole(msgspec.Struct, kw_only=True):
    """What a profile knows beside its tables."""

    device: str | None
    threads: int | None
    wall_s: float | None
    kernel_s: float | None
    idle_by_cause: dict[str, float]
    steps: Steps | None
    notes: list[NoteDocument]
    unexplained_error_s: float | None = None
    ranks: Sequence[RankTotals] = ()


class _Meta(msgspec.Struct, kw_only=True):
    schema: str
    version: str
    created: str
    machine: Machine | None
    source: Source
    whole: _Whole
    totals: Totals | None = None


class _OldSteps(msgspec.Struct, kw_only=True):
    """Steps in `timeroof.run/1`."""

    count: int
    clean_s: float | None = None
    timed_s: float | None = None
    clean_samples: list[float] = []
    pace_samples: list[float] = []


class _OldWhole(msgspec.Struct, kw_only=True):
    """What a profile knew beside its tables in `timeroof.run/1`: of a live run, a profiled step."""

    device: str | None
    threads: int | None
    wall_s: float | None
    kernel_s: float | None
    idle_by_cause: dict[str, float]
    steps: _OldSteps | None
    notes: list[str]


class _OldMeta(msgspec.Struct, kw_only=True):
    schema: str
    version: str
    created: str
    machine: Machine | None
    source: Source
    whole: _OldWhole


class _SchemaOnly(msgspec.Struct):
    schema: str | None = None


@dataclass(frozen=True)
class SavedRun:
    """A profile and the machine it was judged on."""

    profile: Profile
    machine: Machine | None
    created: str = ""
    version: str = ""
    # The recorded calls as `read.saved_run` packs them.
    calls: bytes = b""
    # Whether recorded calls are counted already, as they are in a run that was saved.
    is_counted: bool = False
    # Where there are several kinds of steps, the run of each, by name.
    kinds: Mapping[str, SavedRun] = field(default_factory=dict)


def save_run(run: SavedRun, path: Path, totals: Totals | None = None) -> None:
    """Write a run; the file is replaced whole or not at all."""
    with atomic_path(path) as part, zipfile.ZipFile(part, "w") as archive:
        _write(archive, run, totals)
        for name, kind in run.kinds.items():
            _write(archive, kind, None, f"{KINDS_FOLDER}{quote(name, safe=' ,()')}/")


def run_bytes(run: SavedRun) -> bytes:
    """A run as the bytes of its file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        _write(archive, run, None)
    return buffer.getvalue()


def _write(
    archive: zipfile.ZipFile, run: SavedRun, totals: Totals | None, folder: str = ""
) -> None:
    profile = run.profile
    meta = _Meta(
        schema=RUN_SCHEMA,
        version=run.version,
        created=run.created,
        machine=run.machine,
        source=profile.source,
        whole=_Whole(
            **{f: getattr(profile, f) for f in _Whole.__struct_fields__ if f != "notes"},
            notes=note_documents(profile.notes),
        ),
        totals=totals,
    )
    samples = profile.kernels.select("id", "samples").drop_nulls()
    tables = {
        "kernels": profile.kernels.drop("samples"), "samples": samples if samples.height else None,
        "timeline": profile.timeline, "rungs": profile.rungs,
    }  # fmt: skip
    archive.writestr(f"{folder}meta.json", msgspec.json.encode(meta), zipfile.ZIP_DEFLATED)
    for name, table in ((n, t) for n, t in tables.items() if t is not None):
        buffer = io.BytesIO()
        table.write_parquet(buffer, compression="zstd")
        archive.writestr(f"{folder}{name}.parquet", buffer.getvalue(), zipfile.ZIP_STORED)
    if run.calls:
        archive.writestr(f"{folder}{CALLS_MEMBER}", run.calls, zipfile.ZIP_DEFLATED)


def load_run(path: Path) -> SavedRun:
    """Read a saved run, or refuse it with a word that names what is wrong."""
    where = str(path)
    try:
        with (
            reading(where, "saved run", SAVE_AGAIN),
            without_panics_shown(),
            zipfile.ZipFile(path) as archive,
        ):
            _refuse_bombs(archive, where)
            run = _read(archive, where)
            kinds = {name: _read(archive, where, at) for name, at in _kind_folders(archive, where)}
            profile = replace(run.profile, kinds={n: kind.profile for n, kind in kinds.items()})
            return replace(run, profile=profile, kinds=kinds)
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror or error})", where=where, advice="check the path"
        ) from error


def _kind_folders(archive: zipfile.ZipFile, where: str) -> list[tuple[str, str]]:
    """Kinds of steps that have a folder, by name."""
    folders = [
        name.removesuffix("meta.json")
        for name in archive.namelist()
        if name.startswith(KINDS_FOLDER) and name.count("/") == 2 and name.endswith("/meta.json")
    ]
    if len(folders) > MOST_KINDS:
        raise _broken(where, f"{len(folders)} kinds of steps")
    return [(unquote(folder[len(KINDS_FOLDER) : -1]), folder) for folder in folders]


def _refuse_bombs(archive: zipfile.ZipFile, where: str) -> None:
    for member in archive.infolist():
        is_meta = member.filename.endswith("meta.json")
        limit = MAX_META_BYTES if is_meta else MAX_MEMBER_BYTES
        limit = min(limit, 2**20 + MAX_PACKING * member.compress_size)
        if member.file_size > limit:
            raise _broken(where, f"{member.filename} unpacks to {member.file_size} bytes")


def _read(archive: zipfile.ZipFile, where: str, folder: str = "") -> SavedRun:
    raw = archive.read(f"{folder}meta.json")
    schema = msgspec.json.decode(raw, type=_SchemaOnly).schema
    check_schema(schema, RUN_SCHEMA, where)
    is_old = schema == OLD_SCHEMA
    meta = _renamed(raw) if is_old else msgspec.json.decode(raw, type=_Meta)
    if meta.machine is not None:
        check_machine(meta.machine, where)
    kernels = _table(archive, f"{folder}kernels")
    if kernels is None:
        raise _broken(where, f"{folder}kernels.parquet is missing")
    samples = _table(archive, f"{folder}samples")
    if samples is not None:
        kernels = kernels.join(samples, on="id", how="left")
    known = {f: getattr(meta.whole, f) for f in _Whole.__struct_fields__ if f != "notes"}
    known["idle_by_cause"] = known_causes(meta.whole.idle_by_cause)
    profile = Profile(
        kernels=complete_kernels(kernels, where),
        source=meta.source,
        **known,
        notes=notes_of_documents(meta.whole.notes),
        timeline=_timeline(archive, folder),
        rungs=_table(archive, f"{folder}rungs"),
    )
    refuse_busier_than_rows(profile, where)
    if is_old and meta.source.tool == LIVE_TOOL:
        profile = in_unprofiled_seconds(profile)
    member = f"{folder}{CALLS_MEMBER}"
    calls = archive.read(member) if member in archive.namelist() else b""
    whole = checked_whole(profile, where)
    return SavedRun(whole, meta.machine, meta.created, meta.version, calls)


def _renamed(raw: bytes) -> _Meta:
    """What a run of the older form says, under the names of this one.

    Its totals were those of profiled steps, and a note compared the two: both come anew.
    """
    old = msgspec.json.decode(raw, type=_OldMeta)
    whole = {f: getattr(old.whole, f) for f in _OldWhole.__struct_fields__}
    # Notes of the older form had no codes; whether a run is whole is asked again.
    notes = note_documents(
        Note(n, PARTIAL, "warning") if n.startswith("partial: ") else n
        for n in old.whole.notes
        if not n.startswith("residual: ")
    )
    return _Meta(
        **{f: getattr(old, f) for f in _OldMeta.__struct_fields__ if f != "whole"},
        whole=_Whole(**whole | {"steps": _new_steps(old.whole.steps), "notes": notes}),
    )


def _new_steps(old: _OldSteps | None) -> Steps | None:
    if old is None:
        return None
    return Steps(
        count=old.count, unprofiled_s=old.clean_s, profiled_s=old.timed_s,
        samples=old.clean_samples, pace_samples=old.pace_samples,
    )  # fmt: skip


def _table(archive: zipfile.ZipFile, name: str) -> pl.DataFrame | None:
    member = f"{name}.parquet"
    if member not in archive.namelist():
        return None
    where = f"{archive.filename}!/{member}" if archive.filename else member
    from timeroof.core.parquet import parquet_table

    return parquet_table(archive.read(member), where)


def _timeline(archive: zipfile.ZipFile, folder: str) -> pl.DataFrame | None:
    table = _table(archive, f"{folder}timeline")
    if table is None or "idle_cause" not in table.columns:
        return table
    words = {w: idle_cause(w).value for w in table["idle_cause"].drop_nulls().unique().to_list()}
    return table.with_columns(pl.col("idle_cause").replace(words))


def _broken(where: str, why: str) -> InputError:
    return InputError(f"is no whole saved run ({why})", where, SAVE_AGAIN)
