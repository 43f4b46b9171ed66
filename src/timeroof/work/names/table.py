"""Facts of many names at once, as columns."""

from __future__ import annotations

from dataclasses import asdict

import polars as pl

from timeroof.work.names.facts import NameFacts, read_name

_COLUMNS: dict[str, type[pl.DataType]] = {
    "name": pl.String,
    "short_name": pl.String,
    "library": pl.String,
    "algorithm": pl.String,
    "pass_name": pl.String,
    "precision": pl.String,
    "tensor_core": pl.Boolean,
    "tile": pl.String,
    "storage": pl.String,
}
assert set(_COLUMNS) == {"name", *NameFacts.__dataclass_fields__}


def name_facts_table(names: pl.Series) -> pl.DataFrame:
    """One row per distinct name, in order of first appearance; join it on `name`.

    >>> name_facts_table(pl.Series(["volta_sgemm_128x64_nn", None]))["precision"].to_list()
    ['fp32']
    """
    distinct = names.cast(pl.String).drop_nulls().unique(maintain_order=True).to_list()
    rows = [{"name": name, **asdict(read_name(name))} for name in distinct]
    return pl.DataFrame(rows, schema=_COLUMNS)
