"""What a rule may look at: the judged rows, the machine and the totals of one run."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.report import BOUND
from timeroof.core.resources import TENSOR_PRECISIONS, is_resource
from timeroof.core.vocabulary import CONTRACTIONS, MOVES, FrameworkName, IdleCause, OpFamily
from timeroof.model.bounds import FAULT_BOUND, combined_bound, is_tiny

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timeroof.core.machine import Ceiling, Machine
    from timeroof.core.report import Report, Totals


def is_layout() -> pl.Expr:
    """Rows that only move data."""
    return in_family(*MOVES) | (pl.col("kind") == "copy")


def in_family(*families: OpFamily) -> pl.Expr:
    """Rows of some families."""
    return pl.col("op_family").is_in([family.value for family in families]).fill_null(False)


def is_contraction() -> pl.Expr:
    """Rows whose work matrix units could do: FLOPs of contractions where known, else the name."""
    return pl.coalesce(pl.col("contraction_flops") > 0, in_family(*CONTRACTIONS))


# How sources spell the formats that precisions are named after.
_FORMATS = {
    "fp64": r"(?i)float64|double|fp64|f64",
    "bf16": r"(?i)bfloat16|bf16",
    "fp16": r"(?i)float16|half|fp16|f16",
    "fp32": r"(?i)float32|^float$|fp32|f32|tf32",
}
_FRAMEWORKS = {
    FrameworkName.TORCH: r"(?i)^aten::|^torch|^c10|pytorch|^PT$|kineto|autograd::",
    FrameworkName.TENSORFLOW: r"(?i)^tf::|tensorflow|^TF\d?$",
    FrameworkName.JAX: r"(?i)^jax|^xla|hlo",
}


@dataclass(frozen=True)
class Context:
    """One judged run, ready to be read by rules.

    `rows` are the report's, as a mean rank has them: seconds and amounts of several ranks or
    devices are divided by their number, as those of the totals are. And:
    `precision` (format of the data, fp32 …), `tensor_flops`,
    `known_flops` (of the precisions that a counter file has, where `total_flops` wants all),
    `contraction` (work that a matrix unit could do), `idle_s`, `launch_s` and `fault_s` (0 where
    unknown), `moved_bytes` (at the level that moves most: residency models leave little for
    DRAM), `memory_s` (the largest bound by bytes), `most_gain_s` (the instants that a row runs
    alone), and `tiny` (see `timeroof.model.bounds`).
    """

    rows: pl.DataFrame
    machine: Machine | None
    totals: Totals
    roofs: dict[str, Ceiling]
    threads: int | None = None
    tool: str = ""
    # Whatever machine the run is compared with.
    ran_on_a_cpu: bool = False
    # How many devices the rows were summed over; a cure helps all of them at the same time.
    ranks: int = 1

    @classmethod
    def of(cls, report: Report) -> Context:
        """The context of a report."""
        profile, verdicts = report.profile, report.verdicts
        rows = report.rows
        ranks = _ranks(rows, report.totals)
        rows = _described(_mean_rank(rows.filter(pl.col("time_s") > 0), ranks))
        return cls(
            rows=rows.with_columns(is_tiny(report.machine, rows.columns).alias("tiny")),
            machine=report.machine,
            totals=report.totals,
            roofs=verdicts.roofs,
            threads=profile.threads,
            tool=profile.source.tool,
            ran_on_a_cpu=profile.ran_on_a_cpu,
            ranks=ranks,
        )

    def without(self, ids: Sequence[int]) -> Context:
        """The same run without some rows."""
        return replace(self, rows=self.rows.filter(~pl.col("id").is_in(ids)))

    @cached_property
    def total_s(self) -> float:
        """Seconds of the run as it was measured; 0 where nothing was timed: then no row is here."""
        return self.totals.ladder.measured_s or 0.0

    @property
    def synchronous(self) -> bool:
        """Whether launching and work add (a CPU running eagerly)."""
        return self.machine is not None and self.machine.launching == "synchronous"

    @property
    def device_kind(self) -> str:
        """Where it ran: `cpu`, `gpu` or another kind of device; gpu where nothing tells."""
        if self.ran_on_a_cpu:
            return "cpu"
        return "gpu" if self.machine is None else self.machine.kind

    @cached_property
    def framework(self) -> str:
        """`torch`, `tensorflow`, `jax`, or `any` where nothing tells."""
        told = [self.tool, *self.rows["op"].drop_nulls().unique().to_list()[:64]]
        if "label.framework" in self.rows.columns:
            told = [*self.rows["label.framework"].drop_nulls().unique().to_list(), *told]
        found = (n for t in told for n, pattern in _FRAMEWORKS.items() if re.search(pattern, t))
        return next(found, "any")

    def action(self, actions: Mapping[str, str]) -> str:
        """The advice that fits framework and device best; keys such as `torch cpu`, `torch`."""
        keys = (f"{self.framework} {self.device_kind}", self.framework, self.device_kind, "any")
        return next(actions[key] for key in keys if key in actions)

    def rate(self, resource: str) -> float | None:
        """The roof of one resource per second."""
        ceiling = self.roofs.get(resource)
        return None if ceiling is None else ceiling.rate

    def bound_after(
        self, work_s: pl.Expr, *, launch_s: pl.Expr | None = None, fault_s: pl.Expr | None = None
    ) -> pl.Expr:
        """The bound of a row once a cure has changed its partial bounds."""
        return combined_bound(
            work_s,
            pl.col("fault_s") if fault_s is None else fault_s,
            pl.col("launch_s") if launch_s is None else launch_s,
            asynchronous=not self.synchronous,
        )


def _described(rows: pl.DataFrame) -> pl.DataFrame:
    flops = [c for c in rows.columns if c.startswith("flop/")]
    tensor = [c for c in flops if c.removeprefix("flop/") in TENSOR_PRECISIONS]
    zero = pl.lit(0.0)
    fault = pl.col(FAULT_BOUND).fill_null(0.0) if FAULT_BOUND in rows.columns else zero
    # A precision that is unknown everywhere was not collected; elsewhere unknown is unknown.
    collected = [c for c in flops if rows[c].null_count() < rows.height]
    each = [pl.col(c).is_not_null() for c in collected]
    known = pl.all_horizontal(pl.lit(bool(collected)), *each)
    return rows.with_columns(
        pl.when(known).then(pl.sum_horizontal(flops) if flops else zero).alias("known_flops"),
        (pl.sum_horizontal(tensor) if tensor else zero).alias("tensor_flops"),
        _precision(flops).alias("precision"),
        is_contraction().alias("contraction"),
        pl.col("idle_before_s").fill_null(0.0).alias("idle_s"),
        pl.col("overhead_time_s").fill_null(0.0).alias("launch_s"),
        fault.alias("fault_s"),
        _largest(rows, "byte/").alias("moved_bytes"),
        _largest(rows, f"{BOUND}byte/").alias("memory_s"),
        pl.coalesce("alone_s", "time_s").alias("most_gain_s"),
    )


# Columns that are summed over ranks, beside the amounts and bounds of every resource.
_SUMMED = (
    "calls", "launches", "time_s", "timed_s", "exclusive_s", "alone_s", "idle_before_s",
    "elapsed_s", "total_flops", "owed_flops", "contraction_flops", "padding_flops", "work_bound_s",
    "overhead_time_s", "bound_s", "gap_s", "compute_at_roof_s", "memory_at_roof_s",
    "compute_time_s", "bandwidth_time_s",
)  # fmt: skip


def _ranks(rows: pl.DataFrame, totals: Totals) -> int:
    """How many devices rows were summed over: their instants by those of one device."""
    own_s = float(rows["exclusive_s"].sum())
    if own_s > 0 and totals.kernel_s and not rows["exclusive_s"].null_count():
        return max(1, round(own_s / totals.kernel_s))
    return max(1, rows["rank"].drop_nulls().n_unique())


def _mean_rank(rows: pl.DataFrame, ranks: int) -> pl.DataFrame:
    if ranks == 1:
        return rows
    of_resources = [c for c in rows.columns if is_resource(c) or c.startswith(BOUND)]
    return rows.with_columns(pl.col(*_SUMMED, *of_resources) / ranks)


def _largest(rows: pl.DataFrame, prefix: str) -> pl.Expr:
    columns = [c for c in rows.columns if c.startswith(prefix)]
    return pl.max_horizontal(columns) if columns else pl.lit(None, pl.Float64)


def _precision(flops: list[str]) -> pl.Expr:
    """The format of a row's data: what its dtype says, else where most of its FLOPs are."""
    told = pl.coalesce(
        pl.when(pl.col("dtype").str.contains(pattern)).then(pl.lit(name))
        for name, pattern in _FORMATS.items()
    )
    if not flops:
        return told
    most = pl.max_horizontal(flops)
    counted = pl.coalesce(
        pl.when((pl.col(c) == most) & (most > 0)).then(pl.lit(_storage(c))) for c in flops
    )
    return pl.coalesce(told, counted)


