"""Several profiles of one run as one: its ranks side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import msgspec
import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source, amount_columns
from timeroof.read.launches import shown_list

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def merged_ranks(profiles: list[Profile], names: list[str]) -> Profile:
    """One profile with a row per rank and kernel; seconds of all ranks are added up."""
    if len(profiles) == 1:
        return profiles[0]
    _refuse_several_runs(profiles, names)
    ranks = _ranks(profiles)
    tables, timelines, first = [], [], 0
    for profile, rank in zip(profiles, ranks, strict=True):
        tables.append(_ranked(profile.kernels, rank, first))
        if profile.timeline is not None:
            timelines.append(profile.timeline.with_columns(pl.col("kernel") + first))
        first += 1 + max(profile.kernels["id"].to_list(), default=0)
    kernels = pl.concat(_same_amounts(tables), how="diagonal_relaxed")
    sources = [p.source for p in profiles]
    merged = Profile.of(kernels, _source(sources))
    return replace(
        merged,
        device=_agreed([p.device for p in profiles]),
        threads=_agreed([p.threads for p in profiles]),
        wall_s=_total(profiles, lambda p: p.wall_s),
        kernel_s=_total(profiles, lambda p: p.kernel_s),
        idle_by_cause=_idle(profiles),
        steps=_agreed([p.steps for p in profiles]),
        timeline=timelines[0] if timelines else None,
        notes=_notes(profiles, ranks, names),
    )


def _refuse_several_runs(profiles: list[Profile], names: list[str]) -> None:
    """Ranks of one run have one profiler, one kind of device and a number each."""
    advice = "name the files of one run"
    for what, values in (
        ("profilers", {p.source.tool for p in profiles}),
        ("devices", {p.device for p in profiles if p.device}),
    ):
        if len(values) > 1:
            raise InputError(
                f"{shown_list(names, 3)} are several runs, of several {what}"
                f" ({shown_list(sorted(values))})",
                advice=advice,
            )
    stated = [r for p in profiles if (r := _stated_rank(p)) is not None]
    if len(set(stated)) < len(stated):
        raise InputError(
            f"{shown_list(names, 3)} are several runs: more than one says it is rank"
            f" {max(stated, key=stated.count)}",
            advice=advice,
        )


def _stated_rank(profile: Profile) -> int | None:
    stated = profile.kernels["rank"].drop_nulls().unique().to_list()
    return int(stated[0]) if len(stated) == 1 else None


def _ranks(profiles: list[Profile]) -> list[int]:
    """Ranks as the files say them, or their order where they do not."""
    stated = [_stated_rank(p) for p in profiles]
    known = [rank for rank in stated if rank is not None]
    return known if len(known) == len(profiles) else list(range(len(profiles)))


def _ranked(kernels: pl.DataFrame, rank: int, first: int) -> pl.DataFrame:
    return kernels.with_columns(
        pl.lit(rank, pl.Int64).alias("rank"), pl.col("id") + first, pl.col("parent") + first
    )


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
        filled.append(
            table.with_columns(
                pl.lit(_meaning(c, counts_flops=counts_flops), pl.Float64).alias(c) for c in absent
            )
        )
    return filled


def _meaning(column: str, *, counts_flops: bool) -> float | None:
    if column.startswith("flop/"):
        return 0.0 if counts_flops else None
    return None if column.startswith("byte/") else 0.0


def _source(sources: list[Source]) -> Source:
    files = [file for source in sources for file in source.files]
    return msgspec.structs.replace(sources[0], files=files)


def _agreed(values: list[T]) -> T | None:
    return values[0] if all(v == values[0] for v in values) else None


def _total(profiles: list[Profile], of: Callable[[Profile], float | None]) -> float | None:
    known = [v for p in profiles if (v := of(p)) is not None]
    return sum(known) if len(known) == len(profiles) else None


def _idle(profiles: list[Profile]) -> dict[str, float]:
    idle: dict[str, float] = {}
    for profile in profiles:
        for cause, seconds in profile.idle_by_cause.items():
            idle[cause] = idle.get(cause, 0.0) + seconds
    return idle


def _notes(profiles: list[Profile], ranks: list[int], names: list[str]) -> tuple[str, ...]:
    files = ", ".join(f"{rank}: {name}" for rank, name in list(zip(ranks, names, strict=True))[:16])
    more = "" if len(ranks) <= 16 else f" and {len(ranks) - 16} more"
    own = [note for p in profiles for note in p.notes]
    return (
        f"{len(profiles)} files are taken as ranks of one run ({files}{more}); times are added up"
        " over the ranks.",
        *dict.fromkeys(own),
    )
