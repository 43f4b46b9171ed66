"""Every column of the judged rows, defined once: name, type, unit, words, and how it is derived.

`Report.rows`, the rows of the JSON and its schema, CSV, Parquet and the list that the page's
payload ships all follow from `COLUMNS`. A new column is one more definition here.

A `profile` column is what was measured or read, a `verdict` column is what judging on a machine
gives, a `derived` one follows from the columns before it, and a `family` stands for all columns
of a prefix: the resources that a run has amounts of, its labels, the origins of its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec
import polars as pl

from timeroof.core.machine import DRAM, KIND_OF_HEAD, is_resource
from timeroof.core.shapes import SHAPE
from timeroof.core.vocabulary import row_family

LABEL = "label."
ORIGIN = "origin."
BOUND = "bound."
FLOP = "flop/"
BYTE = "byte/"

# Kinds of row that move data and compute nothing.
FLOP_FREE_KINDS = ("copy", "memset")

Number = int | float
# A row of a table by its columns, as polars gives it, or an object of a JSON document.
Row = Mapping[str, Any]
DataType = pl.DataType | type[pl.DataType]
# The expression of a derived column, given the names of the columns that a table has.
Derive = Callable[[Sequence[str]], pl.Expr]


class Column(msgspec.Struct, frozen=True):
    """One column of the rows, or one family of columns that share a prefix."""

    name: str
    dtype: DataType
    title: str
    doc: str
    unit: str | None = None
    source: Literal["profile", "verdict", "derived", "family"] = "profile"
    # A count reads as an integer in JSON where it is one.
    count: bool = False
    required: bool = False
    derive: Derive | None = None
    prefix: str | None = None

    @property
    def json_type(self) -> Any:
        """The type of this column's value in a row of the JSON."""
        if self.prefix is not None:
            value, nothing = _FAMILY_TYPES[self.name]
            return dict[str, value] | None if nothing else dict[str, value]  # type: ignore[valid-type]
        kind = Number if self.count else _json_type(self.dtype)
        return kind if self.required else kind | None


# The values of a family's object, and whether the object is null where nothing is known.
_FAMILY_TYPES: dict[str, tuple[Any, bool]] = {
    "labels": (str, False),
    "origin": (str, False),
    "bounds": (float, False),
    "flops": (Number | None, True),
    "bytes": (Number | None, True),
}


def _json_type(dtype: Any) -> Any:
    if isinstance(dtype, pl.List):
        return list[_json_type(dtype.inner)]  # type: ignore[misc]
    return {pl.String: str, pl.Int64: int, pl.Float64: float, pl.Boolean: bool}[dtype]


def flop_columns(columns: Sequence[str]) -> list[str]:
    """The amounts that are FLOPs."""
    return [c for c in columns if c.startswith(FLOP) and is_resource(c)]


def flops_known(columns: Sequence[str]) -> pl.Expr:
    """Whether all FLOPs of a row are known; copies have none by nature."""
    known = [pl.col(c).is_not_null() for c in flop_columns(columns)] or [pl.lit(False)]
    return pl.col("kind").is_in(FLOP_FREE_KINDS) | pl.all_horizontal(known)


def bytes_known(columns: Sequence[str]) -> pl.Expr:
    """Whether the DRAM bytes of a row are known."""
    return pl.col(DRAM).is_not_null() if DRAM in columns else pl.lit(False)


def total_flops(columns: Sequence[str]) -> pl.Expr:
    """FLOPs of all precisions, null where any is unknown."""
    flops = flop_columns(columns)
    if not flops:
        return pl.when(pl.col("kind").is_in(FLOP_FREE_KINDS)).then(0.0)
    return pl.when(flops_known(columns)).then(pl.sum_horizontal(flops))


def owed_share(columns: Sequence[str]) -> pl.Expr:
    """The share of a row's FLOPs that has to be done: padding's products are counted, not owed."""
    flops = pl.sum_horizontal(flop_columns(columns)) if flop_columns(columns) else pl.lit(0.0)
    padding = pl.col("padding_flops")
    return pl.when((padding > 0) & (flops > 0)).then(1.0 - padding / flops).otherwise(1.0)


def owed_flops(columns: Sequence[str]) -> pl.Expr:
    """FLOPs of all precisions that have to be done: the work of a row in every chart."""
    return total_flops(columns) * owed_share(columns)


def ratio(over: pl.Expr | str, under: str) -> pl.Expr:
    """A quotient, null where there is nothing to divide by."""
    value = pl.col(over) if isinstance(over, str) else over
    return pl.when(pl.col(under) > 0).then(value / pl.col(under))


def first_of(*choices: tuple[pl.Expr, object], otherwise: object) -> pl.Expr:
    """The value of the first condition that holds; a text is itself, no column's name."""
    chain: Any = pl
    for condition, value in choices:
        chain = chain.when(condition).then(pl.lit(value) if isinstance(value, str) else value)
    found: pl.Expr = chain.otherwise(pl.lit(otherwise))
    return found


