"""From nvprof's rows to a profile: kernels, copies with their bytes, and the idle between."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source
from timeroof.read.launches import drop_impossible, rows_of_launches
from timeroof.read.nvidia.nvprof_values import is_activity, kind_of_name

TOOL = "nvprof"
PCIE = "link/pcie"
# Events of a timeline that is small enough to be kept and drawn.
MAX_TIMELINE = 100_000


@dataclass
class Found:
    """What a text held: rows with `name` and `time_s`, and what was said around them."""

    rows: pl.DataFrame
    command: str | None = None
    notes: list[str] = field(default_factory=list)


def profile_of_rows(found: Found, where: str) -> Profile:
    """A profile of summary rows or of single activities with their starts."""
    rows = found.rows.filter(is_activity() & pl.col("name").is_not_null())
    left_out = found.rows.height - rows.height
    notes = list(found.notes)
    if left_out:
        notes.append(f"{left_out} page faults and other events that are no work are left out.")
    rows, dropped = drop_impossible(_amounts(rows).filter(pl.col("time_s").is_not_null()))
    if not rows.height:
        raise InputError("has no kernel or copy with a time", where=where, advice="record it again")
    whole: dict[str, object] = {"notes": (*notes, *dropped)}
    if "start_s" in rows.columns:
        rows = _with_idle(rows)
        whole |= _seconds(rows)
    devices = rows["device"].drop_nulls().unique().to_list() if "device" in rows.columns else []
    whole["device"] = devices[0] if len(devices) == 1 else None
    kept = rows.drop("start_s", "end_s", "moved", strict=False)
    return Profile.of(rows_of_launches(kept), Source(tool=TOOL, command=found.command), **whole)


def _amounts(rows: pl.DataFrame) -> pl.DataFrame:
    """Bytes of copies: once in DRAM and once over the link, or twice in DRAM on the device."""
    rows = rows.with_columns(kind_of_name(), pl.lit("measured").alias("origin.time"))
    if "moved" not in rows.columns:
        return rows
    moved, name = pl.col("moved"), pl.col("name")
    inside = name.str.contains("DtoD")
    moving = pl.col("kind") == "copy"
    kernel = ~moving & (pl.col("kind") != "memset")
    return rows.with_columns(
        pl.when(~kernel).then(pl.when(inside).then(2 * moved).otherwise(moved)).alias("byte/dram"),
        pl.when(moving & ~inside).then(moved).otherwise(0.0).alias(PCIE),
    )


def _with_idle(rows: pl.DataFrame) -> pl.DataFrame:
    """The seconds that the device was idle before each activity."""
    rows = rows.sort("start_s", maintain_order=True).with_columns(
        (pl.col("start_s") + pl.col("time_s")).alias("end_s")
    )
    busy_until = pl.col("end_s").cum_max().shift(1)
    idle = (pl.col("start_s") - busy_until).clip(lower_bound=0.0).fill_null(0.0)
    return rows.with_columns(idle.alias("idle_before_s"))


def _seconds(rows: pl.DataFrame) -> dict[str, object]:
    """Wall seconds, and the union of the busy intervals within them."""
    first, last = rows["start_s"].min(), rows["end_s"].max()
    assert isinstance(first, float)
    assert isinstance(last, float)
    wall_s = last - first
    return {"wall_s": wall_s, "kernel_s": max(0.0, wall_s - float(rows["idle_before_s"].sum()))}
