"""Which rows of two runs are the same work, and why a pair of them takes another time.

Rows are joined by everything first, then by less and less. They are summed per key, so that a run
which calls a kernel from two streams still matches one that uses one. What no key joins is compared
module by module, and then phase by phase: a compiled program has other kernels than an eager one,
but the same modules and the same backward pass.

Causes: less work, fewer launches, efficiency, the machine.

A row's elapsed seconds are launching and the rest. Launching changes with the number of launches
(`launches`), with the cost of a launch on the other machine (`machine`), and by what is left
(`efficiency`). The rest changes with the work at the first machine's roof (`work`), with the other
machine's roof (`machine`), and by what is left (`efficiency`). Where the work of a side is not
known, the rest is `other`. The parts sum to the difference: the last one is what is left.

More or less work counts at the efficiency of the first side: twice the work is twice its seconds.
Where the pair is only the same part of the program, or one side has many times the work, a few
seconds that hardly did any work would be multiplied by hundreds. There the side with more of the
work sets the efficiency, so that no cause is larger than the seconds of the two sides.
"""

from __future__ import annotations

import math
import statistics

import polars as pl

from timeroof.core.columns import first_of
from timeroof.core.machine import LEVELS as LEVELS_OF_MEMORY
from timeroof.core.report import Totals
from timeroof.core.vocabulary import CONTRACTIONS, IdleCause, OpFamily
from timeroof.model import stats
from timeroof.model.stats import IQR_PER_DEVIATION, LASTING, Drift

# From the strictest to the loosest: kernel names change between versions and chips, ops between
# backends, modules between frameworks, shapes between batch sizes. A key needs its first column.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("name", "kind", "op", "module", "shape", "dtype", "phase", "labels", "rank"),
    ("op", "module", "shape", "dtype", "phase", "labels"),
    ("name", "shape", "phase", "labels"),
    ("plain_op", "module", "shape", "dtype", "phase"),
    ("family", "module", "shape", "phase"),
    ("plain_op", "shape", "phase"),
    ("module", "plain_op", "phase"),
    ("module", "family", "phase"),
    ("plain_op", "phase"),
    ("name",),
    ("stem", "phase"),
    ("family", "phase"),
)
# Not the same kernels any more, only the same part of the program.
PARTS: tuple[tuple[str, ...], ...] = (("module", "phase"), ("phase",))
BY_PART = tuple(" ".join(part) for part in PARTS)
BY_MODULE = BY_PART[0]

SUMS = (
    "elapsed_s", "time_s", "calls", "launches", "launch_s", "work_s", "work_other_s", "known_s",
    "deviation_s", "least_s",
)  # fmt: skip
# Sums of which one unknown member makes the whole unknown.
AMOUNTS = ("flops", *(f"byte/{level}" for level in LEVELS_OF_MEMORY))

# What tells a row from others, which a primitive takes over from its op.
IDENTITY = (*LEVELS[0], "title", "where")


