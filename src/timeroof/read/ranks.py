"""Several profiles of one run as one: its ranks side by side, or summed where they are many.

Up to `SIDE_BY_SIDE` ranks keep a row per rank and kernel. Of more, rows are summed over ranks
(`rank` is null) and say how long the kernel takes on the fastest, the middle and the slowest one.
Totals are those of a mean rank either way.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import TypeVar

import msgspec
import polars as pl

from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile, RankTotals, amount_columns
from timeroof.core.report import NoteDocument, notes_of_documents
from timeroof.model.fleet import KEY, OUTLIER_DEVIATIONS, outliers, over_ranks, with_key
from timeroof.read.events import shown_list
from timeroof.read.reduced import KeptRank, Summary, absent_amounts, merged_rows, summary_of

SIDE_BY_SIDE = 16
# A note names so many files.
MOST_NAMED = 4
# The code of the note on rows of the host, which every reader gives them.
HOST_ROWS = "host-rows"
ONE_RUN = "name the files of one run"
# A rank in the name of a file or of its folder: rank7.json, trace_rank-7.json, rank_7/trace.json.
_RANK = re.compile(r"(?i)(?<![a-z])rank[-_ .=]?([0-9]{1,7})(?![0-9])")
T = TypeVar("T")


def to_merge(
    summaries: Mapping[str, Summary], archived: Collection[str]
) -> tuple[list[str], list[Note]]:
    """The files to merge, by name, and a warning of those that are left out: copies of others,
    and traces cut before their kernels, which have host time of ops and no work of a device.

    Files that are `archived` have the digest of their archive, and are no copies.
    """
    copies: dict[str, str] = {}
    first: dict[object, str] = {}
    for name, summary in summaries.items():
        digests = tuple(file.sha256 for file in summary.source.files)
        rank = _named_rank(name) if summary.rank is None else summary.rank
        if digests and None not in digests and name not in archived:
            original = first.setdefault((rank, digests), name)
            copies |= {name: original} if original != name else {}
    host = [n for n, s in summaries.items() if any(note.code == HOST_ROWS for note in s.notes)]
    cut = [] if len(host) == len(summaries) else [name for name in host if name not in copies]
    told = [f"{name} (of {original})" for name, original in copies.items()]
    has = "has" if len(cut) == 1 else "have"
    texts = {
        f"Left out as copies, byte for byte: {shown_list(told, MOST_NAMED)}.": told,
        f"Left out: {shown_list(cut, MOST_NAMED)} {has} no kernels as the other ranks do, only ops"
        " of the host.": cut,
    }
    notes = [Note(text, "files-left-out", "warning") for text, which in texts.items() if which]
    return [name for name in summaries if name not in copies and name not in cut], notes


def merged_ranks(profiles: list[Profile], names: list[str]) -> Profile:
    """One profile with a row per rank and kernel; wall, busy and idle seconds are a mean rank's."""
    if len(profiles) == 1:
        return profiles[0]
    summaries = [summary_of(profile) for profile in profiles]
    _refuse_several_runs(summaries, names)
    ranks, is_known = numbers_of(summaries, names)
    tables, timelines, first = [], [], 0
    calls: dict[int, object] = {}
    for profile, rank in zip(profiles, ranks, strict=True):
        ids = (pl.lit(rank, pl.Int64).alias("rank"), pl.col("id", "parent") + first)
        tables.append(profile.kernels.with_columns(ids))
        if profile.timeline is not None:
            timelines.append(profile.timeline.with_columns(pl.col("kernel") + first))
        calls |= {row + first: call for row, call in profile.calls.items()}
        first += 1 + max(profile.kernels["id"].to_list(), default=0)
    kernels = over_ranks(pl.concat(_same_amounts(tables), how="diagonal_relaxed"))
    merged = _whole(kernels, summaries, ranks, names, is_known)
    return replace(merged, timeline=timelines[0] if timelines else None, calls=calls)


