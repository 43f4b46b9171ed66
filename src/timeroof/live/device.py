"""A program on a GPU: its kernels from the traces of its steps, read as trace files are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import polars as pl

from timeroof.core.machine import Machine
from timeroof.core.profile import Profile, in_unprofiled_seconds
from timeroof.live.accounting import clean_durations_s
from timeroof.live.building import live_source, live_steps, own_notes, partial_notes
from timeroof.live.calls import compiled_cost
from timeroof.live.recording import CompiledKernel, Described, Recording
from timeroof.live.rows import matrix_units
from timeroof.machines.catalogue import machine_of_device
from timeroof.read.load import read_files
from timeroof.work.cost import amounts as amounts_of
from timeroof.work.recorded import with_recorded_work

DEVICE_KINDS = ("kernel", "collective", "copy", "memset")


def device_profile(
    recording: Recording, machine: Machine | None, command: str | None
) -> tuple[Profile, Machine | None] | None:
    """The device's kernels of a typical step, and its machine; None where no kernel was seen. A
    machine that is named wins; else it is the one that the trace names."""
    read = [read_files([path]) for path in recording.device_traces]
    seen = [p for p in read if p.kernels["kind"].is_in(DEVICE_KINDS).any()]
    if not seen:
        return None
    typical = sorted(seen, key=lambda p: p.wall_s or 0.0)[len(seen) // 2]
    chosen = machine or (machine_of_device(typical.device) if typical.device else None)
    counted = with_compiled(with_recorded_work(typical, chosen), recording.compiled, chosen)
    table = counted.kernels.with_columns(pl.lit(recording.rank, pl.Int64).alias("rank"))
    clean = clean_durations_s(recording.clean)
    steps = live_steps(recording, median(clean) if clean else None, typical.wall_s)
    source = live_source(recording, command)
    notes = (*own_notes(recording), *counted.notes, *partial_notes(recording))
    profile = replace(counted.with_kernels(table), source=source, steps=steps, notes=notes)
    return in_unprofiled_seconds(profile), chosen


def with_compiled(
    profile: Profile, compiled: Sequence[CompiledKernel], machine: Machine | None
) -> Profile:
    """Amounts of Inductor's kernels by name: one name may stand for one kernel only."""
    known = {k.name: k for k in compiled if not k.symbolic}
    times = Counter(k.name for k in compiled)
    rows = profile.kernels
    names = [n for n in rows["name"].unique().to_list() if n in known and times[n] == 1]
    if not names:
        return profile
    lines = [_amounts(known[name], machine) for name in names]
    found = pl.DataFrame(lines, infer_schema_length=None)
    joined = rows.join(found, on="name", how="left", suffix=".compiled", maintain_order="left")
    filled = []
    for column in found.columns[1:]:
        is_new = column not in rows.columns
        value = pl.col(column if is_new else f"{column}.compiled")
        if not column.startswith(("op", "origin.")):
            value = value * pl.col("calls")
        filled.append((value if is_new else pl.coalesce(value, pl.col(column))).alias(column))
    return profile.with_kernels(
        joined.with_columns(filled).drop(pl.selectors.ends_with(".compiled"))
    )


def _amounts(kernel: CompiledKernel, machine: Machine | None) -> dict[str, object]:
    cost = compiled_cost(kernel, Described(kernel.name, None, 0, -1, 0, "", (), ()))
    amounts: dict[str, object] = {"name": kernel.name, "op": " + ".join(kernel.ops)}
    amounts |= dict(amounts_of(cost, matrix_units(machine)))
    return amounts | {"origin.flops": "counted", "origin.bytes/dram": "counted"}
