"""Row by row: the time on another machine and the interval around it (rule in `project`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec
import polars as pl

from timeroof.core.errors import UsageError
from timeroof.core.machine import FAULT, LAUNCH, Ceiling, Machine, Scope, limiter_kind
from timeroof.core.profile import Profile
from timeroof.core.report import BOUND
from timeroof.model.judge import no_ceiling

SECONDS = (
    "elapsed_s", "predicted_s", "low_s", "high_s", "busy_s", "busy_low_s", "busy_high_s",
)  # fmt: skip
COLUMNS = ("id", "limiter_now", "limiter", "bound_s", *SECONDS)
# A resource is in play if its bound is this part of the row's largest …
IN_PLAY = 0.05
# … and efficiency may change by this factor at least and at most.
LEAST_CHANGE, MOST_CHANGE = 1.25, 2.0


@dataclass(frozen=True)
class Crossing:
    """From where to where, and what else is different.

    `scopes` are those of the ceilings here and there. `same`: nothing is different, so
    efficiencies stay what they are.
    """

    here: Machine
    there: Machine
    scopes: tuple[Scope, Scope] = ("all", "all")
    same: bool = False

    @property
    def alike(self) -> bool:
        """Whether both devices launch the same way."""
        return self.here.launching == self.there.launching


def project_rows(
    kernels: pl.DataFrame, now: pl.DataFrame, then: pl.DataFrame, crossing: Crossing
) -> pl.DataFrame:
    """Bounds, prediction and interval of every row."""
    here, there = crossing.here, crossing.there
    work = _work_bounds(now)
    common = [c for c in work if c in then.columns]
    # A resource that nobody used here, such as another precision's unit, counts there.
    new = [c for c in _work_bounds(then) if c not in work and c.removeprefix(BOUND) not in kernels]
    table = pl.DataFrame(
        {
            "id": kernels["id"],
            "time_s": kernels["time_s"].fill_null(0.0),
            "elapsed_s": now["elapsed_s"].fill_null(0.0),
            "limiter_now": now["limiter"],
            "limiter": then["limiter"],
            "bound_s": then["bound_s"],
            "work_now": _largest(now, common),
            "work_then": _largest(then, [*common, *new]),
            "launch_now": now["overhead_time_s"],
            "launch_then": then["overhead_time_s"],
            "efficiency": now["kernel_efficiency"],
        }
    )
    finer = _finer_unit(kernels, here.roofs(crossing.scopes[0]), there.roofs(crossing.scopes[1]))
    extremes = _extremes(now, then, common, finer)
    table = table.with_columns(*extremes, finer.alias("finer")).with_columns(
        (pl.col("elapsed_s") - pl.col("time_s")).alias("idle_s"),
        _change_factor(table, same=crossing.same).alias("change"),
    )
    table = _interval(_predicted(table, here, there), alike=crossing.alike)
    # What was not timed was reckoned with as 0; it has bounds and a limiter, but no seconds.
    timed = kernels["time_s"].is_not_null()
    return table.select(*COLUMNS).with_columns(pl.when(timed).then(pl.col(*SECONDS)))


def _work_bounds(table: pl.DataFrame) -> list[str]:
    beside = (f"{BOUND}{LAUNCH}", f"{BOUND}{FAULT}")
    return [c for c in table.columns if c.startswith(BOUND) and c not in beside]


def _largest(table: pl.DataFrame, columns: list[str]) -> pl.Series:
    if not columns:
        return pl.Series([None] * table.height, dtype=pl.Float64)
    return table.select(pl.max_horizontal(columns)).to_series()


def _finer_unit(
    kernels: pl.DataFrame, ours: dict[str, Ceiling], theirs: dict[str, Ceiling]
) -> pl.Series:
    """How much shorter FP32 contractions may be on matrix units that only the other machine has.

    Libraries use TF32 for FP32 convolutions, and products where allowed, without being told.
    """
    fp32, tf32 = theirs.get("flop/fp32"), theirs.get("flop/tf32-tensor")
    factor = 1.0
    if fp32 is not None and tf32 is not None and "flop/tf32-tensor" not in ours:
        factor = min(1.0, fp32.rate / tf32.rate)
    contraction = (kernels["contraction_flops"].fill_null(0.0) > 0).cast(pl.Float64)
    return 1.0 - contraction * (1.0 - factor)


def _extremes(
    now: pl.DataFrame, then: pl.DataFrame, work: list[str], finer: pl.Series
) -> list[pl.Series]:
    """The least and the largest ratio among a row's resources in play."""
    if not work:
        nothing = pl.Series([None] * now.height, dtype=pl.Float64)
        return [nothing.alias("ratio_low"), nothing.alias("ratio_high")]
    both = now.select(work).hstack(then.select(pl.col(c).alias(f"then.{c}") for c in work))
    largest = pl.max_horizontal(work)
    ratios = [
        pl.when((pl.col(c) > 0) & (pl.col(c) >= IN_PLAY * largest)).then(
            pl.col(f"then.{c}") / pl.col(c)
        )
        for c in work
    ]
    # The finer unit's work is then bound by memory at the latest, whose ratio is among these.
    fp32 = f"{BOUND}flop/fp32"
    finest = [r * finer for r, c in zip(ratios, work, strict=True) if c == fp32]
    found = both.select(
        pl.min_horizontal(*ratios, *finest).alias("ratio_low"),
        pl.max_horizontal(ratios).alias("ratio_high"),
    )
    return found.get_columns()


