"""Counters give amounts, the clean run gives times: two profiles of one program as one."""

from __future__ import annotations

import re
from dataclasses import replace

import polars as pl

from timeroof.core.profile import ORIGIN, Profile, amount_columns
from timeroof.core.units import format_amount, format_percent

# Counters of a whole region beside a timed profile: perf counts no single kernels.


# The name of a region that is an average step.
ONE_STEP = "one step"


def is_one_unit(counted: Profile) -> bool:
    """Whether the counters are of one region as a whole."""
    return counted.kernels["kind"].to_list() == ["unit"]


def join_unit(timed: Profile, counted: Profile) -> Profile:
    """Amounts of a region for the one unit that was timed, or as a note beside many rows."""
    if timed.kernels.height != 1:
        return replace(timed, notes=(*timed.notes, *_beside(timed, counted), *counted.notes))
    amounts = [c for c in amount_columns(counted.kernels) if counted.kernels[c][0] is not None]
    table = timed.kernels
    calls = float(table["calls"][0] or 1.0) / float(counted.kernels["calls"][0] or 1.0)
    columns = [pl.lit(counted.kernels[c][0] * calls).alias(c) for c in amounts]
    if any(c.startswith("flop/") for c in amounts):
        others = [c for c in amount_columns(table) if c.startswith("flop/") and c not in amounts]
        columns += [pl.lit(0.0).alias(c) for c in others]
    origins = [c for c in counted.kernels.columns if c.startswith(ORIGIN) and c != f"{ORIGIN}time"]
    columns += [pl.lit(counted.kernels[c][0]).alias(c) for c in origins if counted.kernels[c][0]]
    joined = timed.with_kernels(table.with_columns(columns))
    said = ", ".join(amounts) or "nothing"
    first = f"Measured by {counted.source.tool}: {said}; the time is from the clean run."
    return replace(joined, notes=tuple(dict.fromkeys((*timed.notes, first, *counted.notes))))


def _beside(timed: Profile, counted: Profile) -> list[str]:
    """What was counted for the whole, and what the rows' shapes say."""
    what = ONE_STEP if counted.kernels["name"][0] == ONE_STEP else "the whole region"
    notes = []
    for prefix, unit in (("flop/", "FLOP"), ("byte/dram", "B")):
        measured = _total(counted, prefix)
        if measured is not None:
            own = _total(timed, prefix)
            notes.append(
                f"{counted.source.tool} counted {format_amount(measured, unit)} for {what}; the"
                f" rows' own amounts are {format_amount(own, unit)} and stay as they were."
            )
    return notes


def _total(profile: Profile, prefix: str) -> float | None:
    columns = [c for c in amount_columns(profile.kernels) if c.startswith(prefix)]
    values = [profile.kernels[c] for c in columns]
    unknown = not values or any(v.null_count() for v in values)
    return None if unknown else float(sum(v.sum() for v in values))


# One kernel, several spellings: traces and profilers demangle names in their own ways.


_CAST = re.compile(r"\((?:unsigned |signed )?(?:int|long|bool|char|short|size_t)\)(?=[-\w])")
_LAMBDA = re.compile(
    r"\{lambda\([^{}]*?\)#\d+\}|\[lambda\([^\[\]]*?\)(?:\s*\(instance \d+\))?\]|::lambda\(.*?\)#\d+"
)
_NAMELESS = re.compile(r"\(anonymous namespace\)|<unnamed>|_GLOBAL__N__\w+|\{unnamed\}")
_SUFFIX = re.compile(r"\s*\[clone [^\]]*\]|\.kd$")
_GAPS = re.compile(r"\s+")


def plain_name(name: str) -> str:
    """A kernel's name without what demanglers spell differently."""
    text = _SUFFIX.sub("", name)
    text = _NAMELESS.sub("{nameless}", text)
    text = _LAMBDA.sub("{lambda}", text)
    return _GAPS.sub("", _CAST.sub("", text)).removeprefix("void")


# Which counted amounts belong to which row of a timed profile.


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
    return average, notes


def _averages(rows: pl.DataFrame, counted: Profile) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """Amounts of each row: its kernel's average per call times the row's calls."""
    rows = rows.with_columns(_keys(rows["name"], plain_name))
    table = counted.kernels.with_columns(_keys(counted.kernels["name"], plain_name))
    sums = _per_call(table)
    found = rows.join(sums, on=_KEY, how="inner", maintain_order="left")
    amounts = amount_columns(found)
    origins = [c for c in found.columns if c.startswith(ORIGIN)]
    scaled = [(pl.col(c) * pl.col("calls")).alias(c) for c in amounts]
    notes = [*_lone_notes(rows, sums), *_count_notes(rows, sums)]
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


