"""Read what a user names: files, folders, archives, several ranks, of whatever profiler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from timeroof.core.errors import UsageError
from timeroof.core.profile import Profile, SourceFile
from timeroof.core.run_file import SavedRun
from timeroof.read.digests import Digests
from timeroof.read.format import Progress, ReadOptions, silent
from timeroof.read.formats import format_named
from timeroof.read.merging import merged_ranks
from timeroof.read.opening import DEFAULT_MAX_BYTES, Entry, Input, open_input
from timeroof.read.planning import Job, Plan, plan_of
from timeroof.read.workers import read_in_processes, worth_processes

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
    with Digests(_entries(plan)) as digests:
        profiles = _read(plan.jobs, options)
        files = digests.files
    named = [_with_files(p, job, files) for p, job in zip(profiles, plan.jobs, strict=True)]
    profile = merged_ranks(named, [Path(job.found.name).name for job in plan.jobs])
    return SavedRun(replace(profile, notes=(*profile.notes, *plan.notes)), machine=None)


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


def _entries(plan: Plan) -> list[Entry]:
    lent = [c for job in plan.jobs for c in job.companions]
    return [e for found in [*(job.found for job in plan.jobs), *lent] for e in found.entries]


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
    own = dict.fromkeys(Digests.key(e) for found in inputs for e in found.entries)
    source = msgspec.structs.replace(profile.source, files=[files[key] for key in own])
    return replace(profile, source=source)