def _limit(_: Sequence[str]) -> pl.Expr:
    head = pl.col("limiter").str.strip_prefix("pipe/").str.extract(r"^([^/]*)")
    return head.replace_strict(KIND_OF_HEAD, default="unknown", return_dtype=pl.String)


def _achieved_byte_per_s(columns: Sequence[str]) -> pl.Expr:
    return ratio(DRAM, "time_s") if DRAM in columns else pl.lit(None, pl.Float64)


def _verdict(
    name: str, title: str, doc: str, unit: str | None = "s", dtype: DataType = pl.Float64
) -> Column:
    return Column(name, dtype, title, doc, unit, source="verdict")


def _family(name: str, prefix: str, dtype: DataType, doc: str, unit: str | None = None) -> Column:
    return Column(name, dtype, name, doc, unit, source="family", prefix=prefix)


# In the order of a row of the JSON. docs/model.md defines the words.
COLUMNS: tuple[Column, ...] = (
    Column("id", pl.Int64, "id", "Number of the row within the report.", required=True),
    Column(
        "kind", pl.String, "kind", "kernel, op, primitive, copy, memset, collective or unit.",
        required=True,
    ),
    Column("name", pl.String, "name", "Name in full, as the source has it.", required=True),
    Column("short_name", pl.String, "kernel", "Name for people.", required=True),
    Column("op", pl.String, "op", "Framework op that launched the row."),
    Column(
        "op_family", pl.String, "family", "What it does: product, convolution, elementwise.",
        source="derived", derive=lambda _: row_family(),
    ),
    Column("algorithm", pl.String, "algorithm", "How a kernel does it, as its name tells."),
    Column("library", pl.String, "library", "Library that a kernel is from, as its name tells."),
    Column(
        "tensor_core", pl.Boolean, "matrix unit",
        "Whether a kernel computes on matrix units, as its name tells.",
    ),
    Column("phase", pl.String, "phase", "forward, backward, optimizer, data or other."),
    Column("module", pl.String, "module", "Path of the module in the model."),
    Column(
        "shape", SHAPE, "shape",
        "Shapes of the inputs, a list of sizes per tensor; null unless all sizes are known.",
    ),
    Column("dtype", pl.String, "dtype", "Data type of the inputs."),
    Column("device", pl.String, "device", "Device that ran it."),
    Column("stream", pl.String, "stream", "Stream or thread that ran it."),
    Column("rank", pl.Int64, "rank", "Rank of a distributed program."),
    Column("ranks", pl.Int64, "ranks", "How many ranks ran this kernel, of several.", count=True),
    Column("rank_min_s", pl.Float64, "fastest rank", "Seconds on the fastest of its ranks.", "s"),
    Column("rank_median_s", pl.Float64, "median rank", "Seconds on the median rank.", "s"),
    Column("rank_max_s", pl.Float64, "slowest rank", "Seconds on the slowest of its ranks.", "s"),
    Column("slowest_rank", pl.Int64, "slowest", "Rank on which this kernel takes longest."),
    Column("parent", pl.Int64, "parent", "Id of the row that this one is inside of."),
    _family("labels", LABEL, pl.String, "Whatever else the source says of the row."),
    Column(
        "group", pl.String, "group", "Rows of the same kernel, whatever their shapes and modules.",
        source="derived", derive=lambda _: pl.col("short_name"),
    ),
    Column("calls", pl.Float64, "calls", "How often it ran.", count=True, required=True),
    Column(
        "launches", pl.Float64, "launches", "Kernels started; on a CPU ops that do work.",
        count=True, required=True,
    ),
    Column("time_s", pl.Float64, "time", "Seconds of all calls.", "s"),
    Column(
        "timed_s", pl.Float64, "profiled time",
        "Seconds that the profiled step showed, with the profiler's own cost.", "s",
    ),
    Column(
        "exclusive_s", pl.Float64, "exclusive time",
        "Its share of the device's instants: each counts once, kernels before collectives before"
        " copies; null where the source has no timestamps.", "s",
    ),
    Column(
        "alone_s", pl.Float64, "time alone",
        "Seconds in which no other kernel of its device runs: the most that can come back.", "s",
    ),
    Column("time_spread", pl.Float64, "spread", "(p75 - p25) / median of the samples."),
    Column("idle_before_s", pl.Float64, "idle before", "Idle seconds right before its calls.", "s"),
    _verdict(
        "elapsed_s", "elapsed", "time_s + idle_before_s where that is known, else time_s."
    ),
    Column("samples", pl.List(pl.Float64), "samples", "Seconds of single steps.", "s"),
    _family("flops", FLOP, pl.Float64, "FLOPs by precision, padding included.", "FLOP"),
    Column(
        "total_flops", pl.Float64, "FLOPs",
        "FLOPs of all precisions; null where one is unknown.", "FLOP",
        source="derived", count=True, derive=total_flops,
    ),
    Column(
        "owed_flops", pl.Float64, "FLOPs without padding", "total_flops less padding_flops.",
        "FLOP", source="derived", count=True, derive=owed_flops,
    ),
    Column(
        "contraction_flops", pl.Float64, "contraction FLOPs",
        "FLOPs of matrix products, convolutions and attention products.", "FLOP", count=True,
    ),
    Column(
        "defined_flops", pl.Float64, "defined FLOPs",
        "Contraction FLOPs that the program defines where its compiler executes contraction_flops.",
        "FLOP", count=True,
    ),
    Column(
        "padding_flops", pl.Float64, "padding FLOPs",
        "FLOPs on padding: counted in flops, in no bound, coordinate or intensity.", "FLOP",
        count=True,
    ),
    _family("bytes", BYTE, pl.Float64, "Bytes by memory level.", "B"),
    Column(
        "achieved_flop_per_s", pl.Float64, "FLOP/s",
        "FLOPs per second of time_s, padding left out.", "FLOP/s",
        source="derived", derive=lambda columns: ratio(owed_flops(columns), "time_s"),
    ),
    Column(
        "achieved_byte_per_s", pl.Float64, "B/s", "DRAM bytes per second of time_s.", "B/s",
        source="derived", derive=_achieved_byte_per_s,
    ),
    _family("origin", ORIGIN, pl.String, "How each number came about."),
    _family("bounds", BOUND, pl.Float64, "Least seconds by resource.", "s"),
    Column(
        "limiter", pl.String, "limiter",
        "Resource of the largest bound, latency where none explains the time, or unknown.",
        source="verdict", required=True,
    ),
    Column(
        "limit", pl.String, "bound by", "Kind of limiter: compute, memory, launch and so on.",
        source="derived", derive=_limit, required=True,
    ),
    _verdict("work_bound_s", "work bound", "Largest of the FLOP, byte and link bounds."),
    _verdict("overhead_time_s", "launch bound", "Launches at the smallest launch cost."),
    _verdict("bound_s", "bound", "Least seconds of work and launching together."),
    _verdict("gap_s", "gap", "elapsed_s - bound_s; 0 inside the overhead box."),
    _verdict("kernel_efficiency", "kernel efficiency", "work_bound_s / time_s.", None),
    _verdict("efficiency", "efficiency", "bound_s / elapsed_s.", None),
    _verdict("ai", "AI", "FLOPs per DRAM byte, padding left out.", "FLOP/B"),
    _verdict(
        "compute_at_roof_s", "compute at roof",
        "Seconds of the FLOPs at the compute roof of the headline pair, padding left out.",
    ),
    _verdict(
        "memory_at_roof_s", "memory at roof",
        "Seconds of the bytes at the memory roof of the headline pair.",
    ),
    _verdict("compute_time_s", "compute time", "The paper's compute coordinate of time_s."),
    _verdict("bandwidth_time_s", "bandwidth time", "The paper's memory coordinate of time_s."),
    _verdict(
        "inside_overhead_box", "in overhead box", "Whether launching takes longer than time_s.",
        None, pl.Boolean,
    ),
    _verdict(
        "paper_class", "paper class", "overhead, compute or bandwidth, as the paper classifies.",
        None, pl.String,
    ),
    _verdict(
        "above_roof", "above roof", "Likely cause where time_s is below work_bound_s.",
        None, pl.String,
    ),
)  # fmt: skip


def columns_from(source: str) -> list[Column]:
    """The columns that one source gives."""
    return [c for c in COLUMNS if c.source == source]


def with_derived(table: pl.DataFrame) -> pl.DataFrame:
    """Judged rows with the derived columns beside them; each may use those before it."""
    lazy, names = table.lazy(), list(table.columns)
    for column in columns_from("derived"):
        assert column.derive is not None, column.name
        lazy = lazy.with_columns(column.derive(names).cast(column.dtype).alias(column.name))
        names.append(column.name)
    return lazy.collect()


def column_list() -> list[dict[str, str | None]]:
    """Name, unit, title and one line of documentation of every column, for other programs."""
    return [
        {"name": c.name, "unit": c.unit, "title": c.title, "doc": c.doc, "prefix": c.prefix}
        for c in COLUMNS
    ]


def row_type() -> type[msgspec.Struct]:
    """The struct of one row of the JSON's `kernels`."""
    return _row_type(COLUMNS)


@lru_cache(maxsize=4)
def _row_type(columns: tuple[Column, ...]) -> type[msgspec.Struct]:
    fields = [(c.name, c.json_type) for c in columns]
    return msgspec.defstruct("KernelRow", fields, kw_only=True, frozen=True)
