"""The kernels of one call whose grids tell sizes that the call's record does not.

Engines hide weights and lengths in their layers; some of their kernels say tile sizes in
their names, and then the grid says how large the whole is.
"""

from __future__ import annotations

import re

import msgspec
import polars as pl

from timeroof.read.torch.codes import Codes
from timeroof.read.torch.trace import Trace

_TELLING = re.compile(r"^(bmm_\w+_t\d+x\d+x\d+|fmhaSm\d+)")


def with_launched(trace: Trace, work: pl.DataFrame, texts: Codes) -> pl.DataFrame:
    """Add `launched`: per kernel a code of its call's telling kernels and their grids, as JSON."""
    names, grids = trace.names.values_in_order(), trace.grids.values_in_order()
    telling = [code for code, name in enumerate(names) if _TELLING.match(name)]
    found = work.filter(
        pl.col("name").is_in(telling) & (pl.col("call") >= 0) & pl.col("grid").is_not_null()
    )
    if not found.height:
        return work.with_columns(pl.lit(None, pl.Int64).alias("launched"))
    calls = found.sort("start").group_by("call", maintain_order=True).agg("name", "grid")
    codes = []
    for name, grid in calls.select("name", "grid").iter_rows():
        both = [[names[n], _grid(grids[g])] for n, g in zip(name, grid, strict=True)]
        codes.append(texts[msgspec.json.encode(both).decode()])
    table = calls.select("call").with_columns(pl.Series("launched", codes, dtype=pl.Int64))
    return work.join(table, on="call", how="left", maintain_order="left")


def _grid(text: bytes) -> list[int]:
    try:
        return msgspec.json.decode(text, type=list[int])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
