"""A profile: what ran, how long, and how much of every resource it used, as one table.

One row is one (kind, name, op, shape, dtype, module, phase, stream, rank, labels);
times and amounts are totals over its calls, and no second is in two rows.

Columns beside the fixed ones of `KERNEL_COLUMNS`:

* an amount has its resource's name: ``flop/fp32``, ``byte/dram``, ``link/nvlink``, ``fault``.
  A column that is absent means that nobody used that resource; a null means unknown; 0 means 0.
  So FLOPs of a row are known if there is a flop column and none of them is null.
* ``origin.<what>`` says how an amount came about: ``origin.time``, ``origin.flops``,
  ``origin.bytes/dram``.
* ``padding_flops`` are FLOPs that convention counts (torch's FlopCounterMode, the paper) and
  that nobody has to do, since one factor is a convolution's padding: they are in the flop
  columns, and no bound contains them. Null means none.
* ``shape`` is a list of sizes per input tensor, all of them known; what a source writes instead
  (symbols, a case's parameters) is ``label.shape``, see `core.shapes`.
* ``label.<key>`` holds whatever else a source says of a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import polars as pl

from timeroof.core.columns import FLOP_FREE_KINDS, LABEL, ORIGIN, DataType, columns_from
from timeroof.core.errors import InputError, UsageError
from timeroof.core.machine import FAULT, KINDS, PHASES, is_resource
from timeroof.core.shapes import with_shape_lists

KERNEL_COLUMNS: dict[str, DataType] = {c.name: c.dtype for c in columns_from("profile")}
TIMELINE_COLUMNS: dict[str, DataType] = {
    "start_s": pl.Float64, "duration_s": pl.Float64, "stream": pl.String, "kernel": pl.Int64,
    "idle_cause": pl.String,
}  # fmt: skip

# Labels that keep a call as a tracer wrote it, and the calls and kernels inside it, for whoever
# counts them. `shape` and `dtype` say the same for people.
RECORDED_CALL = (
    "input_dims", "input_types", "input_strides", "concrete_inputs", "output_dims", "output_types",
)  # fmt: skip
CALL_LABELS = (*RECORDED_CALL, "child_ops")

# What sums of parts may differ from their whole by.
ROUNDING = 1e-6

# No time, count or amount of a real run is larger; sums of such numbers stay finite.
LARGEST = 1e30

_NOT_NEGATIVE = (
    "calls", "launches", "time_s", "timed_s", "exclusive_s", "alone_s", "time_spread",
    "idle_before_s", "contraction_flops", "padding_flops",
)  # fmt: skip


class SourceFile(msgspec.Struct, kw_only=True, frozen=True):
    """A file that numbers came from."""

    name: str
    sha256: str | None = None


class Framework(msgspec.Struct, kw_only=True, frozen=True):
    """A framework that the program used."""

    name: str
    version: str | None = None


class Source(msgspec.Struct, kw_only=True, frozen=True):
    """The tool that made the numbers, its files and its command.

    `name` is the file or folder that was read, without the path to it; `ranks` how many processes
    the program has, where a file of one of them says it.
    """

    tool: str
    version: str | None = None
    files: list[SourceFile] = []
    command: str | None = None
    frameworks: list[Framework] = []
    name: str | None = None
    ranks: int | None = None


# What marks a step where nothing does.
WINDOWS = "windows of time, as nothing marks a step"
# Stretches of a run that are listed beside the kinds of its steps.
BEFORE, AFTER = "before the first step", "after the last step"


class StepKind(msgspec.Struct, kw_only=True, frozen=True):
    """Steps of one kind: how many, how long, and whether the report is of them."""

    name: str
    count: int
    median_s: float | None = None
    total_s: float | None = None
    share: float | None = None
    phase: str | None = None
    reported: bool = True


class Wait(msgspec.Struct, kw_only=True, frozen=True):
    """A line of the program that waits for results of the device, or copies them, per step: how
    often, how long while nothing was computed (`idle_s`), and how long for what was."""

    line: str
    calls: float
    idle_s: float
    busy_s: float


class Steps(msgspec.Struct, kw_only=True, frozen=True):
    """How many steps were seen, and how long one took with and without the profiler.

    `mark` says what ends a step. `samples` are the seconds of single unprofiled steps, in their
    order; `pace_samples` those of a fixed piece of work timed beside them, the machine's own pace.
    `profiling_s` are the seconds by which profiling lengthened the run: they are in no kind.
    `pause_s` are idle seconds of a device outside of all steps, also by cause: no step can give
    them back, and no row has them. `waits` are the lines that wait for results.
    """

    count: int
    mark: str | None = None
    unprofiled_s: float | None = None
    profiled_s: float | None = None
    samples: list[float] = []
    pace_samples: list[float] = []
    kinds: list[StepKind] = []
    profiling_s: float | None = None
    pause_s: float | None = None
    pause_by_cause: dict[str, float] = {}
    waits: list[Wait] = []


class RankTotals(msgspec.Struct, kw_only=True, frozen=True):
    """Seconds of one rank of a distributed run."""

    rank: int
    wall_s: float | None
    kernel_s: float | None
    communication_s: float | None
    idle_s: float | None


@dataclass(frozen=True)
class Profile:
    """What ran: the table of kernels, and what is known of the whole.

    Of a live run all is in seconds of an unprofiled step: `wall_s` is that step, rows and idle
    causes are what profiled steps showed, less the profiler's own cost per event.
    `unexplained_error_s` is the standard error of what these leave of `wall_s`.
    """

    kernels: pl.DataFrame
    source: Source
    device: str | None = None
    threads: int | None = None
    wall_s: float | None = None
    kernel_s: float | None = None
    idle_by_cause: dict[str, float] = field(default_factory=dict)
    unexplained_error_s: float | None = None
    steps: Steps | None = None
    timeline: pl.DataFrame | None = None
    rungs: pl.DataFrame | None = None
    notes: tuple[str, ...] = ()
    # Of several ranks, whose mean the seconds above are, each one's own.
    ranks: Sequence[RankTotals] = ()
    # The calls that a file recorded, by the ids of their rows: `RecordedCall`s, which
    # `work.recorded` counts and explains.
    calls: Mapping[int, object] = field(default_factory=dict)
    # Where steps of several kinds were timed: the profile of each, this one's too, by name.
    kinds: Mapping[str, Profile] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        table: pl.DataFrame | Mapping[str, object] | Iterable[Mapping[str, object]],
        source: Source,
        **whole: object,
    ) -> Profile:
        """Make a profile from a table that has at least `name` and `time_s`.

        Missing columns are filled with what absence means (kind `kernel`, one call,
        as many launches as calls); what cannot be true (a negative time, NaN, an
        unknown phase) is refused with the column and row that has it. Rows come out
        sorted by time, longest first. Of rows given one by one, a row that states FLOPs
        of some precision has none of those that it leaves out; None says unknown.
        """
        where = source.files[0].name if source.files else source.tool
        kernels = table if isinstance(table, pl.DataFrame) else _frame(table, where)
        profile = cls(kernels=complete_kernels(kernels, where), source=source)
        return replace(profile, **whole)  # type: ignore[arg-type]

    def with_kernels(self, kernels: pl.DataFrame) -> Profile:
        """The same run with another table of kernels, checked anew."""
        return replace(self, kernels=complete_kernels(kernels, self.source.tool))

    def of_kind(self, name: str, where: str = "this run") -> Profile:
        """The profile of another kind of the run's steps, by its name."""
        listed = self.steps.kinds if self.steps is not None else []
        if name not in self.kinds:
            if any(kind.reported and kind.name == name for kind in listed):
                return self
            known = ", ".join(self.kinds) or ", ".join(k.name for k in listed if k.reported)
            raise UsageError(
                f"no steps of the kind {name!r} were timed in {where}",
                advice=f"there are: {known}" if known else "its steps are of one kind",
            )
        return replace(self.kinds[name], kinds=self.kinds)

    @property
    def amount_columns(self) -> list[str]:
        """Resources that this profile has amounts of, launches apart."""
        return amount_columns(self.kernels)

    @property
    def ran_on_a_cpu(self) -> bool:
        """Whether rows are those of a CPU: they say so, or have its kinds (op and primitive)."""
        if set(self.kernels["device"].unique().to_list()) == {"cpu"}:
            return True
        kinds = set(self.kernels["kind"].drop_nulls().unique().to_list())
        return "op" in kinds and kinds <= {"op", "primitive", "collective"}

    def __len__(self) -> int:
        return self.kernels.height


