"""Read what a user names: files, folders, archives, several ranks, of whatever profiler."""

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
from timeroof.read.plan import Job, Plan, empty_files, plan_of

if TYPE_CHECKING:
    from timeroof.read.fleet import Fleet


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
