"""What a rule may look at: the judged rows, the machine and the totals of one run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.columns import Row
from timeroof.core.errors import UNTRUSTED
from timeroof.core.machine import TENSOR_PRECISIONS, is_resource
from timeroof.core.profile import Profile, RankTotals
from timeroof.core.report import BOUND
from timeroof.core.shapes import shape_text
from timeroof.core.units import format_percent, format_seconds
from timeroof.core.vocabulary import CONTRACTIONS, EAGER, MOVES, FrameworkName, OpFamily
from timeroof.model.bounds import FAULT_BOUND, combined_bound, is_tiny
from timeroof.model.judge import judge, scope_for
from timeroof.model.totals import rank_count
from timeroof.read.events import COPY_OVER

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


# A program whose convolutions take less of its products' time is no convolution network.
MOSTLY = 0.5
# Places that a finding names, tensors of each, and rows that are looked at.
NAMED_PLACES, NAMED_TENSORS, MOST_PLACED = 2, 2, 500


def kernel_count(rows: pl.DataFrame) -> int:
    """How many different kernels rows are of, whatever their sizes."""
    return rows.select("short_name", "op").n_unique()


# What TorchInductor calls its kernels, and the profiler the calls of what it compiled.
_COMPILED = r"^triton_(?:poi|red|per|tem|mm|for)|cpp_fused_|Torch-Compiled Region|CompiledFxGraph"
# What XLA calls the kernels that it made of several instructions. Ops of JAX that run one by one
# have few: helpers of jax.numpy that are compiled by themselves.
_FUSED, FUSED_SHARE = r"fusion(?:[._]\d+)*$", 0.2
_RECURS = r"(?i)lstm|gru_|grucell|rnn|(?:^|[./])cells?(?:[._/\d]|$)"
# Words of advice's keys that are no kind of work.
_NO_KINDS = frozenset({"any", "cpu", "gpu", "tpu", *FrameworkName})


def _mostly_embedding(rows: pl.DataFrame) -> bool:
    """Whether lookups in tables, or the update of their rows, hold most of the time."""
    if not {"algorithm", "short_name"} <= set(rows.columns):
        return False
    found = (pl.col("algorithm") == "embedding") | pl.col("short_name").str.contains("embedding")
    return _hold_most(rows, found)


def mostly_transfers(rows: pl.DataFrame) -> bool:
    """Whether copies between host and device hold most of the time."""
    if "kind" not in rows.columns:
        return False
    return _hold_most(rows, (pl.col("kind") == "copy") & pl.col("name").str.contains(COPY_OVER))


def _hold_most(rows: pl.DataFrame, some: pl.Expr) -> bool:
    """Whether some of the rows hold most of their time."""
    own_s = float(rows.filter(some.fill_null(False))["time_s"].sum())
    return own_s > MOSTLY * float(rows["time_s"].sum())


def _products_s(rows: pl.DataFrame) -> float:
    return float(rows.filter(in_family(*CONTRACTIONS))["time_s"].sum())


def places(
    rows: pl.DataFrame, count: int = NAMED_PLACES, *, by: str = "time_s", lead: str = "Largest"
) -> str:
    """The places that hold most of some rows' time: module, op with its sizes, source line.

    `by` is the column of seconds that counts, such as the idle before a row. Repeated layers are
    one place: their numbers are left out.
    """
    rows = rows.filter(pl.col(by) > 0).with_columns(pl.col(by).alias("time_s"))
    if not rows.height:
        return ""
    line = pl.col("label.source") if "label.source" in rows.columns else pl.lit(None, pl.String)
    longest = rows.sort("time_s", descending=True).head(MOST_PLACED)
    named = longest.select(
        _layer("module"), "op", "short_name", "kind",
        pl.Series("shape", [shape_text(s, NAMED_TENSORS) for s in longest["shape"].to_list()],
                  dtype=pl.String),
        line.alias("line"), "time_s",
    )  # fmt: skip
    largest = (
        named.group_by("module", "op", "short_name", "kind", "shape", "line", maintain_order=True)
        .agg(pl.col("time_s").sum())
        .sort("time_s", descending=True)
        .head(count)
    )
    texts = [_place(row) for row in largest.iter_rows(named=True)]
    return f" {lead}: {'; '.join(texts)}."


def _layer(column: str) -> pl.Expr:
    """The last two names of a module's path, without the numbers of repeated layers."""
    plain = pl.col(column).str.replace_all(r"_\d+(/|$)", "$1")
    plain = plain.str.replace_all(r"\.\d+(\.|$)", ".*$1")
    return plain.str.extract(r"([^/]+(?:/[^/]+)?)$").alias(column)