def _change_factor(table: pl.DataFrame, *, same: bool) -> pl.Expr:
    """By which efficiencies of rows with the same limiter differ today."""
    if same or not table.height:
        return pl.lit(1.0)
    factors: dict[str, float] = {}
    for limiter in table["limiter_now"].unique().to_list():
        kind = limiter_kind(limiter)
        alike = table.filter(pl.col("limiter_now") == limiter, pl.col("efficiency") > 0)
        low, high = (alike["efficiency"].quantile(share) for share in (0.25, 0.75))
        spread = high / low if low and high and kind != "launch" else LEAST_CHANGE
        factors[limiter] = min(max(spread, LEAST_CHANGE), MOST_CHANGE)
    return pl.col("limiter_now").replace_strict(factors, return_dtype=pl.Float64)


def _predicted(table: pl.DataFrame, here: Machine, there: Machine) -> pl.DataFrame:
    """Add the predicted time and the ratios of rows that nothing is known of."""
    work_ratio = pl.when(pl.col("work_now") > 0).then(pl.col("work_then") / pl.col("work_now"))
    launch_ratio = pl.when(pl.col("launch_now") > 0).then(
        pl.col("launch_then") / pl.col("launch_now")
    )
    launching = (pl.col("launch_now") > pl.col("work_now").fill_null(0.0)).fill_null(False)
    # Between a queue and an eager CPU nothing follows the cost of a launch: that is another cost.
    alike = here.launching == there.launching
    followed = pl.when(launching & pl.lit(alike)).then(launch_ratio.fill_null(1.0))
    table = table.with_columns(
        launching.alias("launching"), launch_ratio.alias("launch_ratio")
    ).with_columns(
        # A row without work is the host's: it stays, or has nothing to do on a device.
        followed.when((pl.col("work_now") == 0) & pl.lit(not alike))
        .then(0.0)
        .otherwise(work_ratio)
        .alias("ratio")
    )
    table = table.with_columns(pl.col("ratio").fill_null(_overall(table)))
    # A device's duration holds no launching: a kernel too short for its work to matter may follow
    # the cost of a launch, or its work after all. Where launching adds, it is what the row is.
    adds = here.launching == there.launching == "synchronous"
    ends = {"ratio_low": pl.min_horizontal, "ratio_high": pl.max_horizontal}
    table = table.with_columns(
        pl.when(pl.col("launching") & pl.lit(adds))
        .then(pl.col("ratio"))
        .otherwise(pick(pl.col(end), pl.col("ratio")))
        .alias(end)
        for end, pick in ends.items()
    )
    ratio = pl.col("launch_ratio").fill_null(1.0)
    table = table.with_columns(
        (pl.col("idle_s") * ratio).alias("idle_then_s"),
        # It may follow the cost of a launch, or be the host's own and stay.
        (pl.col("idle_s") * pl.min_horizontal(ratio, 1.0)).alias("idle_low_s"),
        (pl.col("idle_s") * pl.max_horizontal(ratio, 1.0)).alias("idle_high_s"),
    )
    return table.with_columns(
        busy_there(name, here, there).alias(out)
        for name, out in (("ratio", "busy_s"), ("ratio_low", "least_s"), ("ratio_high", "most_s"))
    ).with_columns((pl.col("busy_s") + pl.col("idle_then_s")).alias("predicted_s"))


def _overall(table: pl.DataFrame) -> float:
    """How all rows whose work scales do so together; 1 where none does."""
    known = table.filter(pl.col("ratio") > 0)
    time_s = float(known["time_s"].sum())
    return float((known["time_s"] * known["ratio"]).sum()) / time_s if time_s else 1.0


