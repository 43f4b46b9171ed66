"""Many files of one run, each reduced by a worker, here or on a cluster, and merged.

A file that cannot be read is a note and a missing rank; only where none can be read is that the
end. What was reduced before and has not changed since is not read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import polars as pl

from timeroof.core.engines import DaskCluster, Engine, Failure, Here, Pool, slurm_jobs, workers_for
from timeroof.core.errors import InputError, Note, TimeroofError, UsageError, trace_ignored
from timeroof.core.profile import Profile, SourceFile
from timeroof.core.run_file import SavedRun
from timeroof.read.load import Job
from timeroof.read.open import Entry, names_below, path_of
from timeroof.read.ranks import (
    SIDE_BY_SIDE,
    merged_fleet,
    merged_ranks,
    numbers_of,
    refuse_doubled,
    to_merge,
)
from timeroof.read.reduced import Cache, DamagedKeptError, KeptRank, Rank, reduce_rank

# From so much text on, processes gain more than they cost to start.
WORTH_BYTES = 160 * 10**6
# How much traces shrink when they are packed, where the file does not say.
PACKING = 10
# Notes name so many files that could not be read, each with its reason.
MOST_NAMED = 4


@dataclass(frozen=True)
class Fleet:
    """Where many files are read, and which rank of them is wanted."""

    scheduler: str | None = None
    slurm: str | None = None
    rank: int | None = None

    def __post_init__(self) -> None:
        if self.scheduler is not None and self.slurm is not None:
            raise UsageError("--scheduler and --slurm are both given", advice="choose one")
        if self.slurm is not None:
            slurm_jobs(self.slurm)  # what makes no sense is refused before anything is read

    @classmethod
    def of(cls, scheduler: str | None, slurm: str | None, rank: str | None) -> Fleet:
        """What the words of a command line ask for."""
        if rank is not None and not rank.isdecimal():
            raise UsageError(f"--rank {rank} is not a rank", advice="name one, such as --rank 0")
        return cls(scheduler, slurm, None if rank is None else int(rank))

    @property
    def is_elsewhere(self) -> bool:
        """Whether other computers may read, which know no working folder of ours."""
        return self.scheduler is not None or self.slurm is not None

    @property
    def is_asked(self) -> bool:
        """Whether anything was asked that only reduced ranks give."""
        return self.is_elsewhere or self.rank is not None

    def engine(self, orders: Sequence[Rank]) -> Engine:
        """What runs the reading."""
        if self.is_elsewhere:
            return DaskCluster(self.scheduler, self.slurm)
        sizes = _text_bytes([order.found.only for order in orders])
        if sum(sizes) < WORTH_BYTES or len(orders) < 2:
            return Here()
        workers = workers_for(max(sizes), len(orders))
        return Pool(workers) if workers > 1 else Here()


def is_worth_reducing(jobs: Sequence[Job]) -> bool:
    """Whether the files are so many or so large that workers, or their cache, are of use."""
    if len(jobs) < 2 or any(len(job.found.entries) != 1 for job in jobs):
        return False
    sizes = _text_bytes([job.found.only for job in jobs])
    return len(jobs) > SIDE_BY_SIDE or sum(sizes) >= WORTH_BYTES


def _text_bytes(entries: Sequence[Entry]) -> list[float]:
    """About how much there is to read: what an archive says of it, or its share of a file."""
    sharing = Counter(path_of(entry) for entry in entries)
    return [
        entry.size_bytes
        if entry.size_bytes is not None
        else PACKING * Path(path_of(entry)).stat().st_size / sharing[path_of(entry)]
        for entry in entries
    ]


def read_fleet(
    orders: Sequence[Rank], fleet: Fleet, progress: Callable[[str, float], None]
) -> SavedRun:
    """Reduce every file, then merge what came back; work is counted."""
    names = names_below([order.found.name for order in orders])
    with Cache() as cache:
        try:
            profile, read, notes = _read_by(cache, orders, names, fleet, progress)
        except DamagedKeptError:
            trace_ignored("a reduced file is damaged: all are made again")
            profile, read, notes = _read_by(cache, orders, names, fleet, progress, fresh=True)
        if not cache.is_kept:
            text = "The cache folder cannot be written: reduced files were not kept."
            notes.append(Note(text, "nothing-kept", "warning"))
        cache.prune()
    files = _named(profile, [orders[i] for i in read] if fleet.rank is None else [])
    source = msgspec.structs.replace(profile.source, files=files)
    whole = replace(profile, source=source, notes=(*profile.notes, *notes))
    return SavedRun(whole, machine=None, is_counted=True)


def _read_by(
    cache: Cache, orders: Sequence[Rank], names: list[str], fleet: Fleet,
    progress: Callable[[str, float], None], *, fresh: bool = False,
) -> tuple[Profile, list[int], list[Note]]:  # fmt: skip
    """The merged profile, the places of the files that could be read, and notes of the others."""
    answers = _reduced(orders, fleet, cache, progress, fresh=fresh)
    notes = refuse_if_none(answers, names)
    kept = {
        name: answer
        for name, answer in zip(names, answers, strict=True)
        if not isinstance(answer, Failure)
    }
    places = {name: i for i, name in enumerate(names)}
    archived = {name for name, i in places.items() if "!/" in orders[i].found.name}
    chosen, left_out = to_merge({name: one.summary for name, one in kept.items()}, archived)
    merged = _merged([kept[name] for name in chosen], chosen, fleet.rank)
    return merged, [places[name] for name in chosen], [*notes, *left_out]


def _merged(kept: Sequence[KeptRank], names: list[str], rank: int | None) -> Profile:
    if rank is not None:
        return _one_rank(kept, names, rank)
    if len(kept) > SIDE_BY_SIDE:
        return merged_fleet(kept, names)
    return merged_ranks([one.profile() for one in kept], names)


def _reduced(
    orders: Sequence[Rank], fleet: Fleet, cache: Cache, progress: Callable[[str, float], None],
    *, fresh: bool,
) -> list[KeptRank | Failure]:  # fmt: skip
    answers: dict[int, KeptRank | Failure] = {}
    for index, order in enumerate(orders):
        if (found := cache.found(order, fresh=fresh)) is not None:
            answers[index] = found
    todo = [index for index in range(len(orders)) if index not in answers]
    if todo:
        engine = fleet.engine([orders[i] for i in todo])
        for answer in engine.map(reduce_rank, [orders[i] for i in todo]):
            index = todo[answer.index]
            if answer.value is not None:
                answers[index] = cache.keep(orders[index], answer.value)
            else:
                answers[index] = answer.failure or Failure("could not be read")
            progress(orders[index].found.name, len(answers) / len(orders))
    progress("", 1.0)
    return [answers[index] for index in range(len(orders))]


def refuse_if_none(answers: Sequence[object], names: Sequence[str]) -> list[Note]:
    """A note of the files that could not be read; an error where that is all of them."""
    errors = [a.error if isinstance(a, Failure) else a for a in answers]
    failed = [(n, e) for n, e in zip(names, errors, strict=True) if isinstance(e, TimeroofError)]
    if not failed:
        return []
    if len(failed) == len(answers):
        raise failed[0][1]
    shown = [f"{name} ({error.what})" for name, error in failed[:MOST_NAMED]]
    more = f", and {len(failed) - MOST_NAMED} more" if len(failed) > MOST_NAMED else ""
    count = f"{len(failed)} of {len(answers)} files"
    text = f"{count} could not be read and are left out: {', '.join(shown)}{more}."
    return [Note(text, "files-left-out", "warning")]


def _one_rank(kept: Sequence[KeptRank], names: Sequence[str], rank: int) -> Profile:
    summaries = [one.summary for one in kept]
    refuse_doubled(summaries, names, rank)
    places = numbers_of(summaries, names)[0]
    if rank not in places:
        raise InputError(
            f"there is no rank {rank}", advice=f"choose from {min(places)} to {max(places)}"
        )
    profile = kept[places.index(rank)].profile()
    return replace(
        profile, kernels=profile.kernels.with_columns(pl.lit(rank, pl.Int64).alias("rank"))
    )


def _named(profile: Profile, orders: Sequence[Rank]) -> list[SourceFile]:
    """The files by their names below what they share: a report does not tell where it was read."""
    files = profile.source.files
    paths = [path for order in orders for path in order.paths]
    if not paths or len(paths) != len(files):
        return list(files)
    return [
        SourceFile(name=name, sha256=file.sha256)
        for name, file in zip(names_below(paths), files, strict=True)
    ]
