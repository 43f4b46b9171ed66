"""A rank's file reduced where it lies: counted rows, totals and one step, and a cache of these.

A worker turns a file into a small table of kernels (`model.fleet.reduced_rows`) and the whole
run (`.troof`); only these travel. The driver alone keeps them, under the digest of the file, the
version and the code, so that a second reading, or one that was cut short, reads them instead.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import msgspec
import polars as pl

from timeroof.core import VERSION, package_root
from timeroof.core.checked import in_utf8
from timeroof.core.errors import InputError, TimeroofError, reading, without_panics_shown
from timeroof.core.files import (
    REDUCED_FOLDER,
    cache_folder,
    keep_bytes,
    opened_file,
    regular_bytes,
    stamp,
    temporary_folder,
)
from timeroof.core.machine import Machine
from timeroof.core.profile import Profile, RankTotals, Source, SourceFile, Steps, amount_columns
from timeroof.core.report import NoteDocument, note_documents
from timeroof.core.run_file import SavedRun, load_run, run_bytes
from timeroof.core.vocabulary import IdleCause
from timeroof.machines.catalogue import machine_for
from timeroof.model.fleet import (
    KEY,
    SUMMED,
    reduced_rows,
    spread_over_ranks,
    summed_over_ranks,
    text_columns,
)
from timeroof.read.formats import ReadOptions, format_named
from timeroof.read.open import Input, path_of
from timeroof.read.saved_run import packed, unpacked
from timeroof.work.recorded import with_recorded_work

# The oldest reductions go when all of them take more than this.
MOST_KEPT_BYTES = 4 * 10**9
# What a zip without a comment ends with has so many bytes.
_ZIP_END_BYTES = 22
_FILE = "file"
_SUMMARY = "timeroof"


@dataclass(frozen=True)
class Rank:
    """One file to reduce: for which reader, and for which chip its work is counted."""

    format: str
    found: Input
    companions: tuple[Input, ...] = ()
    architecture: str | None = None
    machine: Machine | None = None

    @property
    def paths(self) -> list[str]:
        """The files on disk that it is made of."""
        inputs = (self.found, *self.companions)
        return list(dict.fromkeys(path_of(e) for found in inputs for e in found.entries))


class Summary(msgspec.Struct, kw_only=True, frozen=True):
    """What is known of a rank beside its rows."""

    rank: int | None
    source: Source
    device: str | None
    threads: int | None
    wall_s: float | None
    kernel_s: float | None
    communication_s: float | None
    idle_by_cause: dict[str, float]
    steps: Steps | None
    notes: list[NoteDocument]

    def totals(self, rank: int) -> RankTotals:
        """The seconds of this rank, by the number that it has in its fleet."""
        wall_s, kernel_s = self.wall_s, self.kernel_s
        return RankTotals(
            rank=rank, wall_s=wall_s, kernel_s=kernel_s, communication_s=self.communication_s,
            idle_s=None if wall_s is None or kernel_s is None else wall_s - kernel_s,
        )  # fmt: skip


class Reduced(msgspec.Struct, frozen=True):
    """What travels: the digests of the files, the table of kernels, and the run."""

    digests: list[str]
    rows: bytes
    run: bytes


class DamagedKeptError(InputError):
    """A reduced file that is not as it was written: it is made again."""


@contextmanager
def from_cache(path: Path) -> Iterator[None]:
    """Whatever is wrong with content that was kept is damage, and none of the user's files."""
    try:
        with reading(str(path), "reduced file", "remove it"), without_panics_shown():
            yield
    except (TimeroofError, OSError) as error:
        raise DamagedKeptError(f"is damaged ({error})", str(path), "remove it") from error


@dataclass(frozen=True)
class KeptRank:
    """A reduced rank on disk."""

    rows: Path
    run: Path

    @property
    def summary(self) -> Summary:
        """What is known of it beside its rows."""
        with from_cache(self.rows):
            text = pl.read_parquet_metadata(self.rows)[_SUMMARY]
            return msgspec.json.decode(text, type=Summary)

    def profile(self) -> Profile:
        """The whole rank, its work counted."""
        with from_cache(self.run):
            run = load_run(self.run)
            return replace(run.profile, calls=unpacked(run.calls, str(self.run)))


