"""Row by row: the time on another machine and the interval around it (rule in `project`)."""

from __future__ import annotations

import polars as pl

from timeroof.core.machine import Machine
from timeroof.core.resources import FAULT, LAUNCH, limiter_kind
from timeroof.core.verdict import BOUND

# A resource is in play if its bound is this part of the row's largest …
IN_PLAY = 0.05
# … and efficiency may change by this factor at least and at most.
LEAST_CHANGE, MOST_CHANGE = 1.25, 2.0


def project_rows(
    kernels: pl.DataFrame,
    now: pl.DataFrame,
    then: pl.DataFrame,
    floor_s: pl.Series,
    *,
    here: Machine,
    there: Machine,
    drop_idle: bool,
    changed: bool,
) -> pl.DataFrame:
    """Bounds, prediction and interval of every row."""
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
            "bound_s": floor_s,
            "work_now": _largest(now, common),
            "work_then": _largest(then, [*common, *new]),
            "launch_now": now["overhead_time_s"],
            "launch_then": then["overhead_time_s"],
            "efficiency": now["kernel_efficiency"],
        }
    )
    extremes = _extremes(now, then, common)
    same = not changed and _same_roofs(here, there)
    table = table.with_columns(extremes).with_columns(
        (pl.col("elapsed_s") - pl.col("time_s")).alias("idle_s"),
        _change_factor(table, same=same).alias("change"),
    )
    table = _predicted(table, here, there, drop_idle=drop_idle)
    return _interval(table).select(
        "id", "elapsed_s", "limiter_now", "limiter", "bound_s", "predicted_s", "low_s", "high_s"
    )


def _work_bounds(table: pl.DataFrame) -> list[str]:
    beside = (f"{BOUND}{LAUNCH}", f"{BOUND}{FAULT}")
    return [c for c in table.columns if c.startswith(BOUND) and c not in beside]


def _largest(table: pl.DataFrame, columns: list[str]) -> pl.Series:
    if not columns:
        return pl.Series([None] * table.height, dtype=pl.Float64)
    return table.select(pl.max_horizontal(columns)).to_series()


def _extremes(now: pl.DataFrame, then: pl.DataFrame, work: list[str]) -> list[pl.Series]:
    """The least and the largest ratio among a row's resources in play."""
    if not work:
        nothing = pl.Series([None] * now.height, dtype=pl.Float64)
        return [nothing.alias("ratio_low"), nothing.alias("ratio_high")]
    both = pl.concat(
        [now.select(work), then.select(pl.col(c).alias(f"then.{c}") for c in work)],
        how="horizontal",
    )
    largest = pl.max_horizontal(work)
    ratios = [
        pl.when((pl.col(c) > 0) & (pl.col(c) >= IN_PLAY * largest)).then(
            pl.col(f"then.{c}") / pl.col(c)
        )
        for c in work
    ]
    found = both.select(
        pl.min_horizontal(ratios).alias("ratio_low"), pl.max_horizontal(ratios).alias("ratio_high")
    )
    return found.get_columns()


def _change_factor(table: pl.DataFrame, *, same: bool) -> pl.Expr:
    """By which efficiencies of rows with the same limiter differ today."""
    if same:
        return pl.lit(1.0)
    factors: dict[str, float] = {}
    for limiter in table["limiter_now"].unique().to_list():
        kind = limiter_kind(limiter)
        alike = table.filter(pl.col("limiter_now") == limiter, pl.col("efficiency") > 0)[
            "efficiency"
        ]
        low, high = alike.quantile(0.25), alike.quantile(0.75)
        spread = high / low if low and high and kind != "launch" else LEAST_CHANGE
        factors[limiter] = min(max(spread, LEAST_CHANGE), MOST_CHANGE)
    return pl.col("limiter_now").replace_strict(factors, return_dtype=pl.Float64)