def _frame(
    table: Mapping[str, object] | Iterable[Mapping[str, object]], where: str
) -> pl.DataFrame:
    try:
        if isinstance(table, Mapping):
            return pl.DataFrame(table)
        rows = [dict(row) for row in table]
        flops = {c for row in rows for c in row if c.startswith("flop/")}
        for row in rows:
            if any(c in row for c in flops):
                row.update(dict.fromkeys(flops - set(row), 0.0))
        return pl.DataFrame(rows, infer_schema_length=None)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"the rows make no table ({reason})", where, "give each column values of one type"
        ) from error


def in_unprofiled_seconds(profile: Profile) -> Profile:
    """A live run that holds a profiled step, in seconds of an unprofiled one.

    The profiler's own time is no idle time of the program, and the step is the unprofiled one
    where such was seen, else the profiled one without the profiler's time. Idle time that no
    cause explains is of an unknown one.
    """
    causes = dict(profile.idle_by_cause)
    profiler_s = causes.pop("profiler", 0.0)
    unprofiled_s = profile.steps.unprofiled_s if profile.steps is not None else None
    if profile.wall_s is None:
        return replace(profile, wall_s=unprofiled_s, idle_by_cause=causes)
    corrected_s = max(0.0, profile.wall_s - profiler_s)
    if profile.kernel_s is not None:
        rest_s = corrected_s - profile.kernel_s - sum(causes.values())
        if rest_s > ROUNDING * corrected_s:
            causes["unknown"] = causes.get("unknown", 0.0) + rest_s
    wall_s = corrected_s if unprofiled_s is None else unprofiled_s
    return replace(profile, wall_s=wall_s, idle_by_cause=causes)