def main_module(rows: pl.DataFrame) -> str | None:
    """The last name of the module with most of some rows' time, without a layer's number."""
    by_module = rows.drop_nulls("module").group_by(_layer("module")).agg(pl.col("time_s").sum())
    first = by_module.sort("time_s", descending=True)["module"].to_list()[:1]
    return first[0].rsplit("/", 1)[-1] if first and first[0] else None


def _place(row: Row) -> str:
    op = (row["op"] or row["short_name"] or "").removeprefix("aten::")
    if row["kind"] == "collective" and op == "record_param_comms":
        op = row["short_name"] or op  # the recording of a collective is no op of the program
    if row["kind"] == "primitive" and "reorder" in (row["short_name"] or ""):
        # A library's copies inside an op are not the op.
        op = f"{row['short_name']} in {op}"
    where = [row["module"], op, row["shape"], f"at {row['line']}" if row["line"] else None]
    return f"{' '.join(part for part in where if part)} ({format_seconds(row['time_s'])})"


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


# From this share of the kernels' time on a program is one that replays graphs.
MOST_REPLAYED = 0.5


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
    # Seconds of each rank of a distributed run.
    rank_totals: Sequence[RankTotals] = ()
    # Other programs had the CPUs for so long that times say nothing: only counts do.
    untrusted: bool = False
    # Least seconds of each phase as one kernel, where tensor identities are known.
    fused_s: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, report: Report) -> Context:
        """The context of a report."""
        profile, verdicts = report.profile, report.verdicts
        rows = report.rows
        ranks = _ranks(rows, report)
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
            rank_totals=profile.ranks,
            fused_s=_fused_phases(report),
            untrusted=any(note.code == UNTRUSTED for note in report.notes),
        )

    def without(self, ids: Sequence[int]) -> Context:
        """The same run without some rows."""
        return replace(self, rows=self.rows.filter(~pl.col("id").is_in(ids)))

    @cached_property
    def total_s(self) -> float:
        """Seconds of the run as it was measured; 0 where nothing was timed."""
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

    @cached_property
    def replays_graphs(self) -> bool:
        """Whether most of the kernels' time is that of graphs that the program replays."""
        if "label.link" not in self.rows.columns:
            return False
        replayed = pl.when(pl.col("label.link") == "graph").then(pl.col("time_s")).sum()
        most = replayed > MOST_REPLAYED * pl.col("time_s").sum()
        return bool(self.rows.select(most).item())

    @cached_property
    def is_compiled(self) -> bool:
        """Whether torch.compile or XLA made kernels of whole functions of the program already."""
        made = pl.any_horizontal(
            pl.col(c).str.contains(_COMPILED).fill_null(False) for c in ("name", "op", "short_name")
        )
        return bool(self.rows.select(made.any()).item()) or self._is_fused

    @cached_property
    def _is_fused(self) -> bool:
        if self.framework not in (FrameworkName.JAX, FrameworkName.TENSORFLOW):
            return False
        fused = self.rows.filter(pl.col("name").str.contains(_FUSED))
        launches = float(self.rows["launches"].sum())
        return float(fused["launches"].sum()) >= FUSED_SHARE * launches > 0

    @cached_property
    def eager_ops(self) -> float:
        """How many ops of a step a program of JAX or TensorFlow runs one by one, where those are
        most of what it launches; 0 where they are not."""
        if "label.mode" not in self.rows.columns:
            return 0.0
        eager = float(self.rows.filter(pl.col("label.mode") == EAGER)["launches"].sum())
        return eager if eager > MOSTLY * float(self.rows["launches"].sum()) else 0.0

    @cached_property
    def learns(self) -> bool | None:
        """Whether the program trains; None where the source does not tell phases."""
        phases = set(self.rows["phase"].drop_nulls().unique().to_list())
        if phases & {"backward", "optimizer"}:
            return True
        return False if "forward" in phases else None

    def kinds(self, rows: pl.DataFrame | None = None) -> list[str]:
        """What a program, or some rows of it, mostly does: the kinds of advice that fit it.

        Rows without a product or convolution are of the program's kind.
        """
        return [*self._work_kinds(rows), *self._program_kinds]

    @cached_property
    def _program_kinds(self) -> list[str]:
        kinds = ["compiled"] if self.is_compiled else []
        purpose = {True: "training", False: "inference", None: ""}[self.learns]
        return [*kinds, purpose] if purpose else kinds

    def _work_kinds(self, rows: pl.DataFrame | None) -> list[str]:
        if rows is not None and "op_family" not in rows.columns:
            rows = None
        of_rows = self.rows if rows is None or not _products_s(rows) else rows
        kinds = ["transfer"] if rows is not None and mostly_transfers(rows) else []
        kinds += ["graphs"] if self.replays_graphs else []
        convolution_s = float(of_rows.filter(in_family(OpFamily.CONVOLUTION))["time_s"].sum())
        if convolution_s >= MOSTLY * _products_s(of_rows) > 0:
            kinds.append("convolution")
        if self._recurs:
            kinds.append("recurrent")
        if rows is not None and _mostly_embedding(rows):
            kinds.append("embedding")
        if rows is not None and "phase" in rows.columns:
            kinds += ["optimizer"] if _hold_most(rows, pl.col("phase") == "optimizer") else []
        if rows is not None and rows.height:
            family = rows.group_by("op_family").agg(pl.col("time_s").sum())
            largest = family.sort("time_s", descending=True)["op_family"][0]
            kinds += [largest] if largest and largest not in kinds else []
        return kinds

    @cached_property
    def _recurs(self) -> bool:
        names = self.rows.select(pl.concat_str("op", "name", "module", ignore_nulls=True))
        return bool(names.to_series().str.contains(_RECURS).any())

    def action(self, actions: Mapping[str, str], rows: pl.DataFrame | None = None) -> str:
        """The advice that fits the rows it is about, framework and device best.

        Keys such as `torch convolution`, `torch cpu`, `torch`, `gpu`; `any` fits all. A program
        that is compiled is not told to compile, unless the advice is made for such programs.
        """
        # What rows mostly do is asked for only where an answer depends on it.
        asked = {word for key in actions for word in key.split()} - _NO_KINDS
        kinds = (*(f"{kind} " for kind in (self.kinds(rows) if asked else ())), "")
        keys = [
            f"{framework}{kind}{device}".strip()
            for framework in (f"{self.framework} ", "")
            for kind in kinds
            for device in (self.device_kind, "")
        ]
        fitting = [key for key in [*keys, "any"] if key in actions]
        if self.is_compiled:
            new = [k for k in fitting if "compiled" in k or "torch.compile" not in actions[k]]
            fitting = new or fitting
        return actions[fitting[0]]

    @property
    def noun(self) -> str:
        """What a row runs: an op of a CPU, a kernel of a device."""
        return "op" if self.ran_on_a_cpu else "kernel"

    @property
    def device_noun(self) -> str:
        """What the program's work runs on, in words."""
        names = {"cpu": "CPU", "gpu": "GPU", "tpu": "TPU"}
        return names.get(self.device_kind, "device")

    def of_run(self, seconds: float) -> str:
        """Seconds beside those of the run, for titles; profiled steps may take longer than it."""
        if seconds > self.total_s * (1 + 1e-9):
            return f"all {format_seconds(self.total_s)}"
        return f"{format_seconds(seconds)} of {format_seconds(self.total_s)}"

    def share(self, seconds: float) -> str:
        """Seconds as a share of the run."""
        if not self.total_s:
            return "?"
        return format_percent(seconds / self.total_s) if seconds <= self.total_s else "over 100 %"

    def counted(self, count: float, words: str) -> str:
        """A number of ops or kernels, with words that go before the noun."""
        noun = self.noun if count == 1 else f"{self.noun}s"
        return f"{count:,.0f} {words}{noun} {'takes' if count == 1 else 'take'}"

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


