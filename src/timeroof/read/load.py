"""Read what a user names: files, folders, archives, several ranks, of whatever profiler."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec
import polars as pl

from timeroof.core.checked import in_utf8
from timeroof.core.errors import InputError, UsageError
from timeroof.core.notes import Note
from timeroof.core.profile import Profile, RankTotals, SourceFile, amount_columns
from timeroof.core.run_file import SavedRun
from timeroof.core.vocabulary import IdleCause
from timeroof.read.events import shown_list
from timeroof.read.formats import Progress, ReadOptions, format_named, silent
from timeroof.read.open import DEFAULT_MAX_BYTES, Entry, Input, open_input, path_of
from timeroof.read.plan import Job, Plan, plan_of
from timeroof.read.workers import read_in_processes, worth_processes


@contextmanager
def _hashing(entries: list[Entry]) -> Iterator[Callable[[], dict[str, SourceFile]]]:
    """Hash files as they lie on disk in a thread beside the reader: names and digests by path.

    Only the part of a path below what all files share is kept: a report must not tell where on
    somebody's disk a run was.
    """
    paths = list(dict.fromkeys(path_of(entry) for entry in entries))
    pool = ThreadPoolExecutor(1)
    digests = {path: pool.submit(_sha256, Path(path)) for path in paths}
    root = _shared_folder(paths)
    try:
        yield lambda: {
            path: SourceFile(name=os.path.relpath(path, root), sha256=digest.result())
            for path, digest in digests.items()
        }
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _shared_folder(paths: list[str]) -> str:
    if len(paths) == 1:
        return os.path.dirname(paths[0]) or "."  # noqa: PTH120
    folders = [os.path.dirname(os.path.abspath(path)) for path in paths]  # noqa: PTH100, PTH120
    return os.path.commonpath(folders)


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


# Several profiles of one run as one: its ranks side by side.
T = TypeVar("T")


def merged_ranks(profiles: list[Profile], names: list[str]) -> Profile:
    """One profile with a row per rank and kernel; wall, busy and idle seconds are a mean rank's."""
    if len(profiles) == 1:
        return profiles[0]
    _refuse_several_runs(profiles, names)
    ranks = _ranks(profiles)
    tables, timelines, first = [], [], 0
    calls: dict[int, object] = {}
    for profile, rank in zip(profiles, ranks, strict=True):
        ids = (pl.lit(rank, pl.Int64).alias("rank"), pl.col("id", "parent") + first)
        tables.append(profile.kernels.with_columns(ids))
        if profile.timeline is not None:
            timelines.append(profile.timeline.with_columns(pl.col("kernel") + first))
        calls |= {row + first: call for row, call in profile.calls.items()}
        first += 1 + max(profile.kernels["id"].to_list(), default=0)
    kernels = pl.concat(_same_amounts(tables), how="diagonal_relaxed")
    files = [file for p in profiles for file in p.source.files]
    merged = Profile.of(kernels, msgspec.structs.replace(profiles[0].source, files=files))
    return replace(
        merged,
        device=_agreed([p.device for p in profiles]),
        threads=_agreed([p.threads for p in profiles]),
        wall_s=_mean(profiles, lambda p: p.wall_s),
        kernel_s=_mean(profiles, lambda p: p.kernel_s),
        idle_by_cause=_idle(profiles),
        steps=_agreed([p.steps for p in profiles]),
        timeline=timelines[0] if timelines else None,
        notes=_notes(profiles, ranks, names),
        ranks=[_of_rank(p, rank) for p, rank in zip(profiles, ranks, strict=True)],
        calls=calls,
    )


def _of_rank(profile: Profile, rank: int) -> RankTotals:
    """Seconds of one rank; communication is what no kernel hides, and waiting for it."""
    collectives = profile.kernels.filter(pl.col("kind") == "collective")
    exposed_s = float(collectives.select(pl.coalesce("exclusive_s", "time_s").sum()).item())
    waiting_s = profile.idle_by_cause.get(IdleCause.COMMUNICATION, 0.0)
    wall_s, kernel_s = profile.wall_s, profile.kernel_s
    return RankTotals(
        rank=rank, wall_s=wall_s, kernel_s=kernel_s, communication_s=exposed_s + waiting_s,
        idle_s=None if wall_s is None or kernel_s is None else wall_s - kernel_s,
    )  # fmt: skip


def _refuse_several_runs(profiles: list[Profile], names: list[str]) -> None:
    """Ranks of one run have one profiler, one kind of device and a number each."""
    advice, shown = "name the files of one run", shown_list(names, 3)
    for what, values in (
        ("profilers", {p.source.tool for p in profiles}),
        ("devices", {p.device for p in profiles if p.device}),
    ):
        if len(values) > 1:
            kinds = f"several {what} ({shown_list(sorted(values))})"
            raise InputError(f"{shown} are several runs, of {kinds}", advice=advice)
    stated = [r for p in profiles if (r := _stated_rank(p)) is not None]
    if len(set(stated)) < len(stated):
        twice = f"more than one says it is rank {max(stated, key=stated.count)}"
        raise InputError(f"{shown} are several runs: {twice}", advice=advice)


def _stated_rank(profile: Profile) -> int | None:
    stated = profile.kernels["rank"].drop_nulls().unique().to_list()
    return int(stated[0]) if len(stated) == 1 else None