def amount_columns(table: pl.DataFrame) -> list[str]:
    """The columns of a table that are amounts of a resource."""
    return [c for c in table.columns if is_resource(c) and c != "launch"]


def complete_kernels(table: pl.DataFrame, where: str) -> pl.DataFrame:
    """Bring a table into the form that every profile has: typed, checked, sorted by time."""
    for needed in ("name", "time_s"):
        if needed not in table.columns:
            raise InputError(
                f"column {needed!r} is missing", where=where, advice="name and time_s are required"
            )
    table = _typed(table, where)
    filled = table.with_columns(
        pl.col("kind").fill_null("kernel"), pl.col("calls").fill_null(1.0)
    ).with_columns(
        pl.col("launches").fill_null(pl.col("calls")),
        pl.col("short_name").fill_null(pl.col("name")),
    )
    flops = [c for c in amount_columns(filled) if c.startswith("flop/")]
    free = pl.when(pl.col("kind").is_in(FLOP_FREE_KINDS)).then(0.0)
    filled = filled.with_columns(pl.coalesce(c, free).alias(c) for c in flops)
    _check(filled, where)
    if filled["id"].null_count():
        if filled["parent"].null_count() < filled.height:
            raise InputError(
                "column 'parent' is given without 'id'",
                where,
                "number the rows, or leave parent out",
            )
        filled = _sorted(filled).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("id"))
    elif filled["id"].n_unique() != filled.height:
        raise InputError("column 'id' repeats a value", where, "give each row its own id")
    return _sorted(filled)


def _sorted(table: pl.DataFrame) -> pl.DataFrame:
    return table.sort("time_s", descending=True, nulls_last=True, maintain_order=True)


