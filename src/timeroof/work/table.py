"""Counting a table of calls: every signature once, the amounts joined back by column."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import polars as pl

from timeroof.core.resources import DRAM
from timeroof.work.amounts import amounts
from timeroof.work.call import Call
from timeroof.work.cost import Cost
from timeroof.work.counting import Fallback, count

KNOWN_COLUMNS = ("contraction_flops", DRAM, "bytes_read", "bytes_written")


def count_table(
    table: pl.DataFrame,
    signature: Sequence[str],
    build: Callable[[dict[str, object]], Call],
    *,
    matrix_units: Collection[str] | bool = (),
    tf32: bool = False,
    link: str | None = None,
    fallback: Fallback | None = None,
) -> pl.DataFrame:
    """Add amounts per call to a table whose columns `signature` describe a call.

    `build` makes a `Call` from one row of those columns; it runs once per different
    signature, so a million rows with a thousand signatures cost a join. Added columns:
    ``flop/<precision>``, ``byte/dram``, ``contraction_flops``, ``bytes_read``,
    ``bytes_written``, ``free``, ``composite``, ``unknown`` (the reason) and
    ``origin.flops``. Unknown amounts are null in every flop column.
    """
    keys = table.select(signature).unique(maintain_order=True)
    costs = [count(build(row), fallback) for row in keys.iter_rows(named=True)]
    found = [amounts(c, matrix_units, tf32=tf32, link=link) for c in costs]
    counted = pl.concat([keys, _columns(costs, found)], how="horizontal")
    return table.join(
        counted, on=list(signature), how="left", nulls_equal=True, maintain_order="left"
    )


def _columns(costs: list[Cost], found: list[dict[str, float | None]]) -> pl.DataFrame:
    names = dict.fromkeys(n for amount in found for n in amount)
    known = [c.flops is not None for c in costs]
    columns: dict[str, pl.Series] = {}
    for name in names:
        flops = name.startswith("flop/")
        values = [
            a.get(name, 0.0) if k or not flops else None for a, k in zip(found, known, strict=True)
        ]
        columns[name] = pl.Series(name, values, dtype=pl.Float64)
    columns["bytes_read"] = pl.Series([c.bytes_read for c in costs], dtype=pl.Float64)
    columns["bytes_written"] = pl.Series([c.bytes_written for c in costs], dtype=pl.Float64)
    columns["free"] = pl.Series([c.free for c in costs], dtype=pl.Boolean)
    columns["composite"] = pl.Series([c.composite for c in costs], dtype=pl.Boolean)
    columns["unknown"] = pl.Series([c.unknown for c in costs], dtype=pl.String)
    columns["origin.flops"] = pl.Series([c.origin for c in costs], dtype=pl.String)
    return pl.DataFrame(columns)
