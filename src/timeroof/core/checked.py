"""What a profile says beside its rows, held against what can be true: the one gate for all files.

`Profile.of` checks the rows. Every reader and every saved run ends here for the rest: seconds are
finite and not negative, a timeline's events are of rows that exist, tables have their columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec
import polars as pl

from timeroof.core.errors import InputError, Note, as_notes
from timeroof.core.profile import (
    LARGEST,
    ROUNDING,
    TIMELINE_COLUMNS,
    Profile,
    amount_columns,
    typed_columns,
)

ADVICE = "record or save it again"
# Columns of a timeline that may be absent.
OPTIONAL = ("stream", "idle_cause")


def checked_whole(profile: Profile, where: str) -> Profile:
    """The profile with its tables typed, or an InputError that names what cannot be true."""
    for name, seconds in _seconds(profile):
        if not (math.isfinite(seconds) and 0 <= seconds <= LARGEST):
            raise InputError(f"{name} is {seconds}", where, ADVICE)
    for name, count in (("threads", profile.threads), ("steps", _steps(profile))):
        if count is not None and not 0 <= count < 2**53:
            raise InputError(f"{name} is {count}", where, ADVICE)
    timeline, rungs = profile.timeline, profile.rungs
    return replace(
        profile,
        timeline=None if timeline is None else _timeline(timeline, profile.kernels["id"], where),
        rungs=None if rungs is None else _rungs(rungs, where),
    )


def in_utf8(profile: Profile) -> Profile:
    """The profile with texts that JSON can hold: names of files may be any bytes."""
    source = profile.source
    files = [msgspec.structs.replace(f, name=utf8(f.name)) for f in source.files]
    texts = {c: utf8(v) for c in ("tool", "version", "command") if (v := getattr(source, c))}
    notes = tuple(Note(utf8(n), n.code, n.level) for n in as_notes(profile.notes))
    device = utf8(profile.device) if profile.device else profile.device
    source = msgspec.structs.replace(source, files=files, **texts)
    return replace(profile, source=source, notes=notes, device=device)


def utf8(text: str) -> str:
    """A text without what UTF-8 cannot say.

    >>> utf8("a\\udcffb"), utf8("é")
    ('a?b', 'é')
    """
    return text.encode("utf-8", "replace").decode()


def refuse_busier_than_rows(profile: Profile, where: str) -> None:
    """Refuse a saved run whose busy seconds no rows fill."""
    time_s = profile.kernels["time_s"]
    if profile.kernel_s is None or time_s.null_count():
        return
    if profile.kernel_s > float(time_s.sum()) * 1.01 + ROUNDING:
        what = f"kernel_s is {profile.kernel_s:g} s, its rows take {float(time_s.sum()):g} s"
        raise InputError(what, where, ADVICE)


def _seconds(profile: Profile) -> Iterator[tuple[str, float]]:
    named: Mapping[str, float | None] = {
        "wall_s": profile.wall_s,
        "kernel_s": profile.kernel_s,
        "unexplained_error_s": profile.unexplained_error_s,
        # Differences of seconds may end a rounding below 0.
        **{f"idle {c}": _above_rounding(s) for c, s in profile.idle_by_cause.items()},
    }
    yield from ((name, value) for name, value in named.items() if value is not None)
    steps = profile.steps
    if steps is None:
        return
    for name, value in (("unprofiled_s", steps.unprofiled_s), ("profiled_s", steps.profiled_s)):
        if value is not None:
            yield name, value
    yield from (("a step's seconds", s) for s in (*steps.samples, *steps.pace_samples))
    for kind in steps.kinds:
        numbers = (kind.median_s, kind.total_s, kind.share)
        yield from ((f"step kind {kind.name[:40]!r}", v) for v in numbers if v is not None)


def _above_rounding(seconds: float) -> float:
    return 0.0 if -ROUNDING <= seconds < 0 else seconds


def _steps(profile: Profile) -> int | None:
    return None if profile.steps is None else profile.steps.count


def _timeline(table: pl.DataFrame, ids: pl.Series, where: str) -> pl.DataFrame:
    missing = [c for c in TIMELINE_COLUMNS if c not in table.columns]
    for column in missing:
        if column not in OPTIONAL:
            raise InputError(f"the timeline has no column {column!r}", where, ADVICE)
    table = table.with_columns(pl.lit(None, pl.String).alias(c) for c in missing)
    table = table.select(*TIMELINE_COLUMNS)
    typed = typed_columns(table, TIMELINE_COLUMNS, "the timeline", where)
    for column, least in (("start_s", -LARGEST), ("duration_s", 0.0)):
        if typed[column].null_count():
            raise InputError(f"the timeline's {column} has no value somewhere", where, ADVICE)
        _refuse_outside(typed[column], least, "timeline", where)
    dangling = typed["kernel"].drop_nulls().unique()
    dangling = dangling.filter(~dangling.is_in(ids.implode()))
    if len(dangling):
        raise InputError(f"the timeline has row {dangling[0]}, which is not there", where, ADVICE)
    return typed


def _rungs(table: pl.DataFrame, where: str) -> pl.DataFrame:
    if "name" not in table.columns:
        raise InputError("the rungs have no column 'name'", where, ADVICE)
    amounts = amount_columns(table)
    types: dict[str, type[pl.DataType]] = {"name": pl.String} | dict.fromkeys(amounts, pl.Float64)
    typed = typed_columns(table, types, "the rungs", where)
    for column in amounts:
        _refuse_outside(typed[column], 0.0, "rungs", where)
    return typed


def _refuse_outside(values: pl.Series, least: float, what: str, where: str) -> None:
    wrong = values.filter(~(values.is_finite() & values.is_between(least, LARGEST)))
    if len(wrong):
        raise InputError(f"the {what}'s {values.name} has {wrong[0]}", where, ADVICE)
