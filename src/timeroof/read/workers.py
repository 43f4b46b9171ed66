"""Ranks read side by side in processes of their own.

Each is a plain Python process that leaves a pickled profile behind, and no fork: a fork of a
process with Polars' threads can hang, and spawning re-runs an unguarded user script.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import msgspec

from timeroof.core.children import Child
from timeroof.core.errors import EXIT_INPUT, InputError, TimeroofError
from timeroof.core.profile import Profile
from timeroof.read.formats import ReadOptions, format_named
from timeroof.read.open import Entry, path_of
from timeroof.read.plan import Job

# A rank of so much text takes about as long to read as a process takes to start: from here on
# two processors gain, and CPU time at most doubles.
WORTH_BYTES = 48 * 2**20
# How much traces shrink when they are packed, where the file does not say.
PACKING = 10
MAX_PROCESSES = 8


class Failure(msgspec.Struct):
    """An error on its way back from a worker."""

    what: str
    where: str | None
    advice: str | None


def worth_processes(jobs: Sequence[Job]) -> list[int]:
    """Which jobs to read in processes of their own: several large ones, else none."""
    if len(jobs) < 2 or (os.cpu_count() or 1) < 2:
        return []
    sharing = Counter(path_of(e) for job in jobs for e in job.found.entries)
    large = [
        index
        for index, job in enumerate(jobs)
        if len(job.found.entries) == 1 and _text_bytes(job.found.only, sharing) >= WORTH_BYTES
    ]
    return large if len(large) > 1 else []


def _text_bytes(entry: Entry, sharing: Counter[str]) -> float:
    """About how much there is to read: what an archive says of it, or its share of a file."""
    if entry.size_bytes is not None:
        return entry.size_bytes
    path = path_of(entry)
    return PACKING * Path(path).stat().st_size / sharing[path]


def read_in_processes(jobs: list[Job], options: ReadOptions) -> list[Profile]:
    """The profiles of all jobs, in their order."""
    count = min(len(jobs), os.cpu_count() or 1, MAX_PROCESSES)
    with (
        tempfile.TemporaryDirectory(prefix="timeroof-") as folder,
        ThreadPoolExecutor(count) as pool,
    ):
        waiting = [
            pool.submit(_read_apart, job, options.architecture, Path(folder) / f"{index}.pickle")
            for index, job in enumerate(jobs)
        ]
        profiles = []
        try:
            for index, (job, future) in enumerate(zip(jobs, waiting, strict=True)):
                profiles.append(future.result())
                options.progress(job.found.name, (index + 1) / len(jobs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return profiles


def _read_apart(job: Job, architecture: str | None, target: Path) -> Profile:
    options = ReadOptions(companions=job.companions, architecture=architecture)
    order = pickle.dumps((job.format.name, job.found, options))
    done = Child(__name__, (str(target),)).run(input=order, capture_output=True)
    if done.returncode == 0:
        return cast("Profile", pickle.loads(target.read_bytes()))
    try:
        failure = msgspec.json.decode(done.stdout, type=Failure)
    except msgspec.DecodeError:
        last = done.stderr.decode(errors="replace").strip().split("\n")[-1]
        raise InputError(f"could not be read ({last})", where=job.found.name) from None
    raise InputError(failure.what, where=failure.where, advice=failure.advice)


def main(target: str) -> int:
    """Read what stdin asks for and leave its profile; an error goes to stdout as JSON."""
    name, found, options = pickle.loads(sys.stdin.buffer.read())
    try:
        profile = format_named(name).read(found, options)
        Path(target).write_bytes(pickle.dumps(profile))
    except TimeroofError as error:
        failure = Failure(error.what, error.where, error.advice)
        sys.stdout.buffer.write(msgspec.json.encode(failure))
        return EXIT_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