def _fused_phases(report: Report) -> dict[str, float]:
    """The bound of each phase as one kernel, whose intermediate results never reach memory."""
    rungs, machine = report.profile.rungs, report.machine
    if rungs is None or machine is None:
        return {}
    fused = Profile.of(rungs.filter(pl.col("name") == "fused"), report.profile.source)
    scope = scope_for(report.profile.threads, machine)
    judged = judge(fused, machine, scope=scope).table
    bounds = zip(fused.kernels["phase"].to_list(), judged["bound_s"].to_list(), strict=True)
    return {phase: bound_s for phase, bound_s in bounds if phase and bound_s is not None}


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
    "elapsed_s", "total_flops", "owed_flops", "contraction_flops", "defined_flops", "padding_flops",
    "work_bound_s",
    "overhead_time_s", "bound_s", "gap_s", "compute_at_roof_s", "memory_at_roof_s",
    "compute_time_s", "bandwidth_time_s",
)  # fmt: skip


def _ranks(rows: pl.DataFrame, report: Report) -> int:
    """How many devices rows were summed over: their instants by those of one device."""
    own_s, kernel_s = float(rows["exclusive_s"].sum()), report.totals.kernel_s
    if own_s > 0 and kernel_s and not rows["exclusive_s"].null_count():
        return max(1, round(own_s / kernel_s))
    return rank_count(report.profile)


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