def _lone_notes(rows: pl.DataFrame, sums: pl.DataFrame) -> list[str]:
    """Say which share of either run the other one does not have."""
    notes = []
    alone = rows.join(sums, on=_KEY, how="anti")
    if alone.height:
        share = format_percent(_share(alone["time_s"], rows["time_s"]))
        notes.append(
            f"{alone.height} rows ({share} of the kernels' time) were not counted: their amounts"
            " stay as they were."
        )
    alone = sums.join(rows, on=_KEY, how="anti")
    if alone.height:
        share = format_percent(_share(alone["counted_calls"], sums["counted_calls"]))
        notes.append(
            f"{alone.height} kernels of the counted run ({share} of its launches) are not in the"
            " clean run: they are left out."
        )
    return notes


def _share(part: pl.Series, whole: pl.Series) -> float | None:
    total = float(whole.sum())
    return float(part.sum()) / total if total else None


def _by_occurrence(
    rows: pl.DataFrame, timeline: pl.DataFrame | None, launches: pl.DataFrame | None
) -> pl.DataFrame | None:
    """Amounts of rows from single launches: the n-th of a kernel's name takes the n-th counted.
    Only kernels that both runs launched equally often are taken."""
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


def _count_notes(rows: pl.DataFrame, sums: pl.DataFrame) -> list[str]:
    both = rows.group_by(_KEY).agg(pl.col("calls").sum()).join(sums, on=_KEY)
    differ = both.filter((pl.col("calls") - pl.col("counted_calls")).abs() > 1e-9)
    if not differ.height:
        return []
    return [
        f"{differ.height} of {both.height} kernels were launched a different number of times in"
        f" the two runs ({both['calls'].sum():g} and {both['counted_calls'].sum():g} in all): their"
        " amounts are averages per call."
    ]


def join(timed: Profile, counted: Profile, launches: pl.DataFrame | None = None) -> Profile:
    """The timed profile with the counted amounts.

    Rows are matched by kernel name. With the launches of the counted run, and a timeline of the
    timed one, the n-th launch of a kernel takes the amounts of the n-th counted; otherwise a
    row takes the average of its kernel's launches times its own. Amounts that were not counted
    stay as they were. Times are never taken from the run under counters.
    """
    if is_one_unit(counted):
        return join_unit(timed, counted)
    found, notes = per_row(timed, counted, launches)
    if not found.height:
        note = "No kernel of the counted run has a name of the clean run: no counter is used."
        return replace(timed, notes=(*timed.notes, *counted.notes, note))
    table = _with_amounts(timed.kernels, found)
    own = table.filter(pl.col("id").is_in(found["id"].implode()))
    share = _share(own["time_s"], table["time_s"])
    first = (
        f"Amounts of {found.height} of {table.height} rows ({format_percent(share)} of the time)"
        f" are measured by {counted.source.tool}; all times are from the clean run."
    )
    told = tuple(dict.fromkeys((*timed.notes, first, *notes, *counted.notes)))
    return replace(timed.with_kernels(table), notes=told)


def _with_amounts(table: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    amounts = amount_columns(found)
    both = dict.fromkeys((*amount_columns(table), *amounts))
    flops = [c for c in both if c.startswith("flop/")]
    levels = [c for c in amounts if c.startswith("byte/")]
    new = found.rename({c: f"_{c}" for c in found.columns if c != "id"})
    wide = table.join(new, on="id", how="left", maintain_order="left")
    # FLOPs are one statement over all precisions: all of them are counted, or none is taken.
    told = [f"_{c}" for c in flops if f"_{c}" in wide.columns]
    known = pl.all_horizontal(pl.col(c).is_not_null() for c in told) if told else pl.lit(False)
    columns = [_flops(wide, c, known) for c in flops] if told else []
    columns += [_chosen(wide, c, pl.col(f"_{c}").is_not_null()) for c in levels]
    columns.append(_origin(wide, "flops", known))
    columns += [
        _origin(wide, f"bytes/{c.removeprefix('byte/')}", pl.col(f"_{c}").is_not_null())
        for c in levels
    ]
    return wide.with_columns(columns).select(pl.exclude("^_.*$"))


def _old(wide: pl.DataFrame, column: str, absent: float | None) -> pl.Expr:
    return pl.col(column) if column in wide.columns else pl.lit(absent, pl.Float64)


def _flops(wide: pl.DataFrame, column: str, known: pl.Expr) -> pl.Expr:
    """Counted FLOPs of a precision; one that only shapes spoke of was not executed."""
    name = f"_{column}"
    new = pl.col(name) if name in wide.columns else pl.lit(0.0)
    had_flops = any(c.startswith("flop/") for c in wide.columns)
    old = _old(wide, column, 0.0 if had_flops else None)
    return pl.when(known).then(new).otherwise(old).alias(column)


def _chosen(wide: pl.DataFrame, column: str, known: pl.Expr) -> pl.Expr:
    new = pl.col(f"_{column}")
    return pl.when(known).then(new).otherwise(_old(wide, column, None)).alias(column)


def _origin(wide: pl.DataFrame, what: str, known: pl.Expr) -> pl.Expr:
    column = f"{ORIGIN}{what}"
    new = pl.col(f"_{column}") if f"_{column}" in wide.columns else pl.lit("measured")
    old = pl.col(column) if column in wide.columns else pl.lit(None, pl.String)
    return pl.when(known).then(new.fill_null("measured")).otherwise(old).alias(column)