def busy_there(ratio: str, here: Machine, there: Machine) -> pl.Expr:
    """Busy seconds on the other machine if work scales by a ratio.

    Where launching adds to the work (synchronous), only the rest scales. Written so that
    equal machines give the very same number.
    """
    scaled = pl.col("time_s") * pl.col(ratio)
    launch_now, launch_then = (pl.col(c).fill_null(0.0) for c in ("launch_now", "launch_then"))
    kept = pl.min_horizontal(launch_now, pl.col("time_s"))
    from_queue = here.launching == "asynchronous"
    to_queue = there.launching == "asynchronous"
    if from_queue and to_queue:
        # Work that has become shorter than launching takes as long, where it was not.
        longer = ~pl.col("launching") & (pl.col("time_s") >= launch_now)
        return pl.when(longer).then(pl.max_horizontal(scaled, launch_then)).otherwise(scaled)
    if from_queue:
        return scaled + launch_then
    if to_queue:
        return pl.max_horizontal((pl.col("time_s") - kept) * pl.col(ratio), launch_then)
    added = kept * pl.when(launch_now > 0).then(launch_then / launch_now).otherwise(1.0)
    rest = scaled + (added - kept * pl.col(ratio))
    return pl.when(pl.col("launching")).then(scaled).otherwise(rest)


def _interval(table: pl.DataFrame, *, alike: bool) -> pl.DataFrame:
    """Ends that hold the prediction, not below the bound unless the prediction is.

    What the roof does not explain today (latency, too few tiles, waiting) may follow the roof to
    the other machine, or stay as it is: both are inside. Between a queue and an eager CPU it does
    not stay, as launching is not the same there.
    """
    low, high = pl.col("least_s") / pl.col("change"), pl.col("most_s") * pl.col("change")
    if alike:
        low = pl.min_horizontal(low, _gap_stays("ratio_low"))
        high = pl.max_horizontal(high, _gap_stays("ratio_high"))
    else:
        # Of a row that launching limits most is the framework's, which may stay with the host.
        high = pl.max_horizontal(high, pl.when("launching").then("time_s").otherwise(0.0))
        low = pl.when("launching").then(pl.min_horizontal(low, "bound_s")).otherwise(low)
    low = pl.max_horizontal(low, pl.col("bound_s") * pl.col("finer"))
    return table.with_columns(
        pl.min_horizontal(low, "busy_s").alias("busy_low_s"),
        pl.max_horizontal(high, "busy_s").alias("busy_high_s"),
    ).with_columns(
        (pl.col("busy_low_s") + pl.col("idle_low_s")).alias("low_s"),
        (pl.col("busy_high_s") + pl.col("idle_high_s")).alias("high_s"),
    )


def _gap_stays(ratio: str) -> pl.Expr:
    """Seconds if only the part that the roof explains scales; exact for equal machines."""
    explained = pl.col("efficiency").fill_null(0.0).clip(0.0, 1.0)
    return pl.col("time_s") * (pl.col(ratio) + (1.0 - explained) * (1.0 - pl.col(ratio)))


