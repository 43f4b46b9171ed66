"""Which rows of two runs are the same work: by everything first, then by less and less.

Rows are summed per key, so that a run which calls a kernel from two streams still matches one
that uses one. What no key joins is compared module by module, and then phase by phase: a compiled
program has other kernels than an eager one, but the same modules and the same backward pass.
"""

from __future__ import annotations

import polars as pl

from timeroof.core.machine import LEVELS as LEVELS_OF_MEMORY

# From the strictest to the loosest: kernel names change between versions and chips, ops between
# backends, modules between frameworks, shapes between batch sizes. A key needs its first column.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("name", "kind", "op", "module", "shape", "dtype", "phase", "labels", "rank"),
    ("op", "module", "shape", "dtype", "phase", "labels"),
    ("name", "shape", "phase", "labels"),
    ("plain_op", "module", "shape", "dtype", "phase"),
    ("family", "module", "shape", "phase"),
    ("plain_op", "shape", "phase"),
    ("module", "plain_op", "phase"),
    ("module", "family", "phase"),
    ("plain_op", "phase"),
    ("name",),
    ("stem", "phase"),
    ("family", "phase"),
)
# Not the same kernels any more, only the same part of the program.
PARTS: tuple[tuple[str, ...], ...] = (("module", "phase"), ("phase",))
BY_PART = tuple(" ".join(part) for part in PARTS)
BY_MODULE = BY_PART[0]

SUMS = (
    "elapsed_s", "time_s", "calls", "launches", "launch_s", "work_s", "work_other_s", "known_s",
    "deviation_s", "least_s",
)  # fmt: skip
# Sums of which one unknown member makes the whole unknown.
AMOUNTS = ("flops", *(f"byte/{level}" for level in LEVELS_OF_MEMORY))

# What tells a row from others, which a primitive takes over from its op.
IDENTITY = (*LEVELS[0], "title", "where")


def with_primitives_in_their_ops(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows whose primitives bear the name of their op, so that both are summed.

    How an op's seconds are split between itself and what runs below it moves from run to run with
    the clocks of two recorders; the sum does not.
    """
    above = rows.select(
        pl.col("id").alias("parent"), *(pl.col(c).alias(f"op.{c}") for c in IDENTITY)
    )
    joined = rows.join(above, on="parent", how="left", maintain_order="left")
    inside = (pl.col("kind") == "primitive") & pl.col("op.name").is_not_null()
    return joined.with_columns(
        pl.when(inside).then(pl.col(f"op.{c}")).otherwise(pl.col(c)).alias(c) for c in IDENTITY
    ).select(rows.columns)


def match(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """One row per pair: `title`, `matched_by`, and every sum of both sides (`a.…`, `b.…`)."""
    pairs = []
    for level in LEVELS:
        paired, a, b = _join(a, b, list(level))
        if paired.height:
            pairs.append(paired.with_columns(pl.lit(" ".join(level)).alias("matched_by")))
    modules, a, b = _join(a, b, list(PARTS[0]))
    if modules.height:
        title = pl.format("(kernels of {})", "title").alias("title")
        pairs.append(modules.with_columns(title, pl.lit(BY_MODULE).alias("matched_by")))
    pairs.append(_rest(a, b))
    return pl.concat(pairs)


def _join(
    a: pl.DataFrame, b: pl.DataFrame, keys: list[str]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Pairs by some keys, and what is left on both sides."""
    needed = pl.col(keys[0]).is_not_null()
    left, right = _summed(a.filter(needed), keys, "a"), _summed(b.filter(needed), keys, "b")
    paired = left.join(right, on=keys, how="inner", nulls_equal=True, maintain_order="left")
    found = paired.select(keys)
    a = a.join(found, on=keys, how="anti", nulls_equal=True, maintain_order="left")
    b = b.join(found, on=keys, how="anti", nulls_equal=True, maintain_order="left")
    if keys == list(PARTS[0]):
        part = pl.format("{}, {}", "module", _phase()).alias("title")
        paired = paired.with_columns(part, pl.lit(None, pl.String).alias("where"))
    return paired.select(_columns()), a, b


def _phase() -> pl.Expr:
    return pl.col("phase").fill_null("other")


def _rest(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """What nothing matched, phase by phase; a side without such rows has zeros."""
    sides = [
        _summed(table.with_columns(_phase()), ["phase"], side)
        for side, table in (("a", a), ("b", b))
    ]
    both = sides[0].join(
        sides[1], on="phase", how="full", coalesce=True, maintain_order="left_right"
    )
    title = pl.format("(unmatched kernels of {})", "phase").alias("title")
    # 0 where a side has no such rows; an unknown amount of rows that are there stays unknown.
    zeros = [
        pl.when(pl.col(f"{c[:2]}elapsed_s").is_not_null()).then(c).otherwise(0.0).alias(c)
        for c in both.columns
        if c.startswith(("a.", "b."))
    ]
    nowhere = pl.lit(None, pl.String).alias("where")
    return both.with_columns(title, nowhere, *zeros, pl.lit(BY_PART[1]).alias("matched_by")).select(
        [*_columns(), "matched_by"]
    )


def _columns() -> list[str]:
    return ["title", "where", *(f"{side}.{c}" for side in "ab" for c in (*SUMS, *AMOUNTS))]


def _summed(table: pl.DataFrame, keys: list[str], side: str) -> pl.DataFrame:
    sums = [pl.col(c).sum().alias(f"{side}.{c}") for c in SUMS]
    known = [
        pl.when(pl.col(c).null_count() == 0).then(pl.col(c).sum()).alias(f"{side}.{c}")
        for c in AMOUNTS
    ]
    longest = pl.col("title", "where").sort_by("elapsed_s", descending=True).first()
    named = [longest] if side == "a" else []
    return table.group_by(keys, maintain_order=True).agg(*sums, *known, *named)
