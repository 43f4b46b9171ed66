"""Which rows of two runs are the same work: by everything first, then by less and less.

Rows are summed per key, so that a run which calls a kernel from two streams still matches one
that uses one. What no key joins is compared phase by phase: a compiled program has other
kernels than an eager one, but the same backward pass.
"""

from __future__ import annotations

import polars as pl

# From the strictest to the loosest: names may change between versions, modules between
# frameworks, shapes between batch sizes. A key needs at least its first column.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("name", "kind", "op", "module", "shape", "dtype", "phase", "labels", "rank"),
    ("op", "module", "shape", "dtype", "phase", "labels"),
    ("name", "shape", "phase", "labels"),
    ("op", "module", "shape", "phase"),
    ("op", "shape", "phase"),
    ("module", "op", "phase"),
    ("op", "phase"),
    ("name",),
)
REST = "phase"

SUMS = ("elapsed_s", "launches", "launch_s", "work_s", "work_other_s", "known_s", "variance_s")


def match(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """One row per pair: `name`, `matched_by`, and every sum of both sides (`a.…`, `b.…`)."""
    pairs = []
    for level in LEVELS:
        paired, a, b = _join(a, b, list(level))
        if paired.height:
            pairs.append(paired.with_columns(pl.lit(" ".join(level)).alias("matched_by")))
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
    return paired.select(_columns()), a, b


def _rest(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """What nothing matched, phase by phase; a side without such rows has zeros."""
    sides = []
    for side, table in (("a", a), ("b", b)):
        named = table.with_columns(pl.col(REST).fill_null("other"))
        sides.append(_summed(named, [REST], side))
    both = sides[0].join(sides[1], on=REST, how="full", coalesce=True, maintain_order="left_right")
    numbers = [c for c in both.columns if c.startswith(("a.", "b."))]
    title = pl.format("(unmatched kernels of {})", REST).alias("title")
    zeros = [pl.col(c).fill_null(0.0) for c in numbers]
    return both.with_columns(title, *zeros, pl.lit("phase").alias("matched_by")).select(
        [*_columns(), "matched_by"]
    )


def _columns() -> list[str]:
    return ["title", *(f"{side}.{c}" for side in "ab" for c in SUMS)]


def _summed(table: pl.DataFrame, keys: list[str], side: str) -> pl.DataFrame:
    sums = [pl.col(c).sum().alias(f"{side}.{c}") for c in SUMS]
    longest = pl.col("title").sort_by("elapsed_s", descending=True).first()
    named = [longest] if side == "a" else []
    return table.group_by(keys, maintain_order=True).agg(*sums, *named)