PRECISIONS = ("bf16", "fp16", "fp8", "tf32", "fp32", "fp64")
SIZES = {"fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
# The optimizer's work grows with parameters, not with samples.
_PER_SAMPLE = pl.col("phase").fill_null("other") != "optimizer"


def in_precision(profile: Profile, precision: str) -> Profile:
    """The run with contractions in another precision, and bytes of that format.

    The optimizer keeps its own format (master weights), element-wise arithmetic its unit.
    Where contractions are not told apart, all FLOPs of a row count as one.
    """
    if precision not in PRECISIONS:
        raise UsageError(
            f"{precision!r} is no precision to try", advice=f"use {', '.join(PRECISIONS)}"
        )
    table = profile.kernels
    flops = [c for c in table.columns if c.startswith("flop/")]
    if not flops:
        return profile
    target = _unit(precision)
    table = table if target in flops else table.with_columns(pl.lit(0.0).alias(target))
    flops = [c for c in table.columns if c.startswith("flop/")]
    total = pl.sum_horizontal(flops)
    moved = pl.min_horizontal(pl.col("contraction_flops").fill_null(total), total)
    share = pl.when((total > 0) & _PER_SAMPLE).then(moved / total).otherwise(0.0)
    ratio = _byte_ratio(flops, precision)
    levels = [c for c in table.columns if c.startswith("byte/")]
    kernels = table.with_columns(
        *((pl.col(c) * (1 - share)).alias(c) for c in flops if c != target),
        (pl.col(target) + share * (total - pl.col(target))).alias(target),
        *((pl.col(c) * ratio).alias(c) for c in levels),
    )
    return replace(profile, kernels=kernels)


def _unit(precision: str) -> str:
    return f"flop/{precision}" if precision in ("fp32", "fp64") else f"flop/{precision}-tensor"


def _byte_ratio(flops: list[str], precision: str) -> pl.Expr:
    """How many bytes an element has then, by one now: from the dtype, else from the FLOPs."""
    said = pl.coalesce(
        pl.when(pl.col("dtype").str.contains(pattern)).then(pl.lit(size))
        for pattern, size in (
            (r"(?i)float64|double|fp64", 8.0),
            (r"(?i)bfloat16|bf16|float16|half|fp16", 2.0),
            (r"(?i)float32|^float$|fp32|tf32", 4.0),
        )
    )
    most = pl.max_horizontal(flops)
    counted = pl.coalesce(
        pl.when((pl.col(c) == most) & (most > 0)).then(pl.lit(SIZES.get(format_of(c), 4.0)))
        for c in flops
    )
    now = pl.coalesce(said, counted)
    then = SIZES[precision]
    return pl.when(_PER_SAMPLE & now.is_not_null()).then(then / now).otherwise(1.0)


def format_of(flop_column: str) -> str:
    """The number format of a unit.

    >>> format_of("flop/bf16-tensor")
    'bf16'
    """
    return flop_column.removeprefix("flop/").removesuffix("-tensor")


# Units that do the work where a machine lacks one; the first that it has.
SUBSTITUTES: dict[str, tuple[str, ...]] = {
    "flop/fp16-tensor": ("flop/bf16-tensor", "flop/fp16", "flop/fp32"),
    "flop/bf16-tensor": ("flop/fp16-tensor", "flop/bf16", "flop/fp32"),
    "flop/tf32-tensor": ("flop/fp32",),
    "flop/fp8-tensor": ("flop/fp16-tensor", "flop/bf16-tensor", "flop/fp32"),
    "flop/fp4-tensor": ("flop/fp8-tensor", "flop/fp16-tensor", "flop/fp32"),
    "flop/int8-tensor": ("flop/int8", "flop/fp16-tensor", "flop/fp32"),
    "flop/fp64-tensor": ("flop/fp64",),
    "flop/fp16": ("flop/fp32",),
    "flop/bf16": ("flop/fp32",),
}


@dataclass(frozen=True)
class Substituted:
    """A machine that does the run's work on the units it has: `used` by the unit it lacks."""

    machine: Machine
    used: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def name_units(self, limiter: pl.Expr) -> pl.Expr:
        """Limiters by the unit that is used, not by the one that the machine lacks."""
        return limiter.replace(self.used) if self.used else limiter


def with_substitutes(
    machine: Machine, profile: Profile, scope: Scope, precision: str | None = None
) -> Substituted:
    """The machine with another unit in place of one that it lacks but the run uses.

    `precision` is the one that was asked for, if any: its absence has a note of its own.
    """
    roofs = machine.roofs(scope)
    used: dict[str, str] = {}
    notes = []
    for resource in profile.amount_columns:
        if resource in roofs or not profile.kernels.select((pl.col(resource) > 0).any()).item():
            continue
        unit = next((s for s in SUBSTITUTES.get(resource, ()) if s in roofs), None)
        if unit is not None:
            # What is itself emulated runs on the unit below.
            used[resource] = machine.emulated.get(unit, unit)
            notes.append(_replaced(machine, resource, used[resource], precision))
        elif resource.startswith("flop/"):
            notes.append(no_ceiling(machine, resource))
    if LAUNCH not in roofs:
        notes.append(
            f"{machine.name} has no launch ceiling: rows that launching limits keep their time."
        )
    emulated = {**machine.emulated, **used}
    return Substituted(msgspec.structs.replace(machine, emulated=emulated), used, tuple(notes))


def _replaced(machine: Machine, resource: str, unit: str, precision: str | None) -> str:
    wanted = format_of(resource)
    if wanted != precision or format_of(unit) == wanted:
        return f"{machine.name} has no {resource}: its {unit} is used."
    return (
        f"{machine.name} has no unit for {wanted} at all: products run on its {unit}, only the"
        f" data has the width of {wanted}."
    )
