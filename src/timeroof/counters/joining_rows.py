"""Which counted amounts belong to which row of a timed profile."""

from __future__ import annotations

import polars as pl

from timeroof.core.profile import ORIGIN, Profile, amount_columns
from timeroof.core.units import format_percent
from timeroof.counters.kernel_names import base_of, plain_name

# Kinds of row that are kernels of a device.
_KERNELS = ("kernel", "collective")
_KEY = "_key"


def per_row(
    timed: Profile, counted: Profile, launches: pl.DataFrame | None
) -> tuple[pl.DataFrame, list[str]]:
    """A table of row id and amounts, totals over the row's calls, and notes on the matching."""
    rows = timed.kernels.filter(pl.col("kind").is_in(_KERNELS))
    rows = rows.select("id", "name", "calls", "time_s")
    average, rows, notes = _averages(rows, counted)
    exact = _by_occurrence(rows, timed.timeline, launches)
    if exact is not None and exact.height:
        average = average.filter(~pl.col("id").is_in(exact["id"].implode()))
        average = pl.concat([exact, average], how="diagonal_relaxed")
    notes += _count_notes(rows, counted, exact)
    return average, notes


def _averages(rows: pl.DataFrame, counted: Profile) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """Amounts of each row: its kernel's average per call times the row's calls."""
    rows = rows.with_columns(_keys(rows["name"], plain_name))
    table = counted.kernels.with_columns(_keys(counted.kernels["name"], plain_name))
    by_base = _unmatched_by_base(rows, table)
    if by_base:
        rows = rows.with_columns(pl.col(_KEY).replace(by_base))
    sums = _per_call(table)
    found = rows.join(sums, on=_KEY, how="inner", maintain_order="left")
    amounts = amount_columns(found)
    origins = [c for c in found.columns if c.startswith(ORIGIN)]
    scaled = [(pl.col(c) * pl.col("calls")).alias(c) for c in amounts]
    notes = []
    if by_base:
        notes.append(
            f"{len(by_base)} kernels are matched by their bare names: the profiler spells their"
            " arguments differently."
        )
    notes += [*_unmatched(rows, sums), *_only_counted(rows, sums)]
    return found.select("id", *scaled, *origins), rows, notes


def _keys(names: pl.Series, of: object) -> pl.Series:
    spelled = {name: of(name) for name in names.unique().to_list()}  # type: ignore[operator]
    return names.replace_strict(spelled, return_dtype=pl.String).alias(_KEY)


def _per_call(table: pl.DataFrame) -> pl.DataFrame:
    """Averages per call of each counted kernel; unknown in one row is unknown."""
    amounts = amount_columns(table)
    origins = [c for c in table.columns if c.startswith(ORIGIN) and c != f"{ORIGIN}time"]
    return table.group_by(_KEY, maintain_order=True).agg(
        pl.col("calls").sum().alias("counted_calls"),
        *(
            pl.when(pl.col(c).null_count() == 0)
            .then(pl.col(c).sum() / pl.col("calls").sum())
            .alias(c)
            for c in amounts
        ),
        *(pl.col(c).drop_nulls().first() for c in origins),
    )


def _unmatched_by_base(rows: pl.DataFrame, table: pl.DataFrame) -> dict[str, str]:
    """Keys of rows that no counted kernel has, and the only kernel with the same bare name."""
    counted = dict(table.select(_KEY, "name").unique(_KEY).iter_rows())
    bases: dict[str, list[str]] = {}
    for key, name in counted.items():
        bases.setdefault(base_of(name), []).append(key)
    lost = dict(rows.filter(~pl.col(_KEY).is_in(list(counted))).select(_KEY, "name").iter_rows())
    own: dict[str, list[str]] = {}
    for key, name in lost.items():
        own.setdefault(base_of(name), []).append(key)
    return {
        keys[0]: bases[base][0]
        for base, keys in own.items()
        if len(keys) == 1 and len(bases.get(base, [])) == 1
    }