def _storage(flop_column: str) -> str:
    name = flop_column.removeprefix("flop/").removesuffix("-tensor")
    return {"tf32": "fp32"}.get(name, name)


# Idle seconds by what could end them.

HOST, DATA, SYNC, LINK, ASLEEP = "host", "data", "synchronisation", "communication", "asleep"

# Causes that are not here are the device's own, the measuring's, the machine's or unknown.
_GROUPS: dict[str, str] = {
    **dict.fromkeys(("launch-starved", "python", "autograd", "dispatch", "runtime"), HOST),
    IdleCause.DATA: DATA,
    IdleCause.HOST_SYNC: SYNC,
    IdleCause.COMMUNICATION: LINK,
    IdleCause.ASLEEP: ASLEEP,
}


def idle_seconds(context: Context, group: str) -> float:
    """Idle seconds of the run that belong to a group of causes."""
    causes = context.totals.idle_by_cause
    return sum(seconds for cause, seconds in causes.items() if _GROUPS.get(cause) == group)


def idle_share(context: Context, group: str) -> float:
    """The share of the rows' idle that belongs to a group; all of it where no cause is known."""
    if not context.totals.idle_by_cause:
        return 1.0
    known_s = float(context.rows["idle_s"].sum())
    return min(1.0, idle_seconds(context, group) / known_s) if known_s else 0.0