def _typed(table: pl.DataFrame, where: str) -> pl.DataFrame:
    table = with_shape_lists(table)
    types: dict[str, object] = dict(KERNEL_COLUMNS)
    for name in table.columns:
        if name in KERNEL_COLUMNS:
            continue
        if is_resource(name) and name != "launch":
            types[name] = pl.Float64
        elif name.startswith((LABEL, ORIGIN)):
            types[name] = pl.String
        else:
            raise InputError(
                f"column {name!r} is no field, resource, origin or label",
                where=where,
                advice=f"call it {LABEL}{name} to keep it as a label",
            )
    absent = [name for name in KERNEL_COLUMNS if name not in table.columns]
    table = table.with_columns(pl.lit(None).alias(name) for name in absent)
    return typed_columns(table.select(*types), types, "the table", where)


def typed_columns(
    table: pl.DataFrame, types: Mapping[str, object], what: str, where: str
) -> pl.DataFrame:
    """The table's columns as these types, or an InputError that names what is none of it."""
    advice = "use numbers for times and amounts, text for names"
    try:
        typed = table.cast(dict(types))  # type: ignore[arg-type]
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0][:300]
        raise InputError(
            f"{what} has a column of another type ({reason})", where, advice
        ) from error
    found = typed.schema  # made anew each time it is asked for
    for name, dtype in types.items():
        # Of a struct, Polars casts the fields and leaves it a struct.
        if found[name] != dtype:
            reason = f"{name!r} is {table.schema[name]}"[:300]
            raise InputError(f"{what} has a column of another type ({reason})", where, advice)
    return typed


def _check(table: pl.DataFrame, where: str) -> None:
    numbers = [*_NOT_NEGATIVE, *amount_columns(table)]
    wrong = table.select(
        (~(pl.col(c).is_finite() & (pl.col(c) >= 0) & (pl.col(c) <= LARGEST)))
        .fill_null(False)
        .arg_max()
        .alias(c)
        for c in numbers
        if table.height
    )
    for c in wrong.columns:
        row = wrong[c][0]
        value = table[c][row]
        if value is not None and not 0 <= value <= LARGEST:
            raise InputError(
                f"column {c!r} has {value} in row {row + 1}",
                where=where,
                advice=f"use numbers from 0 to {LARGEST:g}, and leave unknown cells empty",
            )
    _check_lists(table, where)
    if table["name"].null_count():
        nameless = (table["name"].is_null().arg_max() or 0) + 1
        raise InputError(f"row {nameless} has no name", where, "name it, or leave it out")
    for column, allowed in (("kind", KINDS), ("phase", PHASES)):
        unknown = sorted(set(table[column].drop_nulls().unique().to_list()) - set(allowed))
        if unknown:
            what, advice = f"column {column!r} has {unknown[0]!r}", ", ".join(allowed)
            raise InputError(what, where=where, advice=f"use one of {advice}")


def _check_lists(table: pl.DataFrame, where: str) -> None:
    """Sizes and samples are all known, or the cell is empty: whoever uses them asks nothing."""
    advice = "use numbers from 0, and leave the cell empty where one is unknown"
    tensors = _elements(table["shape"])
    sizes = _elements(tensors.drop_nulls())
    if tensors.null_count() or sizes.null_count() or (sizes < 0).any():
        raise InputError("column 'shape' has a size that is missing or below 0", where, advice)
    samples = _elements(table["samples"])
    if samples.null_count() or not (samples.is_finite() & samples.is_between(0, LARGEST)).all():
        what = "column 'samples' has a time that is missing, not finite or below 0"
        raise InputError(what, where, advice)


def _elements(lists: pl.Series) -> pl.Series:
    """What lists hold, one after the other; a null among them is one of a list."""
    return lists.filter(lists.list.len() > 0).explode()


assert is_resource(FAULT)

__all__ = [
    "CALL_LABELS", "FLOP_FREE_KINDS", "KERNEL_COLUMNS", "LABEL", "ORIGIN", "RECORDED_CALL",
    "TIMELINE_COLUMNS", "Framework", "Profile", "RankTotals", "Source", "SourceFile", "StepKind",
    "Steps", "amount_columns", "complete_kernels", "in_unprofiled_seconds", "typed_columns",
]  # fmt: skip