def _unmatched(rows: pl.DataFrame, sums: pl.DataFrame) -> list[str]:
    alone = rows.join(sums, on=_KEY, how="anti")
    total_s = float(rows["time_s"].sum())
    if not alone.height or not total_s:
        return []
    share = format_percent(float(alone["time_s"].sum()) / total_s)
    return [
        f"{alone.height} rows ({share} of the kernels' time) were not counted: their amounts stay"
        " as they were."
    ]


def _only_counted(rows: pl.DataFrame, sums: pl.DataFrame) -> list[str]:
    """Say which share of the counted launches the clean run does not have."""
    alone = sums.join(rows, on=_KEY, how="anti")
    total = float(sums["counted_calls"].sum())
    if not alone.height or not total:
        return []
    share = format_percent(float(alone["counted_calls"].sum()) / total)
    return [
        f"{alone.height} kernels of the counted run ({share} of its launches) are not in the clean"
        " run: they are left out."
    ]


def _by_occurrence(
    rows: pl.DataFrame, timeline: pl.DataFrame | None, launches: pl.DataFrame | None
) -> pl.DataFrame | None:
    """Amounts of rows from single launches: the n-th of a kernel's name takes the n-th counted.

    Only kernels that both runs launched equally often are taken.
    """
    if timeline is None or launches is None or not launches.height:
        return None
    order = timeline.sort("start_s").join(
        rows.select(pl.col("id").alias("kernel"), _KEY, "calls"), on="kernel", how="inner",
        maintain_order="left",
    )  # fmt: skip
    single = launches.with_columns(_keys(launches["name"], plain_name))
    same = _counts(order).join(_counts(single), on=[_KEY, "times"])
    number = pl.int_range(pl.len()).over(_KEY).alias("_number")
    amounts = amount_columns(single)
    origins = [c for c in single.columns if c.startswith(ORIGIN)]
    matched = (
        order.with_columns(number)
        .join(same.select(_KEY), on=_KEY)
        .join(single.with_columns(number), on=[_KEY, "_number"], suffix="_counted")
    )
    # The timeline is one step; a row's calls may be of more.
    scale = pl.col("calls").first() / pl.len()
    return matched.group_by("kernel", maintain_order=True).agg(
        *(
            pl.when(pl.col(c).null_count() == 0).then(pl.col(c).sum() * scale).alias(c)
            for c in amounts
        ),
        *(pl.col(c).first() for c in origins),
    ).rename({"kernel": "id"})  # fmt: skip


def _counts(table: pl.DataFrame) -> pl.DataFrame:
    return table.group_by(_KEY).agg(pl.len().alias("times"))


def _count_notes(rows: pl.DataFrame, counted: Profile, exact: pl.DataFrame | None) -> list[str]:
    """Say where averages stand for single launches."""
    table = counted.kernels.with_columns(_keys(counted.kernels["name"], plain_name))
    own = rows.group_by(_KEY).agg(pl.col("calls").sum(), pl.len().alias("rows"))
    theirs = table.group_by(_KEY).agg(pl.col("calls").sum().alias("counted_calls"))
    both = own.join(theirs, on=_KEY)
    differ = both.filter((pl.col("calls") - pl.col("counted_calls")).abs() > 1e-9)
    notes = []
    if differ.height:
        notes.append(
            f"{differ.height} of {both.height} kernels were launched a different number of times"
            f" in the two runs ({both['calls'].sum():g} and {both['counted_calls'].sum():g} in"
            " all): their amounts are averages per call."
        )
    shared = rows.filter(pl.col(_KEY).is_in(both.filter(pl.col("rows") > 1)[_KEY].implode()))
    if exact is not None:
        shared = shared.filter(~pl.col("id").is_in(exact["id"].implode()))
    if shared.height:
        notes.append(
            f"{shared.height} rows share a kernel with other rows: each takes the kernel's average"
            " per call, so sums are right and single rows may not be."
        )
    return notes