def with_idle_gain(context: Context, group: str) -> tuple[pl.DataFrame, dict[str, float]]:
    """Idle seconds of a group as gains of rows, or beside the rows where those do not know.

    Where rows know the idle before them, each gives the group's share of it.
    """
    seconds = idle_seconds(context, group)
    known_s = float(context.rows["idle_s"].sum())
    share = idle_share(context, group) if seconds else 0.0
    rows = context.rows.filter(pl.col("idle_s") > 0).with_columns(
        pl.lit(0.0).alias("busy_gain_s"), (pl.col("idle_s") * share).alias("idle_gain_s")
    )
    left = seconds - share * known_s
    return rows, ({group: left} if left > 1e-12 else {})


# What a row's bound would be, were its arithmetic done in another format.

# Units that multiply matrices of 16-bit numbers, best first.
SIXTEEN_BIT = ("flop/bf16-tensor", "flop/fp16-tensor", "flop/bf16")
NATIVE = {
    "fp16": ("flop/fp16-tensor",),
    "bf16": ("flop/bf16-tensor", "flop/bf16"),
    "fp32": ("flop/tf32-tensor",),
}


def native_rate(context: Context, resources: tuple[str, ...]) -> tuple[str, float] | None:
    """The first resource that the device has a unit of its own for, and its rate."""
    emulated = context.machine.emulated if context.machine is not None else {}
    rates = ((resource, context.rate(resource)) for resource in resources)
    return next(((r, rate) for r, rate in rates if rate is not None and r not in emulated), None)


def contraction_amount() -> pl.Expr:
    """FLOPs that a matrix unit could do; all FLOPs of a contraction where not told apart."""
    return pl.coalesce(pl.col("contraction_flops"), pl.col("total_flops"))


def flop_bounds(rows: pl.DataFrame) -> list[str]:
    """Bounds by arithmetic."""
    return [c for c in rows.columns if c.startswith(f"{BOUND}flop/")]


def other_bounds(rows: pl.DataFrame, byte_factor: float = 1.0) -> pl.Expr:
    """The largest bound by bytes, which a narrower format shortens, and by links."""
    memory = [c for c in rows.columns if c.startswith((f"{BOUND}byte/", f"{BOUND}link/"))]
    if not memory:
        return pl.lit(0.0)
    return pl.max_horizontal(memory).fill_null(0.0) * byte_factor


def flop_bound(rows: pl.DataFrame) -> pl.Expr:
    """The largest bound by arithmetic."""
    bounds = flop_bounds(rows)
    return pl.max_horizontal(bounds).fill_null(0.0) if bounds else pl.lit(0.0)


def on_unit(rows: pl.DataFrame, rate: float, byte_factor: float = 1.0) -> pl.Expr:
    """Seconds at the roof with all contractions on a unit of that rate."""
    return pl.max_horizontal(contraction_amount() / rate, other_bounds(rows, byte_factor))