def with_primitives_in_their_ops(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows whose primitives bear the name of their op, so that both are summed.

    How an op's seconds are split between itself and what runs below it moves from run to run with
    the clocks of two recorders; the sum does not.
    """
    above = rows.select(
        pl.col("id").alias("parent"), *(pl.col(c).alias(f"op.{c}") for c in IDENTITY)
    )
    joined = rows.join(above, on="parent", how="left", maintain_order="left")
    inside = (pl.col("kind") == "primitive") & pl.col("op.name").is_not_null()
    return joined.with_columns(
        pl.when(inside).then(pl.col(f"op.{c}")).otherwise(pl.col(c)).alias(c) for c in IDENTITY
    ).select(rows.columns)


def match(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """One row per pair: `title`, `matched_by`, and every sum of both sides (`a.…`, `b.…`)."""
    pairs = []
    for level in LEVELS:
        paired, a, b = _join(a, b, list(level))
        if paired.height:
            pairs.append(paired.with_columns(pl.lit(" ".join(level)).alias("matched_by")))
    modules, a, b = _join(a, b, list(PARTS[0]))
    if modules.height:
        title = pl.format("(kernels of {})", "title").alias("title")
        pairs.append(modules.with_columns(title, pl.lit(BY_MODULE).alias("matched_by")))
    pairs.append(_rest(a, b))
    return pl.concat(pairs)


def _join(
    a: pl.DataFrame, b: pl.DataFrame, keys: list[str]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Pairs by some keys, and what is left on both sides."""
    needed = pl.col(keys[0]).is_not_null()
    left, right = _summed(a.filter(needed), keys, "a"), _summed(b.filter(needed), keys, "b")
    paired = left.join(right, on=keys, how="inner", nulls_equal=True, maintain_order="left")
    found = paired.select(keys)
    a = a.join(found, on=keys, how="anti", nulls_equal=True, maintain_order="left")
    b = b.join(found, on=keys, how="anti", nulls_equal=True, maintain_order="left")
    if keys == list(PARTS[0]):
        part = pl.format("{}, {}", "module", _phase()).alias("title")
        paired = paired.with_columns(part, pl.lit(None, pl.String).alias("where"))
    return paired.select(_columns()), a, b


def _phase() -> pl.Expr:
    return pl.col("phase").fill_null("other")


def _rest(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """What nothing matched, phase by phase; a side without such rows has zeros."""
    sides = [
        _summed(table.with_columns(_phase()), ["phase"], side)
        for side, table in (("a", a), ("b", b))
    ]
    both = sides[0].join(
        sides[1], on="phase", how="full", coalesce=True, maintain_order="left_right"
    )
    title = pl.format("(unmatched kernels of {})", "phase").alias("title")
    # 0 where a side has no such rows; an unknown amount of rows that are there stays unknown.
    zeros = [
        pl.when(pl.col(f"{c[:2]}elapsed_s").is_not_null()).then(c).otherwise(0.0).alias(c)
        for c in both.columns
        if c.startswith(("a.", "b."))
    ]
    nowhere = pl.lit(None, pl.String).alias("where")
    return both.with_columns(title, nowhere, *zeros, pl.lit(BY_PART[1]).alias("matched_by")).select(
        [*_columns(), "matched_by"]
    )


def _columns() -> list[str]:
    return ["title", "where", *(f"{side}.{c}" for side in "ab" for c in (*SUMS, *AMOUNTS))]


def _summed(table: pl.DataFrame, keys: list[str], side: str) -> pl.DataFrame:
    sums = [pl.col(c).sum().alias(f"{side}.{c}") for c in SUMS]
    known = [
        pl.when(pl.col(c).null_count() == 0).then(pl.col(c).sum()).alias(f"{side}.{c}")
        for c in AMOUNTS
    ]
    longest = pl.col("title", "where").sort_by("elapsed_s", descending=True).first()
    named = [longest] if side == "a" else []
    return table.group_by(keys, maintain_order=True).agg(*sums, *known, *named)


# What the host does per op or kernel: Python, dispatch, autograd, issuing launches.
PER_LAUNCH = (
    IdleCause.LAUNCH_STARVED, IdleCause.PYTHON, IdleCause.AUTOGRAD, IdleCause.DISPATCH,
    IdleCause.RUNTIME,
)  # fmt: skip
CAUSES = ("work", "launches", "efficiency", "machine", "other")

# A sum of bounds counts as known if it covers this share of the seconds.
KNOWN_SHARE = 0.5
# So many times the work is no more of the same: the first side's seconds do not scale to it.
WILD_RATIO = 10.0


def with_causes(pairs: pl.DataFrame, launch_cost_ratio: float) -> pl.DataFrame:
    """Add one column per cause; they sum to `delta_s`."""
    pairs = pairs.with_columns(
        (pl.col("b.elapsed_s") - pl.col("a.elapsed_s")).alias("delta_s"),
        *((pl.col(f"{s}.elapsed_s") - pl.col(f"{s}.launch_s")).alias(f"{s}.rest_s") for s in "ab"),
        *(_known(side).alias(f"{side}.known") for side in "ab"),
    )
    pairs = pairs.with_columns(_launching(launch_cost_ratio)).with_columns(_work())
    left, launch_left = (
        pl.col("delta_s") - pl.sum_horizontal("work", "launches", "machine"),
        pl.col("launch_left"),
    )
    known = pl.when(pl.col("explained"))
    return pairs.with_columns(
        known.then(left).otherwise(launch_left).alias("efficiency"),
        known.then(0.0).otherwise(left - launch_left).alias("other"),
    )


def host_between(first: tuple[Totals, float], second: tuple[Totals, float]) -> float:
    """Seconds beside the kernels that another number of launches explains.

    The host's time per launch stays the first run's. Never more than what the host's time really
    changed by, nor in the other direction, nor more than changed beside the kernels at all.
    """
    (a, out_a), (b, out_b) = first, second
    if not a.launches or not b.launches:
        return 0.0
    before, after = (min(_host_s(t), max(0.0, out)) for t, out in (first, second))
    most_s = min(abs(after - before), abs(out_b - out_a))
    by_number = before * (b.launches / a.launches - 1)
    if by_number * (after - before) <= 0 or (after - before) * (out_b - out_a) <= 0:
        return 0.0
    return math.copysign(min(abs(by_number), most_s), by_number)


def _host_s(totals: Totals) -> float:
    return sum(totals.idle_by_cause.get(cause, 0.0) for cause in PER_LAUNCH)


def _known(side: str) -> pl.Expr:
    nothing = pl.col(f"{side}.elapsed_s") == 0
    share = pl.col(f"{side}.known_s") >= KNOWN_SHARE * pl.col(f"{side}.elapsed_s")
    return nothing | (share & (pl.col(f"{side}.work_s") > 0))


def _launching(cost_ratio: float) -> list[pl.Expr]:
    """Seconds of launching: by number, by the machine's cost, and what is left."""
    a, b = pl.col("a.launch_s"), pl.col("b.launch_s")
    n_a, n_b = pl.col("a.launches"), pl.col("b.launches")
    both = (n_a > 0) & (a > 0)
    by_number = pl.when(both).then(a * (n_b / n_a - 1)).otherwise(b / cost_ratio)
    by_cost = pl.when(both).then(a * n_b / n_a).otherwise(b / cost_ratio) * (cost_ratio - 1)
    left = (b - a) - by_number - by_cost
    return [by_number.alias("launches"), by_cost.alias("launch_machine"), left.alias("launch_left")]


def _work() -> list[pl.Expr]:
    """Seconds by the amount of work and by the machine, for the part that is not launching."""
    rest_a, rest_b = pl.col("a.rest_s"), pl.col("b.rest_s")
    here, moved, there = pl.col("a.work_s"), pl.col("b.work_other_s"), pl.col("b.work_s")
    known = pl.col("a.known") & pl.col("b.known")
    both = known & (pl.col("a.elapsed_s") > 0) & (pl.col("b.elapsed_s") > 0)
    one = known & ~both
    # A row that was all launching has no rest to scale: its work counts at the roof.
    bare = both & (rest_a <= 0)
    by_part = pl.col("matched_by").is_in(BY_PART)
    grown = both & (there > 0) & (moved > here) & (by_part | (moved > WILD_RATIO * here))
    work = first_of(
        (bare, moved - here),
        (grown, rest_b / there * (moved - here)),
        (both & (here > 0), rest_a * (moved / here - 1)),
        (one, rest_b - rest_a),
        otherwise=0.0,
    )
    machine = first_of(
        (bare, there - moved),
        (grown, rest_b / there * (there - moved)),
        (both & (here > 0) & (moved > 0), rest_a * moved / here * (there / moved - 1)),
        otherwise=0.0,
    )
    machine += pl.col("launch_machine")
    return [work.alias("work"), machine.alias("machine"), known.alias("explained")]


# What stays of a name between torch versions, backends and GPU generations.
#
# An op keeps its work when its overload, its in-place form or its backend's prefix changes, and a
# kernel when it is compiled for another architecture or with another tile. Three columns say so,
# from strict to loose: `plain_op` (no overload), `family` (one word for ops that do the same work)
# and `stem` (a kernel's name without architecture, tile, template and numbers).

# Families whose ops do the same work under different names.
_SAME_WORK = (
    *CONTRACTIONS, OpFamily.COPY, OpFamily.BATCH_NORM, OpFamily.NORM, OpFamily.SOFTMAX,
    OpFamily.MAX_POOL, OpFamily.OPTIMIZER,
)  # fmt: skip
# Words of architectures and libraries' generations in kernel names, and sizes of tiles.
_ARCHITECTURE = (
    r"\b(maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell|sm\d+[a-z]?|gfx\d\w*|cutlass"
    r"|nvjet|xmma|cudnn|cublas|cublaslt|v\d+|\d+(x\d+)*[a-z]?)\b"
)


def with_plain_names(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `plain_op`, `family` and `stem` to rows that have `op`, `op_family` and `name`.

    >>> rows = pl.DataFrame({"op": ["aten::add_.Tensor", "aten::cudnn_convolution", None],
    ...                      "op_family": ["elementwise", "convolution", "product"],
    ...                      "name": ["a", "b", "ampere_sgemm_128x64_nn"]})
    >>> [tuple(r) for r in with_plain_names(rows).select("plain_op", "family", "stem").rows()]
    [('add', 'add', 'a'), ('cudnn_convolution', 'convolution', 'b'), (None, None, 'sgemm nn')]
    """
    return rows.with_columns(_plain_op().alias("plain_op"), _stem().alias("stem")).with_columns(
        _family().alias("family")
    )


def _plain_op() -> pl.Expr:
    """The op without namespace, overload, leading underscores and the mark of in-place forms."""
    bare = pl.col("op").str.replace(r"^\w+(::|\.)", "").str.replace(r"\.\w+$", "")
    return bare.str.replace(r"^_+(\w)", "$1").str.replace(r"(\w)_$", "$1")


def _family() -> pl.Expr:
    """One word for ops that do the same work, forward and backward apart; else the op's own."""
    op = pl.col("plain_op")
    backward = pl.when(op.str.contains("backward")).then(pl.lit(" backward")).otherwise(pl.lit(""))
    same = op.is_not_null() & pl.col("op_family").is_in([family.value for family in _SAME_WORK])
    return pl.when(same).then(pl.col("op_family") + backward).otherwise(op)


def _stem() -> pl.Expr:
    """A kernel's name without what a compiler for another chip would change."""
    words = pl.col("name").str.to_lowercase().str.replace_all(r"_+", " ")
    words = words.str.replace_all(_ARCHITECTURE, "").str.replace_all(r"\s+", " ")
    stem = words.str.strip_chars(" ")
    return pl.when(stem.str.len_chars() >= 1).then(stem).otherwise(pl.col("name"))


# What the paired design of `model/stats` asks of a run: its deviation, and that of its rows.
#
# Rows have samples from timed steps, the whole run from unprofiled ones. Rows slow down together,
# so the deviations of a sum add; those of two runs add in squares.

# From run to run rows move together, if not within a run: this part of their deviations adds.
LEAST_TOGETHER = 0.7

# Rows of a profiler's file gather invocations of one kernel whatever their shapes: the spread of
# those samples is not noise. Rows of a run of ours, and units, hold repeats of the same work.
REPEATED_KINDS = ("op", "primitive", "unit")


def repeat_spread() -> pl.Expr:
    """The spread of repeats of the same work, null where samples are something else."""
    return pl.when(pl.col("kind").is_in(REPEATED_KINDS)).then(pl.col("time_spread"))


def deviation() -> pl.Expr:
    """How far a row's seconds of one run may be off, 0 where it is not known."""
    single = repeat_spread() * pl.col("time_s") / IQR_PER_DEVIATION
    samples = pl.col("samples").list.len().fill_null(0).cast(pl.Float64)
    averaged = pl.when(samples > 1).then(math.pi / 2 / samples).otherwise(1.0)
    kept = (averaged + LASTING).clip(upper_bound=1.0).sqrt()
    return (single * kept).fill_null(0.0)


def least_of_samples() -> pl.Expr:
    """A row's fastest sample, null where samples are not repeats of the same work."""
    return pl.when(pl.col("kind").is_in(REPEATED_KINDS)).then(pl.col("samples").list.min())


def step_samples(totals: Totals) -> list[float]:
    """Seconds of single unprofiled steps, none where the run has no steps."""
    return totals.steps.samples if totals.steps is not None else []


def pace_shift(a: Totals, b: Totals) -> float:
    """The share by which the machine's own pace lets times of the second run differ."""
    return stats.pace_shift(*(t.steps.pace_samples if t.steps is not None else [] for t in (a, b)))


def far_apart(a: Totals, b: Totals) -> bool:
    """Whether the unprofiled steps of two runs differ beyond any doubt that their spread leaves."""
    return stats.far_apart(step_samples(a), step_samples(b))


def run_least_s(totals: Totals, measured_s: float) -> float:
    """The fastest unprofiled step of a run of `measured_s`; where there are few, these seconds."""
    samples = step_samples(totals)
    return min(*samples, measured_s) if len(samples) >= 2 else measured_s


def run_deviation_s(totals: Totals, rows: pl.DataFrame) -> float | None:
    """How far the seconds of a whole run may be off: from unprofiled steps, else from its rows.

    None where nothing tells; 0 is a run whose samples are all the same.
    """
    samples = step_samples(totals)
    return stats.run_deviation_s(samples) if len(samples) >= 2 else rows_deviation_s(rows)


def rows_deviation_s(rows: pl.DataFrame) -> float | None:
    """How far the sum of some rows may be off; None where no row has a spread.

    Where all rows have a sample of every step, the steps' sums tell, but never less than a part
    of what it were if all rows slowed down together: from run to run they do.
    """
    repeated = rows.filter(repeat_spread().is_not_null())
    if not repeated.height:
        return None
    added_s = float(repeated["deviation_s"].sum())
    counts = repeated["samples"].list.len().unique().to_list()
    if len(counts) != 1 or (counts[0] or 0) < 4:
        return added_s
    steps = repeated.select("samples", pl.int_ranges(0, counts[0]).alias("step"))
    sums = steps.explode("samples", "step").group_by("step").agg(pl.col("samples").sum())
    samples = sums.sort("step")["samples"].to_list()
    middle = statistics.median(samples)
    scale = float(repeated["time_s"].sum()) / middle if middle > 0 else 1.0
    return max(LEAST_TOGETHER * added_s, stats.run_deviation_s(samples) * scale)


def drift(pairs: pl.DataFrame, least_s: float) -> Drift:
    """Drift between two runs, from the fastest samples of the rows that both have.

    Small rows are left out: their ratios scatter by the clock's resolution.
    """
    large = pl.min_horizontal("a.least_s", "b.least_s") >= least_s
    rows = pairs.filter(large & (least_s > 0))
    return stats.drift((rows["b.least_s"] / rows["a.least_s"]).to_list())