def reduce_rank(order: Rank) -> Reduced:
    """Read a file, count its work, and make it small."""
    digests = [_digest(Path(path)) for path in order.paths]
    options = ReadOptions(companions=order.companions, architecture=order.architecture)
    profile = in_utf8(format_named(order.format).read(order.found, options))
    files = [
        SourceFile(name=os.path.basename(path), sha256=digest)  # noqa: PTH119
        for path, digest in zip(order.paths, digests, strict=True)
    ]
    profile = replace(profile, source=msgspec.structs.replace(profile.source, files=files))
    counted = with_recorded_work(profile, machine_for(profile, order.machine)[0])
    return Reduced(digests, _rows_bytes(counted), _run_bytes(counted))


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _rows_bytes(profile: Profile) -> bytes:
    buffer = io.BytesIO()
    text = msgspec.json.encode(summary_of(profile)).decode()
    reduced_rows(profile.kernels).write_parquet(
        buffer, compression="zstd", metadata={_SUMMARY: text}
    )
    return buffer.getvalue()


def _run_bytes(profile: Profile) -> bytes:
    return run_bytes(SavedRun(profile, None, "", VERSION, packed(profile.calls)))


def summary_of(profile: Profile) -> Summary:
    """What is known of a rank beside its rows."""
    stated = profile.kernels["rank"].drop_nulls().unique().to_list()
    return Summary(
        rank=int(stated[0]) if len(stated) == 1 else None,
        source=profile.source, device=profile.device, threads=profile.threads,
        wall_s=profile.wall_s, kernel_s=profile.kernel_s,
        communication_s=communication_s(profile), idle_by_cause=dict(profile.idle_by_cause),
        steps=profile.steps, notes=note_documents(profile.notes),
    )  # fmt: skip


def communication_s(profile: Profile) -> float:
    """Seconds of collectives that no kernel hides, and of waiting for them."""
    collectives = profile.kernels.filter(pl.col("kind") == "collective")
    exposed_s = float(collectives.select(pl.coalesce("exclusive_s", "time_s").sum()).item())
    return exposed_s + profile.idle_by_cause.get(IdleCause.COMMUNICATION, 0.0)


