"""One file of Nsight Compute as a table of launches: a column per role, in base units."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from timeroof.read.csv import in_base_units, numbers, unit_factor
from timeroof.read.nvidia.ncu_metrics import role_of

# Columns of a part's table beside the roles.
FACTS = ("launch", "name", "stream", "grid", "block")

_BRACKETS = re.compile(r"(.*?)\s*\[([^\[\]]*)\]")
_MAX_METRICS = 5000


@dataclass(frozen=True)
class Part:
    """What one file says: launches in order, and what it knows of the device."""

    name: str
    folder: str
    table: pl.DataFrame
    metrics: tuple[str, ...] = ()
    device: str | None = None
    capability: str | None = None
    # Sums over all launches of a kernel, as people make them, and not single launches.
    summed: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def kernels(self) -> set[str]:
        """Names of the kernels that were launched."""
        return set(self.table["name"].unique().to_list())

    @property
    def roles(self) -> list[str]:
        """The roles that some launch has a value for."""
        table = self.table
        known = [c for c in table.columns if c not in FACTS and c != "calls"]
        return [c for c in known if table[c].null_count() < table.height]


class Reading(NamedTuple):
    """How to read the cells of one metric in one unit: role, preference, factor to base units."""

    role: str
    rank: int
    factor: float


def reading_of(metric: str, unit: str) -> Reading | None:
    """How to read a metric's cells, None where metric or unit say nothing that counts.

    >>> reading_of("gpu__time_duration.sum", "usecond"), reading_of("Memory Throughput", "%")
    (Reading(role='time', rank=0, factor=1e-06), None)
    """
    role = role_of(metric)
    if role is None:
        return None
    known = unit_factor(unit)
    if role.kind in ("any", "count"):
        usable = known is not None and known[1] in ("count", "ratio")
        return Reading(role.name, role.rank, known[0] if usable and known else 1.0)
    if not unit.strip():
        # Where the units are lost, ncu's base units: nanoseconds, bytes, hertz.
        return Reading(role.name, role.rank, 1e-9 if role.kind == "second" else 1.0)
    if known is None or known[1] != role.kind:
        return None
    return Reading(role.name, role.rank, known[0])


def split_unit(heading: str) -> tuple[str, str | None]:
    """A heading of the user interface's export without its unit in brackets.

    >>> split_unit("dram__bytes_read.sum [Gbyte]"), split_unit("ID")
    (('dram__bytes_read.sum', 'Gbyte'), ('ID', None))
    """
    match = _BRACKETS.fullmatch(heading)
    return (match[1], match[2]) if match else (heading, None)


def role_columns(columns: list[tuple[Reading, pl.Series]]) -> list[pl.Series]:
    """One column per role, from all metrics that play it: the preferred one first."""
    by_role: dict[str, pl.Series] = {}
    for reading, cells in sorted(columns, key=lambda pair: pair[0].rank):
        table = pl.DataFrame({reading.role: numbers(cells)})
        table = table.with_columns(pl.lit(reading.factor).alias("factor"))
        values = table.select(in_base_units(reading.role, "factor")).to_series()
        held = by_role.get(reading.role)
        by_role[reading.role] = values if held is None else held.fill_null(values)
    return list(by_role.values())


def some_metrics(names: set[str]) -> tuple[str, ...]:
    """Metric names in order, few enough to keep."""
    return tuple(sorted(names)[:_MAX_METRICS])
