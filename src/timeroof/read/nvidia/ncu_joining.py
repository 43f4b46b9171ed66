"""Files of Nsight Compute that belong together: metrics of separate runs, parts of one run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl

from timeroof.read.nvidia.ncu_parts import FACTS, Part

# Values of one metric that differ by more come from different measurements; ncu prints
# scaled values with three digits.
SAME_VALUE = 0.01
# Clocks and rates differ between passes of one measurement.
_RATES = ("clock", "rate", "per_cycle", "shown_cycles")


@dataclass
class Run:
    """Parts that measured the same launches, and what was noticed when joining them."""

    parts: list[Part] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """Names of the kernels."""
        return self.parts[0].kernels

    def takes(self, part: Part) -> bool:
        """Whether a part measured the same launches: other metrics, or the same values."""
        if not self.names & part.kernels:
            return False
        common = {r for p in self.parts for r in p.roles} & set(part.roles)
        return not common or self._agrees(part, common)

    def _agrees(self, part: Part, roles: set[str]) -> bool:
        for held in self.parts:
            if held.table["name"].to_list() != part.table["name"].to_list():
                return False
            for role in roles & set(held.roles):
                if role.endswith(_RATES):
                    continue
                one, other = held.table[role], part.table[role]
                off = (one - other).abs() > SAME_VALUE * one.abs()
                if off.any():
                    return False
        return True


def runs_of(parts: list[Part]) -> list[Run]:
    """Parts sorted into runs: those of one run measured the same launches."""
    runs: list[Run] = []
    for part in parts:
        home = next((run for run in runs if run.takes(part)), None)
        if home is None:
            runs.append(Run([part]))
        else:
            home.parts.append(part)
    return runs


def joined(run: Run) -> Part:
    """One part that has the roles of all: joined by ID, or by kernel and occurrence."""
    first, *others = run.parts
    if not others:
        return first
    names = first.table["name"]
    in_order = all(p.table["name"].equals(names) for p in others)
    tables = [_keyed(p.table, in_order=in_order) for p in run.parts]
    keys = ["_position"] if in_order else ["name", "_position"]
    table = tables[0]
    for other in tables[1:]:
        table = _join(table, other, keys)
    notes = [n for p in run.parts for n in p.notes] + _order_notes(run, table, in_order=in_order)
    return replace(
        first,
        table=table.drop("_position"),
        metrics=tuple(dict.fromkeys(m for p in run.parts for m in p.metrics)),
        device=_agreed([p.device for p in run.parts]),
        capability=_agreed([p.capability for p in run.parts]),
        notes=tuple(dict.fromkeys(notes)),
    )


def _keyed(table: pl.DataFrame, *, in_order: bool) -> pl.DataFrame:
    position = pl.int_range(pl.len())
    return table.with_columns((position if in_order else position.over("name")).alias("_position"))


def _join(table: pl.DataFrame, other: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    fresh = [c for c in other.columns if c not in FACTS and c not in keys]
    joined = table.join(
        other.select(*keys, *fresh),
        on=keys,
        how="full",
        coalesce=True,
        suffix="_again",
        maintain_order="left_right",
    )
    twice = [c for c in fresh if c in table.columns]
    return joined.with_columns(
        pl.coalesce(pl.col(c), pl.col(f"{c}_again")).alias(c) for c in twice
    ).drop(f"{c}_again" for c in twice)


def _order_notes(run: Run, table: pl.DataFrame, *, in_order: bool) -> list[str]:
    if in_order:
        return []
    notes = [
        f"Kernels were launched in another order in some of the {len(run.parts)} runs: metrics are"
        " joined by kernel name and occurrence. Sums per kernel are right, single launches may"
        " mix values."
    ]
    heights = sorted({p.table.height for p in run.parts})
    if heights != [table.height]:
        notes.append(
            f"The runs have between {heights[0]} and {heights[-1]} launches: what only some of"
            " them measured is unknown."
        )
    return notes


def _agreed(values: list[str | None]) -> str | None:
    known = {v for v in values if v is not None}
    return known.pop() if len(known) == 1 else None


def measured_again(runs: list[tuple[str, set[str]]]) -> list[str]:
    """Which runs, given by name and kernels, measured kernels that another one has too.

    >>> measured_again([("a", {"k"}), ("b", {"m"}), ("c", {"k", "n"})])
    ['a', 'c']
    """
    first_with: dict[str, str] = {}
    again: dict[str, None] = {}
    for name, kernels in runs:
        for kernel in kernels:
            if kernel in first_with:
                again[first_with[kernel]] = again[name] = None
            else:
                first_with[kernel] = name
    return [name for name, _ in runs if name in again]