class Cache:
    """Reduced ranks between runs; a folder for this run alone where none can be kept."""

    def __init__(self) -> None:
        self._temporary: ExitStack | None = None
        # Facts of files from before they were read: one that changes meanwhile is read again.
        self._stamps: dict[str, str] = {}
        self.folder = cache_folder() / REDUCED_FOLDER
        self.is_kept = True
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(self.folder, os.W_OK):
                raise PermissionError
        except OSError:
            self._use_temporary()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        if self._temporary is not None:
            self._temporary.close()

    def _use_temporary(self) -> None:
        self._temporary = ExitStack()
        self.folder, self.is_kept = self._temporary.enter_context(temporary_folder()), False

    def found(self, order: Rank, *, fresh: bool = False) -> KeptRank | None:
        """A rank that was reduced before, if its files have not changed since; `fresh`: none."""
        try:
            self._stamps |= {path: stamp(Path(path).absolute()) for path in order.paths}
            digests = [regular_bytes(self._stamped(path)).decode("ascii") for path in order.paths]
        except (OSError, UnicodeDecodeError):
            return None
        kept = self._place(order, digests)
        return kept if not fresh and _is_whole(kept) else None

    def keep(self, order: Rank, reduced: Reduced) -> KeptRank:
        """Write a reduced rank; a full disk costs only what would have been kept."""
        try:
            return self._written(order, reduced)
        except TimeroofError:
            if not self.is_kept:
                raise
            self._use_temporary()
            return self._written(order, reduced)

    def _written(self, order: Rank, reduced: Reduced) -> KeptRank:
        kept = self._place(order, reduced.digests)
        keep_bytes(kept.rows, reduced.rows)
        keep_bytes(kept.run, reduced.run)
        for path, digest in zip(order.paths, reduced.digests, strict=True):
            with suppress(OSError, KeyError):
                keep_bytes(self._stamped(path), digest.encode("ascii"))
        return kept

    def _stamped(self, path: str) -> Path:
        facts = self._stamps[path].encode(errors="replace")
        return self.folder / f"{hashlib.sha256(facts).hexdigest()[:32]}.digest"

    def _place(self, order: Rank, digests: Sequence[str]) -> KeptRank:
        inside = "\n".join(e.name.partition("!/")[2] for e in order.found.entries)
        chip = msgspec.json.encode(order.machine).decode()
        words = (VERSION, _code_stamp(), order.format, str(order.architecture), chip, inside)
        key = hashlib.sha256("\0".join((*words, *digests)).encode(errors="replace")).hexdigest()
        return KeptRank(self.folder / f"{key[:32]}.parquet", self.folder / f"{key[:32]}.troof")

    def prune(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        """Drop the oldest until the rest fits."""
        with suppress(OSError):
            files = sorted(self.folder.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
            total = 0
            for path in files:
                total += path.stat().st_size
                if total > most_bytes:
                    path.unlink(missing_ok=True)


@cache
def _code_stamp() -> str:
    """Changes with every edit of the code that reads and counts: a checkout has one version."""
    root = Path(package_root()) / "timeroof"
    facts = [(p.name, s.st_size, s.st_mtime_ns) for p in root.rglob("*.py") if (s := p.stat())]
    return hashlib.sha256(repr(sorted(facts)).encode()).hexdigest()


def _is_whole(kept: KeptRank) -> bool:
    """Whether both files are there to their ends, by what a table and an archive end with."""
    ends = ((kept.rows, b"PAR1", len(b"PAR1")), (kept.run, b"PK\5\6", _ZIP_END_BYTES))
    try:
        return all(_tail(path, size).startswith(magic) for path, magic, size in ends)
    except OSError:
        return False


def _tail(path: Path, size: int) -> bytes:
    with opened_file(path) as file:
        file.seek(-size, os.SEEK_END)
        return file.read(size)


def merged_rows(kept: Sequence[KeptRank], ranks: Sequence[int]) -> pl.DataFrame:
    """All ranks' kernels as one table: a row per kernel, summed over ranks, `rank` null.

    Polars streams over the files; what is held is a row per kernel, not per kernel and rank.
    """
    with from_cache(kept[0].rows.parent):
        return _merged_rows(kept, ranks)


def _merged_rows(kept: Sequence[KeptRank], ranks: Sequence[int]) -> pl.DataFrame:
    paths = {str(k.rows): rank for k, rank in zip(kept, ranks, strict=True)}
    groups = _by_columns(list(paths))
    amounts = sorted({c for columns in groups for c in _amounts(columns)})
    rows = pl.concat([_numbers(f, c, amounts) for c, f in groups.items()]).with_columns(
        pl.col(_FILE).replace_strict(paths, return_dtype=pl.Int64).alias("rank")
    )
    summed = summed_over_ranks(rows, amounts).collect(engine="streaming")
    spread = spread_over_ranks(rows).collect(engine="streaming")
    merged = summed.join(spread, on=KEY, how="left")
    texts = _texts(merged, {rank: path for path, rank in paths.items()})
    whole = merged.join(texts, on=KEY, how="left")
    ordered = whole.sort("time_s", KEY, descending=[True, False], nulls_last=True)
    return ordered.drop("first_rank").with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("id")
    )


def _by_columns(paths: Sequence[str]) -> dict[tuple[str, ...], list[str]]:
    """Files by the columns that they have: few different ones, each read at once."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        groups.setdefault(tuple(pl.read_parquet_schema(path)), []).append(path)
    return groups


def _amounts(columns: Sequence[str]) -> list[str]:
    return amount_columns(pl.DataFrame(schema=dict.fromkeys(columns, pl.Float64)))


def absent_amounts(columns: Sequence[str], amounts: Sequence[str]) -> dict[str, pl.Expr]:
    """What the amounts mean that a table has no column of, beside tables that have it.

    FLOPs of a kind that it lacks beside others are none; a table without any FLOPs does not know
    them, and bytes that it lacks are not known.
    """
    unknown = "byte/" if any(c.startswith("flop/") for c in columns) else ("byte/", "flop/")
    return {
        c: pl.lit(None if c.startswith(unknown) else 0.0, pl.Float64)
        for c in amounts
        if c not in columns
    }


def _numbers(files: Sequence[str], columns: Sequence[str], amounts: Sequence[str]) -> pl.LazyFrame:
    """Key, sums and file of each kernel."""
    lazy = pl.scan_parquet(list(files), include_file_paths=_FILE)
    filled = lazy.with_columns(**absent_amounts(columns, amounts))
    return filled.select(KEY, _FILE, *SUMMED, *amounts)


def _texts(merged: pl.DataFrame, path_of_rank: dict[int, str]) -> pl.DataFrame:
    """Names and origins of every kernel, from the first rank that has it."""
    parts = []
    for (rank,), keys in merged.partition_by("first_rank", as_dict=True).items():
        table = pl.read_parquet(path_of_rank[int(rank)])
        shown = table.select(KEY, *text_columns(table.columns))
        parts.append(keys.select(KEY).join(shown, on=KEY, how="left"))
    return pl.concat(parts, how="diagonal_relaxed")
