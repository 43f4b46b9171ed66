"""What a rule may look at: the judged rows, the machine and the totals of one run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from timeroof.advice.patterns import is_contraction
from timeroof.core.resources import TENSOR_PRECISIONS
from timeroof.core.verdict import BOUND
from timeroof.model.bounds import FAULT_BOUND, combined_bound, is_tiny

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timeroof.core.machine import Ceiling, Machine
    from timeroof.core.report import Report, Totals

# How sources spell the formats that precisions are named after.
_FORMATS = {
    "fp64": r"(?i)float64|double|fp64|f64",
    "bf16": r"(?i)bfloat16|bf16",
    "fp16": r"(?i)float16|half|fp16|f16",
    "fp32": r"(?i)float32|^float$|fp32|f32|tf32",
}
_FRAMEWORKS = {
    "torch": r"(?i)^aten::|^torch|^c10|pytorch|^PT$|kineto|autograd::",
    "tensorflow": r"(?i)^tf::|tensorflow|^TF\d?$",
    "jax": r"(?i)^jax|^xla|hlo",
}


@dataclass(frozen=True)
class Context:
    """One judged run, ready to be read by rules.

    Rows of a live run were timed with instruments; their seconds are brought to those of
    the clean steps (`scale`), so that gains are seconds of the run as it is.
    `rows` are the report's, and: `precision` (format of the data, fp32 …), `tensor_flops`,
    `contraction` (work that a matrix unit could do), `idle_s`, `launch_s` and `fault_s` (0 where
    unknown), `moved_bytes` (at the level that moves most: residency models leave little for
    DRAM), `memory_s` (the largest bound by bytes), and `tiny` (see `timeroof.model.bounds`).
    """

    rows: pl.DataFrame
    machine: Machine | None
    totals: Totals
    roofs: dict[str, Ceiling]
    timeline: pl.DataFrame | None = None
    threads: int | None = None
    tool: str = ""
    scale: float = 1.0
    # Whatever machine the run is compared with.
    ran_on_a_cpu: bool = False

    @classmethod
    def of(cls, report: Report) -> Context:
        """The context of a report."""
        profile, verdicts = report.profile, report.verdicts
        rows = report.rows
        scale = report.totals.clean_scale
        seconds = pl.col("time_s", "elapsed_s", "idle_before_s") * scale
        rows = _described(rows.filter(pl.col("time_s") > 0).with_columns(seconds))
        return cls(
            rows=rows.with_columns(is_tiny(report.machine, rows.columns).alias("tiny")),
            machine=report.machine,
            totals=report.totals,
            roofs=verdicts.roofs,
            timeline=profile.timeline,
            threads=profile.threads,
            tool=profile.source.tool,
            scale=scale,
            ran_on_a_cpu=profile.ran_on_a_cpu,
        )

    def without(self, ids: Sequence[int]) -> Context:
        """The same run without some rows."""
        return replace(self, rows=self.rows.filter(~pl.col("id").is_in(ids)))

    @cached_property
    def total_s(self) -> float:
        """Seconds of the run as it was measured; 0 where nothing was timed: then no row is here."""
        return self.totals.ladder.measured_s or 0.0

    @cached_property
    def ranks(self) -> int:
        """How many ranks the rows are of; a cure helps all of them at the same time."""
        return max(1, self.rows["rank"].drop_nulls().n_unique())

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
        for text in told:
            for name, pattern in _FRAMEWORKS.items():
                if pl.Series([text]).str.contains(pattern).item():
                    return name
        return "any"

    def action(self, actions: Mapping[str, str]) -> str:
        """The advice that fits framework and device best; keys such as `torch cpu`, `torch`."""
        for key in (f"{self.framework} {self.device_kind}", self.framework, self.device_kind):
            if key in actions:
                return actions[key]
        return actions["any"]

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
    return rows.with_columns(
        (pl.sum_horizontal(tensor) if tensor else zero).alias("tensor_flops"),
        _precision(flops).alias("precision"),
        is_contraction().alias("contraction"),
        pl.col("idle_before_s").fill_null(0.0).alias("idle_s"),
        pl.col("overhead_time_s").fill_null(0.0).alias("launch_s"),
        fault.alias("fault_s"),
        _largest(rows, "byte/").alias("moved_bytes"),
        _largest(rows, f"{BOUND}byte/").alias("memory_s"),
    )


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