def merged_fleet(kept: Sequence[KeptRank], names: list[str]) -> Profile:
    """One profile with a row per kernel, summed over all ranks; the timeline is a middle rank's."""
    summaries = [rank.summary for rank in kept]
    _refuse_several_runs(summaries, names)
    ranks, is_known = numbers_of(summaries, names)
    rows = merged_rows(kept, ranks)
    keys = dict(zip(rows[KEY].to_list(), rows["id"].to_list(), strict=True))
    merged = _whole(rows.drop(KEY), summaries, ranks, names, is_known)
    shown = kept[_middle(summaries)].profile()
    own = with_key(shown.kernels)
    places = {row: keys[key] for row, key in own.select("id", KEY).iter_rows()}
    timeline = shown.timeline
    if timeline is not None:
        there = pl.col("kernel").replace_strict(places, default=None, return_dtype=pl.Int64)
        timeline = timeline.with_columns(there)
    calls = {places[row]: call for row, call in reversed(list(shown.calls.items()))}
    return replace(merged, timeline=timeline, calls=calls)


def _middle(summaries: Sequence[Summary]) -> int:
    """The rank with the median wall time: one step of it stands for all."""
    order = sorted(range(len(summaries)), key=lambda i: summaries[i].wall_s or 0.0)
    return order[len(order) // 2]


def _whole(
    kernels: pl.DataFrame,
    summaries: Sequence[Summary],
    ranks: Sequence[int],
    names: list[str],
    is_known: bool,
) -> Profile:
    files = [file for s in summaries for file in s.source.files]
    source = msgspec.structs.replace(summaries[0].source, files=files)
    totals = [s.totals(rank) for s, rank in zip(summaries, ranks, strict=True)]
    return replace(
        Profile.of(kernels, source),
        # A rank whose trace was cut may not say it; several devices were refused before.
        device=next((s.device for s in summaries if s.device), None),
        threads=_agreed([s.threads for s in summaries]),
        wall_s=_mean([s.wall_s for s in summaries]),
        kernel_s=_mean([s.kernel_s for s in summaries]),
        idle_by_cause=_idle(summaries),
        steps=_agreed([s.steps for s in summaries]),
        notes=tuple(_notes(summaries, totals, names, is_known)),
        ranks=sorted(totals, key=lambda one: one.rank),
    )


def _refuse_several_runs(summaries: Sequence[Summary], names: list[str]) -> None:
    """Ranks of one run have one profiler, one kind of device, one number of ranks, and a number
    each."""
    for what, values in (
        ("profilers", [s.source.tool for s in summaries]),
        ("devices", [s.device for s in summaries]),
        ("numbers of ranks", [str(s.source.ranks or "") for s in summaries]),
    ):
        files = defaultdict(list)
        for value, name in zip(values, names, strict=True):
            if value:
                files[value].append(name)
        if len(files) > 1:
            kinds = "; ".join(f"{value}: {shown_list(files[value], 1)}" for value in sorted(files))
            error = f"{len(names)} files are several runs, of several {what} ({kinds})"
            raise InputError(error, advice=ONE_RUN)
    stated = [s.rank for s in summaries if s.rank is not None]
    if len(set(stated)) < len(stated):
        refuse_doubled(summaries, names, max(stated, key=stated.count))


def refuse_doubled(summaries: Sequence[Summary], names: Sequence[str], rank: int) -> None:
    """Several files that say they are one rank are several runs."""
    both = [n for n, s in zip(names, summaries, strict=True) if s.rank == rank]
    if len(both) > 1:
        what = f"more than one says it is rank {rank} ({shown_list(both, 2)})"
        raise InputError(f"{len(names)} files are several runs: {what}", advice=ONE_RUN)


def _named_rank(name: str) -> int | None:
    """The rank in the name of a file or of its folder."""
    found = _RANK.findall(name)
    return int(found[-1]) if found else None


def numbers_of(summaries: Sequence[Summary], names: Sequence[str]) -> tuple[list[int], bool]:
    """Every file's rank, as it says it or as its name does, and whether all of them do; those
    that do not take the numbers that are free, in their order."""
    stated = {i: s.rank for i, s in enumerate(summaries) if s.rank is not None}
    named = {i: rank for i, name in enumerate(names) if (rank := _named_rank(name)) is not None}
    # Names may count the ranks of a computer, or another group's.
    if all(stated.get(i, rank) == rank for i, rank in named.items()):
        both = named | stated
        stated = both if len(set(both.values())) == len(both) else stated
    taken = set(stated.values())
    free = (number for number in count() if number not in taken)
    numbers = [stated[i] if i in stated else next(free) for i in range(len(summaries))]
    return numbers, len(stated) == len(summaries)


def _same_amounts(tables: list[pl.DataFrame]) -> list[pl.DataFrame]:
    """Tables whose absent amounts mean what they meant alone."""
    columns = dict.fromkeys(c for t in tables for c in amount_columns(t))
    return [t.with_columns(**absent_amounts(t.columns, list(columns))) for t in tables]


def _agreed(values: list[T]) -> T | None:
    return values[0] if all(v == values[0] for v in values) else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _idle(summaries: Sequence[Summary]) -> dict[str, float]:
    idle: dict[str, float] = defaultdict(float)
    for cause, seconds in (one for s in summaries for one in s.idle_by_cause.items()):
        idle[cause] += seconds / len(summaries)
    return dict(idle)


def _notes(
    summaries: Sequence[Summary], totals: list[RankTotals], names: list[str], is_known: bool
) -> list[Note]:
    pairs = sorted(zip((t.rank for t in totals), names, strict=True))
    files = shown_list([f"{rank}: {name}" for rank, name in pairs], MOST_NAMED)
    rows = "each rank's" if len(totals) <= SIDE_BY_SIDE else "summed over ranks"
    text = (
        f"{len(totals)} files are taken as ranks of one run ({files})."
        f" Rows are {rows}, totals those of a mean rank."
    )
    taken = Note(text if is_known else f"{text} {_NUMBERED}", "taken-as-ranks")
    missing = _missing(summaries, [t.rank for t in totals]) if is_known else []
    unnamed = {} if is_known else {t.rank: n for t, n in zip(totals, names, strict=True)}
    return [taken, *missing, *_slow(totals, unnamed), *_own(summaries, names)]


def _own(summaries: Sequence[Summary], names: Sequence[str]) -> list[Note]:
    """Notes of the single files, each once; what not all of them say is said of whom."""
    said: dict[NoteDocument, list[str]] = {}
    for summary, name in zip(summaries, names, strict=True):
        for document in dict.fromkeys(summary.notes):
            said.setdefault(document, []).append(name)
    return [
        note
        if len(of) == len(names)
        else Note(f"{shown_list(of, 2)}: {note}", note.code, note.level)
        for of, note in zip(said.values(), notes_of_documents(said), strict=True)
    ]


def _missing(summaries: Sequence[Summary], ranks: Sequence[int]) -> list[Note]:
    """Ranks that the program has and that no file is of.

    Where no file says how many there are, at least those below the highest one must be.
    """
    worlds = {s.source.ranks for s in summaries if s.source.ranks}
    there = set(ranks)
    world = max([*worlds, max(ranks) + 1])
    lacking = world - len(there)
    if not lacking:
        return []
    # A damaged file may say that it is rank 10^18: only those that are named are looked for.
    named = list(islice((str(rank) for rank in range(world) if rank not in there), 8))
    more = f" and {lacking - len(named)} more" if lacking > len(named) else ""
    of = "" if worlds else "at least "
    words = f"{lacking} of {of}{world} ranks have no file: {', '.join(named)}{more}."
    return [Note(words, "missing-ranks", "warning")]


_NUMBERED = "Not every file says its rank: the others were numbered in order."
_FIELDS = {"wall_s": "run time", "kernel_s": "kernel time", "communication_s": "communication"}


def _slow(totals: list[RankTotals], unnamed: dict[int, str]) -> list[Note]:
    """Ranks that stand out, by what they stand out in; by their files, where the number is ours."""
    found: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for field, words in _FIELDS.items():
        found[tuple(outliers(totals, field))].append(words)
    return [
        Note(
            f"Rank{'s' if len(ranks) > 1 else ''} {_named_ranks(ranks, unnamed)}"
            f" stand{'' if len(ranks) > 1 else 's'} out in {' and '.join(words)}: more than"
            f" {OUTLIER_DEVIATIONS:g} median absolute deviations from the median rank.",
            "outlier-ranks", "warning",
        )
        for ranks, words in found.items()
        if ranks
    ]  # fmt: skip


def _named_ranks(ranks: Sequence[int], unnamed: dict[int, str]) -> str:
    shown = [f"{rank} ({unnamed[rank]})" if rank in unnamed else str(rank) for rank in ranks]
    return shown_list(shown, MOST_NAMED if unnamed else 8)
