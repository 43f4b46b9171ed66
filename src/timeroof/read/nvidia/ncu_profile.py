"""Parts of Nsight Compute joined into one profile, with its phases, ranks and notes."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import polars as pl

from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile, Source, amount_columns
from timeroof.read.csv import comma_decimals, in_base_units, numbers, unit_factor
from timeroof.read.events import (
    drop_impossible,
    fitting_device,
    one_device,
    rows_of_launches,
    shown_list,
)
from timeroof.read.nvidia.ncu_amounts import amounts_of, time_of
from timeroof.read.nvidia.ncu_metrics import capability_of, capability_of_names, role_of
from timeroof.read.open import Input, short_name
from timeroof.read.ranges import phase_of_folder

# One file of Nsight Compute as a table of launches: a column per role, in base units.
# Columns of a part's table beside the roles.
FACTS = ("launch", "name", "stream", "grid", "block")

AVERAGES = Note(
    "The table holds averages per kernel: totals are averages times invocations.", "summed"
)
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
    # Averages over as many launches as `calls` says, as --print-summary prints them.
    averaged: bool = False
    notes: tuple[Note, ...] = ()
    cores: int | None = None

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

    >>> reading_of("gpu__time_duration.sum", "usecond"), reading_of("Duration", "%")
    (Reading(role='time', rank=0, factor=1e-06), None)
    """
    role = role_of(metric, unit)
    if role is None:
        return None
    if role.kind == "%":
        return Reading(role.name, role.rank, 0.01)
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
    comma = comma_decimals(cells for _, cells in columns)
    for reading, cells in sorted(columns, key=lambda pair: pair[0].rank):
        table = pl.DataFrame({reading.role: numbers(cells, comma=comma)})
        table = table.with_columns(pl.lit(reading.factor).alias("factor"))
        values = table.select(in_base_units(reading.role, "factor")).to_series()
        held = by_role.get(reading.role)
        by_role[reading.role] = values if held is None else held.fill_null(values)
    return list(by_role.values())


def some_metrics(names: set[str]) -> tuple[str, ...]:
    """Metric names in order, few enough to keep."""
    return tuple(sorted(names)[:_MAX_METRICS])


# Files of Nsight Compute that belong together: metrics of separate runs, parts of one run.
# Values of one metric that differ by more come from different measurements; ncu prints
# scaled values with three digits.
SAME_VALUE = 0.01
# Clocks and rates differ between passes of one measurement.
_RATES = ("clock", "rate", "per_cycle", "shown_cycles", "_pct")


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
                if ((one - other).abs() > SAME_VALUE * one.abs()).any():
                    return False
        return True


def runs_of(parts: list[Part]) -> list[Run]:
    """Parts sorted into runs: those of one run measured the same launches."""
    runs: list[Run] = []
    for part in parts:
        if home := next((run for run in runs if run.takes(part)), None):
            home.parts.append(part)
        else:
            runs.append(Run([part]))
    return runs


def joined(run: Run) -> Part:
    """One part that has the roles of all: joined by ID, or by kernel and occurrence."""
    first, *others = run.parts
    if not others:
        return first
    names = first.table["name"]
    in_order = all(p.table["name"].equals(names) for p in others)
    keys = ["_position"] if in_order else ["name", "_position"]
    position = pl.int_range(pl.len()) if in_order else pl.int_range(pl.len()).over("name")
    tables = [p.table.with_columns(_position=position) for p in run.parts]
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
        cores=next((p.cores for p in run.parts if p.cores), None),
        notes=tuple(dict.fromkeys(notes)),
    )


