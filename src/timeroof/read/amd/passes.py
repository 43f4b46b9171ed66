"""One run of a program on AMD's devices: its dispatches, copies and host calls, and its counters.

A chip counts a few things at a time, so profilers repeat the program. Runs are joined by kernel
name, grid and occurrence (the n-th dispatch of that kernel), never by dispatch number.
"""

from __future__ import annotations

import polars as pl

from timeroof.core.errors import Note
from timeroof.core.profile import Profile
from timeroof.read.amd.counters import with_amounts
from timeroof.read.events import Whole, copy_bytes, profile_of
from timeroof.read.ranges import linked

OCCURRENCE = "_occurrence"
# What tells the dispatches of one kernel from those of others.
KEYS = ["name", "grid"]
UNDER_COUNTERS = Note("Times are from the run under counters, kernel by kernel.", "serialised")


def profile_of_run(
    kernels: list[pl.DataFrame],
    counters: pl.DataFrame | None,
    copies: list[pl.DataFrame],
    calls: pl.DataFrame | None,
    whole: Whole,
) -> Profile:
    """The profile of dispatches with their counters, of copies, and of what launched them."""
    events = pl.concat(kernels, how="diagonal_relaxed") if kernels else pl.DataFrame()
    notes: list[str] = []
    if counters is not None:
        events, notes = counted(events, counters)
    moved = [c for c in copies if c.height]
    events, host = pl.concat([events, *moved], how="diagonal_relaxed"), None
    if calls is not None:
        events, host = linked(events, calls)
    events = events.drop("correlation", "grid", strict=False)
    return profile_of(events, Whole(whole.source, None, (*whole.notes, *notes), host=host))


def copies_of(raw: pl.DataFrame, process: int) -> pl.DataFrame:
    """Copies: `raw` has way, start_ns, end_ns, gpu, stream, correlation, size, maybe device."""
    way = pl.col("way").fill_null("").str.replace("^MEMORY_COPY_", "").str.to_lowercase()
    link, dram = copy_bytes(pl.col("size").cast(pl.Float64), way)
    return raw.with_columns(
        pl.lit("copy").alias("kind"),
        pl.format("Memcpy {}", way.str.replace_all("_", "-")).alias("name"),
        link.alias("link/pcie"),
        dram.alias("byte/dram"),
        pl.lit(process, pl.Int64).alias("process"),
    ).drop("way", "size")


def number_occurrences(table: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Number the dispatches of each kernel in order."""
    return table.with_columns(pl.int_range(pl.len()).over(keys).alias(OCCURRENCE))


def wide(long: pl.DataFrame, keys: list[str] = KEYS) -> pl.DataFrame:
    """One row per (keys, occurrence) from one row per counter; repeats are averaged.

    `long` has the keys, dispatch, counter and value, of one run.
    """
    order = long.select(*keys, "dispatch").unique(maintain_order=True)
    order = number_occurrences(order, keys)
    named = long.join(order, on=[*keys, "dispatch"], how="left", nulls_equal=True)
    index = [*keys, OCCURRENCE]
    table = named.pivot("counter", index=index, values="value", aggregate_function="mean")
    return table.drop("null", strict=False)


def summed_instances(long: pl.DataFrame) -> pl.DataFrame:
    """Counters in long form, summed over the instances of their unit."""
    keys = [*KEYS, "dispatch", "counter"]
    return long.drop_nulls().group_by(keys, maintain_order=True).agg(pl.col("value").sum())


def join_passes(passes: list[pl.DataFrame], keys: list[str] = KEYS) -> pl.DataFrame:
    """Wide tables of several runs side by side; a counter of several runs is averaged."""
    on = [*keys, OCCURRENCE]
    stacked = pl.concat(passes, how="diagonal")
    return stacked.group_by(on, maintain_order=True).agg(pl.exclude(on).mean())


def counted(dispatches: pl.DataFrame, counters: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Dispatches with the amounts that their counters tell, and notes on what is missing."""
    events, lent = lend_counters(dispatches, counters, KEYS)
    events, missing = with_amounts(events)
    return mark_lent(events), [*lent, *missing]


def lend_counters(
    dispatches: pl.DataFrame, counters: pl.DataFrame, keys: list[str]
) -> tuple[pl.DataFrame, list[str]]:
    """Dispatches with their counters; those not measured take the mean of the same kernel's.

    A lent value is marked in column ``_lent``. Returns notes on both cases.
    """
    names = [c for c in counters.columns if c not in (*keys, OCCURRENCE)]
    joined = number_occurrences(dispatches, keys).join(
        counters, on=[*keys, OCCURRENCE], how="left", nulls_equal=True, maintain_order="left"
    )
    known = pl.any_horizontal(pl.col(c).is_not_null() for c in names)
    joined = joined.with_columns((~known).alias("_lent"))
    means = counters.group_by(keys).agg(pl.col(c).mean().alias(f"_mean_{c}") for c in names)
    joined = joined.join(means, on=keys, how="left", nulls_equal=True, maintain_order="left")
    given = {c: pl.when("_lent").then(f"_mean_{c}").otherwise(c) for c in names}
    joined = joined.with_columns(**given)
    notes: list[str] = []
    if lent := joined.filter(pl.col("_lent") & known).height:
        text = (
            f"{lent} of {joined.height} dispatches were not counted themselves: their amounts are"
            " the mean of the same kernel and grid, marked as inferred."
        )
        notes.append(Note(text, "lent-counters"))
    if bare := joined.filter(~known).height:
        text = f"{bare} of {joined.height} dispatches have no counters: amounts unknown."
        notes.append(Note(text, "not-collected", "warning"))
    return joined.drop([f"_mean_{c}" for c in names] + [OCCURRENCE]), notes


def mark_lent(table: pl.DataFrame) -> pl.DataFrame:
    """Origins of lent amounts become ``inferred``."""
    origins = [c for c in table.columns if c.startswith("origin.") and c != "origin.time"]
    known = {c: pl.col("_lent") & pl.col(c).is_not_null() for c in origins}
    marked = {c: pl.when(k).then(pl.lit("inferred")).otherwise(c) for c, k in known.items()}
    return table.with_columns(**marked).drop("_lent")