def _predicted(
    table: pl.DataFrame, here: Machine, there: Machine, *, drop_idle: bool
) -> pl.DataFrame:
    """Add the predicted time and the ratios of rows that nothing is known of."""
    work_ratio = pl.when(pl.col("work_now") > 0).then(pl.col("work_then") / pl.col("work_now"))
    launch_ratio = pl.when(pl.col("launch_now") > 0).then(
        pl.col("launch_then") / pl.col("launch_now")
    )
    launching = (pl.col("launch_now") > pl.col("work_now").fill_null(0.0)).fill_null(False)
    table = table.with_columns(
        launching.alias("launching"),
        launch_ratio.alias("launch_ratio"),
        work_ratio.alias("work_ratio"),
    ).with_columns(
        pl.when(launching).then(launch_ratio.fill_null(1.0)).otherwise(work_ratio).alias("ratio")
    )
    table = table.with_columns(pl.col("ratio").fill_null(_overall(table)))
    table = table.with_columns(
        pl.when(pl.col("launching"))
        .then(pl.col("ratio"))
        .otherwise(pl.col(end).fill_null(pl.col("ratio")))
        .alias(end)
        for end in ("ratio_low", "ratio_high")
    )
    idle = pl.lit(0.0) if drop_idle else pl.col("idle_s") * pl.col("launch_ratio").fill_null(1.0)
    return table.with_columns(
        (busy_there(name, here, there) + idle).alias(out)
        for name, out in (
            ("ratio", "predicted_s"),
            ("ratio_low", "least_s"),
            ("ratio_high", "most_s"),
        )
    )


def _overall(table: pl.DataFrame) -> float:
    """How all rows with a ratio scale together; 1 where none has one."""
    known = table.filter(pl.col("ratio").is_not_null())
    time_s = float(known["time_s"].sum())
    return float((known["time_s"] * known["ratio"]).sum()) / time_s if time_s else 1.0


def busy_there(ratio: str, here: Machine, there: Machine) -> pl.Expr:
    """Busy seconds on the other machine if work scales by a ratio.

    Where launching adds to the work (synchronous), only the rest scales. Written so that
    equal machines give the very same number.
    """
    scaled = pl.col("time_s") * pl.col(ratio)
    launch_now, launch_then = (
        pl.col("launch_now").fill_null(0.0),
        pl.col("launch_then").fill_null(0.0),
    )
    kept = pl.min_horizontal(launch_now, pl.col("time_s"))
    from_queue = here.launching == "asynchronous"
    to_queue = there.launching == "asynchronous"
    if from_queue and to_queue:
        return (
            pl.when(pl.col("launching"))
            .then(scaled)
            .otherwise(_at_least_launching(scaled, launch_now, launch_then))
        )
    if from_queue:
        return scaled + launch_then
    if to_queue:
        return pl.max_horizontal(scaled - kept * pl.col(ratio), launch_then)
    added = kept * pl.when(launch_now > 0).then(launch_then / launch_now).otherwise(1.0)
    return (
        pl.when(pl.col("launching")).then(scaled).otherwise(scaled + (added - kept * pl.col(ratio)))
    )


def _at_least_launching(scaled: pl.Expr, launch_now: pl.Expr, launch_then: pl.Expr) -> pl.Expr:
    """Work that has become shorter than launching takes as long as launching, where it was not."""
    was_longer = pl.col("time_s") >= launch_now
    return pl.when(was_longer).then(pl.max_horizontal(scaled, launch_then)).otherwise(scaled)


def _interval(table: pl.DataFrame) -> pl.DataFrame:
    """Ends that hold the prediction, not below the bound unless the prediction is."""
    low = pl.max_horizontal(pl.col("least_s") / pl.col("change"), pl.col("bound_s"))
    high = pl.col("most_s") * pl.col("change")
    return table.with_columns(
        pl.min_horizontal(low, "predicted_s").alias("low_s"),
        pl.max_horizontal(high, "predicted_s").alias("high_s"),
    )


def _same_roofs(here: Machine, there: Machine) -> bool:
    a, b = here.roofs(), there.roofs()
    rates = {r: c.rate for r, c in a.items()} == {r: c.rate for r, c in b.items()}
    return rates and here.launching == there.launching