def _join(table: pl.DataFrame, other: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    fresh = [c for c in other.columns if c not in FACTS and c not in keys]
    both = {c: f"{c}_again" for c in fresh if c in table.columns}
    other = other.select(*keys, *fresh).rename(both)
    joined = table.join(other, on=keys, how="full", coalesce=True, maintain_order="left_right")
    held = {c: pl.coalesce(c, again) for c, again in both.items()}
    return joined.with_columns(**held).drop(both.values())


def _order_notes(run: Run, table: pl.DataFrame, *, in_order: bool) -> list[Note]:
    if in_order:
        return []
    text = (
        f"Kernels were launched in another order in some of the {len(run.parts)} runs: metrics are"
        " joined by kernel name and occurrence. Sums per kernel are right, single launches may"
        " mix values."
    )
    notes = [Note(text, "other-order", "warning")]
    heights = sorted({p.table.height for p in run.parts})
    if heights != [table.height]:
        text = f"The runs have between {heights[0]} and {heights[-1]} launches"
        notes.append(Note(f"{text}: what only some of them measured is unknown.", "other-launches"))
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


TOOL = "Nsight Compute"


def profile_of_parts(parts: list[Part], found: Input, architecture: str | None) -> Profile:
    """One profile of files that belong together, or an error that says why they do not."""
    where, is_folder = found.name, found.is_folder
    notes = _leave_sums_out(parts)
    groups: dict[str, list[Part]] = defaultdict(list)
    for part in parts:
        groups[part.folder].append(part)
    wholes = [whole for group in groups.values() for whole in _wholes(group, where, is_folder)]
    phases = _phases(wholes, where, is_folder, notes)
    ranks = _ranks(wholes, phases)
    _note_parts(wholes, ranks, notes)
    capability = _capability(wholes, architecture, notes)
    places = zip(wholes, phases, ranks, strict=True)
    found_launches = [_launches(*place, capability, notes) for place in places]
    launches, dropped = drop_impossible(pl.concat(found_launches, how="diagonal"))
    if not launches.height:
        raise InputError("has no launch with a time", where=where, advice="record it again")
    device, unnamed = one_device(w.device for w in wholes)
    if device is None and architecture is None:
        stated = {c for w in wholes if (c := capability_of(w.capability))}
        chip = stated.pop() if len(stated) == 1 else None
        counts = {w.cores for w in wholes}
        cores = counts.pop() if len(counts) == 1 else None
        device, inferred = fitting_device(None, chip, None, cores)
        unnamed = inferred or unnamed
    notes = list(dict.fromkeys([*notes, *unnamed, *dropped]))
    source = Source(tool=TOOL)
    return Profile.of(rows_of_launches(launches), source, device=device, notes=tuple(notes))


def _leave_sums_out(parts: list[Part]) -> list[Note]:
    """Drop tables that people summed up where the launches themselves are there."""
    sums = [p for p in parts if p.summed]
    if not sums or len(sums) == len(parts):
        return []
    parts[:] = [p for p in parts if not p.summed]
    names = shown_list([short_name(p.name) for p in sums])
    text = f"Tables of sums are left out, as the launches are there too: {names}."
    return [Note(text, "left-out")]


def _wholes(group: list[Part], where: str, is_folder: bool) -> list[Part]:
    """The runs of one folder, each joined; runs of the same kernels cannot be added up."""
    runs = runs_of(group)
    again = measured_again([(short_name(run.parts[0].name), run.names) for run in runs])
    if again and is_folder:
        what = f"holds several runs of the same kernels ({shown_list(again)})"
        raise InputError(what, where, "name the files of one run")
    return [joined(run) for run in runs]


def _note_parts(wholes: list[Part], ranks: list[int | None], notes: list[Note]) -> None:
    names = shown_list([short_name(w.name) for w in wholes])
    if any(ranks):
        text = f"Runs of the same kernels are taken as ranks of one run: {names}."
        notes.append(Note(text, "taken-as-ranks"))
    elif len(wholes) > 1 and not measured_again([(w.name, w.kernels) for w in wholes]):
        text = f"Files that measured different kernels are taken as one run: {names}."
        notes.append(Note(text, "taken-as-one"))


def _phases(wholes: list[Part], where: str, is_folder: bool, notes: list[Note]) -> list[str | None]:
    """The phase of each run by its folder's name; folders that repeat kernels must have one."""
    phases = [phase_of_folder(w.folder) for w in wholes]
    by_folder = {w.folder: phase for w, phase in zip(wholes, phases, strict=True)}
    again = measured_again([(w.folder, w.kernels) for w in wholes])
    known = [by_folder[folder] for folder in dict.fromkeys(again)]
    if is_folder and len(known) > 1 and (None in known or len(set(known)) < len(known)):
        advice = "name the folder of one run"
        raise InputError(f"holds several runs ({shown_list(sorted(set(again)))})", where, advice)
    named = sorted(f.rpartition("/")[2] for f, phase in by_folder.items() if phase)
    if named:
        text = f"Phases are taken from the names of folders: {shown_list(named)}."
        notes.append(Note(text, "phases-of-folders"))
    return phases


def _ranks(wholes: list[Part], phases: list[str | None]) -> list[int | None]:
    """Runs of the same kernels in the same phase are ranks, in the order of their files."""
    earlier: dict[str | None, list[set[str]]] = defaultdict(list)
    ranks: list[int | None] = []
    for whole, phase in zip(wholes, phases, strict=True):
        ranks.append(sum(bool(whole.kernels & other) for other in earlier[phase]))
        earlier[phase].append(whole.kernels)
    return ranks if any(ranks) else [None] * len(ranks)


def _capability(wholes: list[Part], architecture: str | None, notes: list[Note]) -> str | None:
    """What the file says of the chip, else what the caller says, else what kernel names reveal."""
    stated = {c for w in wholes if (c := capability_of(w.capability))}
    if len(stated) == 1:
        return stated.pop()
    told = capability_of(architecture)
    if told is not None:
        return told
    names = [n for w in wholes for n in w.table["name"].unique().to_list()]
    revealed = capability_of_names(names)
    if revealed is not None:
        text = f"Compute capability {revealed} is inferred from kernel names."
        notes.append(Note(text, "inferred-chip"))
    return revealed


def _launches(
    whole: Part, phase: str | None, rank: int | None, capability: str | None, notes: list[Note]
) -> pl.DataFrame:
    """One row per launch with its time and amounts."""
    roles = set(whole.roles)
    time = time_of(roles, summed=whole.summed)
    if time is None:
        what = f"has no time of its kernels, only {shown_list(list(whole.metrics)) or 'names'}"
        advice = "give the files of the other metrics too, or collect gpu__time_duration.sum"
        raise InputError(what, whole.name, advice)
    amounts = amounts_of(whole.table, {*roles, "time_s"}, capability)
    notes += [*whole.notes, *amounts.notes]
    if whole.summed:
        text = "The table holds sums per kernel; the time is mean cycles over mean clock."
        notes.append(Note(text, "summed"))
    table = whole.table.with_columns(time.alias("time_s")).with_columns(amounts.columns)
    if whole.averaged:
        notes.append(AVERAGES)
        totals = ["time_s", *amount_columns(table)]
        table = table.with_columns(pl.col(c) * pl.col("calls") for c in totals)
    if unknown := table["time_s"].null_count():
        text = f"{unknown} of {table.height} launches have no time and are left out."
        notes.append(Note(text, "left-out", "warning"))
    made = [e.meta.output_name() for e in amounts.columns]
    known = pl.col("time_s").is_not_null()
    return table.select(*_facts(whole, phase, rank), "time_s", *made).filter(known)


def _size(column: str) -> pl.Expr:
    """A size as "(16384, 2, 1)", however it is padded."""
    bare = pl.col(column).str.replace_all(r"[()\s]", "").str.replace_all(",", ", ", literal=True)
    return pl.format("({})", bare)


def _facts(whole: Part, phase: str | None, rank: int | None) -> list[pl.Expr]:
    return [
        pl.lit("kernel").alias("kind"),
        pl.col("name", "stream"),
        pl.lit(phase, pl.String).alias("phase"),
        pl.lit(rank, pl.Int64).alias("rank"),
        pl.lit(whole.device, pl.String).alias("device"),
        _size("grid").alias("label.grid"),
        _size("block").alias("label.block"),
        pl.lit("measured").alias("origin.time"),
        *([pl.col("calls")] if "calls" in whole.table.columns else []),
    ]