def _ranks(profiles: list[Profile]) -> list[int]:
    """Ranks as the files say them, or their order where they do not."""
    stated = [_stated_rank(p) for p in profiles]
    known = [rank for rank in stated if rank is not None]
    return known if len(known) == len(profiles) else list(range(len(profiles)))


def _same_amounts(tables: list[pl.DataFrame]) -> list[pl.DataFrame]:
    """Tables whose absent amounts mean what they meant alone: no FLOPs of a kind are none.

    A column of FLOPs that a table lacks beside others means that nobody used it; a table
    without any FLOPs does not know them. Bytes that a table lacks are not known.
    """
    columns = dict.fromkeys(c for t in tables for c in amount_columns(t))
    filled = []
    for table in tables:
        counts_flops = any(c.startswith("flop/") for c in table.columns)
        absent = [c for c in columns if c not in table.columns]
        unknown = "byte/" if counts_flops else ("byte/", "flop/")
        means = {c: pl.lit(None if c.startswith(unknown) else 0.0, pl.Float64) for c in absent}
        filled.append(table.with_columns(**means))
    return filled


def _agreed(values: list[T]) -> T | None:
    return values[0] if all(v == values[0] for v in values) else None


def _mean(profiles: list[Profile], of: Callable[[Profile], float | None]) -> float | None:
    known = [v for p in profiles if (v := of(p)) is not None]
    return sum(known) / len(known) if len(known) == len(profiles) else None


def _idle(profiles: list[Profile]) -> dict[str, float]:
    idle: dict[str, float] = defaultdict(float)
    for cause, seconds in (one for p in profiles for one in p.idle_by_cause.items()):
        idle[cause] += seconds / len(profiles)
    return dict(idle)


def _notes(profiles: list[Profile], ranks: list[int], names: list[str]) -> tuple[str, ...]:
    files = ", ".join(f"{rank}: {name}" for rank, name in list(zip(ranks, names, strict=True))[:16])
    more = "" if len(ranks) <= 16 else f" and {len(ranks) - 16} more"
    own = [note for p in profiles for note in p.notes]
    text = (
        f"{len(profiles)} files are taken as ranks of one run ({files}{more})."
        " Rows are each rank's, totals those of a mean rank."
    )
    return Note(text, "taken-as-ranks"), *dict.fromkeys(own)


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
) -> SavedRun:
    """The profile that files hold, and the machine where it is a saved run that has one."""
    forced = None if format is None else format_named(format)
    plan = Plan()
    for found in _inputs(paths, max_bytes):
        part = plan_of(found, forced)
        plan.jobs += part.jobs
        plan.notes += [*part.notes, *found.notes]
    if len(plan.jobs) == 1 and plan.jobs[0].format.name == SAVED:
        from timeroof.read.saved_run import load_entry

        return load_entry(plan.jobs[0].found.only)
    lent = [c for job in plan.jobs for c in job.companions]
    inputs = [*(job.found for job in plan.jobs), *lent]
    with _hashing([e for found in inputs for e in found.entries]) as hashed:
        profiles = _read(plan.jobs, options)
        files = hashed()
    named = [_with_files(p, job, files) for p, job in zip(profiles, plan.jobs, strict=True)]
    profile = merged_ranks(named, [Path(job.found.name).name for job in plan.jobs])
    profile = replace(profile, notes=(*profile.notes, *plan.notes))
    return SavedRun(in_utf8(profile), machine=None)


def _inputs(paths: list[Path], max_bytes: int) -> list[Input]:
    """What the paths hold; files named one by one make one input, folders one each."""
    if not paths:
        raise UsageError("no file is named", advice="name a file or folder to read")
    if len({path.resolve() for path in paths}) < len(paths):
        raise UsageError("the same file is named twice", advice="name every file once")
    inputs = [open_input(path, max_bytes) for path in paths]
    if len(inputs) == 1 or any(len(found.entries) != 1 for found in inputs):
        return inputs
    entries = tuple(found.only for found in inputs)
    return [Input(f"{inputs[0].name} and {len(inputs) - 1} more", entries)]


def _read(jobs: list[Job], options: ReadOptions) -> list[Profile]:
    """The profiles of the jobs in their order; large ranks are read in processes of their own."""
    read: dict[int, Profile] = {}
    if large := worth_processes(jobs):

        def apart(what: str, share: float) -> None:
            options.progress(what, share * len(large) / len(jobs))

        found = read_in_processes([jobs[i] for i in large], replace(options, progress=apart))
        read = dict(zip(large, found, strict=True))
    for index, job in enumerate(jobs):
        if index not in read:
            read[index] = _read_here(job, options, len(read), len(jobs))
    options.progress("", 1.0)
    return [read[index] for index in range(len(jobs))]


def _read_here(job: Job, options: ReadOptions, done: int, jobs: int) -> Profile:
    def part(what: str, share: float) -> None:
        options.progress(what, (done + share) / jobs)

    own = replace(options, progress=part, companions=job.companions)
    return job.format.read(job.found, own)


def _with_files(profile: Profile, job: Job, files: dict[str, SourceFile]) -> Profile:
    """The profile with the names and digests of the files that it came from."""
    if job.format.name == SAVED:
        return profile
    inputs = [job.found, *job.companions]
    own = dict.fromkeys(path_of(e) for found in inputs for e in found.entries)
    source = msgspec.structs.replace(profile.source, files=[files[key] for key in own])
    return replace(profile, source=source)
