"""Judge a profile on a machine: amounts / rates = bounds, and the largest bound limits.

Pure and columnar: ten rows and ten million go the same way. Every word is
defined in docs/model.md.
"""

from __future__ import annotations

import polars as pl

from timeroof.core import columns
from timeroof.core.columns import columns_from, flop_columns, owed_flops, owed_share, ratio
from timeroof.core.errors import CONTENDED, UNTRUSTED, Note, as_notes
from timeroof.core.machine import DRAM, FAULT, LAUNCH, PIPES, Ceiling, Machine, Scope
from timeroof.core.profile import Profile
from timeroof.core.report import BOUND, RoofPair, Verdicts
from timeroof.core.units import resource_words
from timeroof.model import bounds as of
from timeroof.model.bounds import combined_bound, where_settled

# Precisions so narrow that few programs meet their ceilings.
_NARROW = ("flop/int8", "flop/fp8", "flop/fp4")


def headline_pair(
    profile: Profile, roofs: dict[str, Ceiling], compute: str | None = None
) -> RoofPair | None:
    """The highest compute ceiling among the precisions that the run uses, and DRAM.

    A run without FLOPs takes the highest that deep learning mostly meets; one whose source has
    no DRAM bytes takes the slowest memory level that it has. `compute` names the compute roof.
    """
    amounts = profile.amount_columns
    all_flops = flop_columns(list(roofs))
    used = [r for r in flop_columns(amounts) if r in roofs and _is_used(profile, r)]
    usual = [r for r in all_flops if not r.startswith(_NARROW)]
    candidates = [compute] if compute is not None else used or usual or all_flops
    levels = [a for a in amounts if a.startswith("byte/") and a in roofs]
    if not candidates:
        return None
    slowest = min(levels, key=lambda r: roofs[r].rate, default=DRAM)
    highest = max(candidates, key=lambda r: (roofs[r].rate if r in roofs else 0.0, r))
    return RoofPair(highest, DRAM if DRAM in levels else slowest)


def scope_for(threads: int | None, machine: Machine | None) -> Scope:
    """One thread is judged on one core's ceilings, where the machine has them."""
    if threads == 1 and machine is not None and any(c.scope == "core" for c in machine.ceilings):
        return "core"
    return "all"


def judge(
    profile: Profile,
    machine: Machine | None,
    *,
    pair: RoofPair | None = None,
    roof: str | None = None,
    scope: Scope = "all",
) -> Verdicts:
    """Bounds, limiter, gap and efficiency of every row; without a machine all are null.

    `pair` are the roofs of the time coordinates; by default the run's headline pair, with
    `roof` as its compute ceiling where one is named.
    """
    roofs = machine.roofs(scope) if machine is not None else {}
    pair = pair or headline_pair(profile, roofs, roof)
    asynchronous = machine is None or machine.launching == "asynchronous"
    amounts = profile.amount_columns
    starting = of.starting_s(machine, profile.kernels.columns)
    table = (
        profile.kernels.lazy()
        .with_columns(_bounds(amounts, roofs))
        .with_columns(_partial_bounds(amounts, roofs))
        .with_columns(
            combined_bound(
                *map(pl.col, ("work_bound_s", "fault_bound_s", "overhead_time_s")),
                asynchronous=asynchronous,
            ).alias("bound_s"),
            (pl.col("time_s") + pl.col("idle_before_s").fill_null(0.0)).alias("elapsed_s"),
        )
        .with_columns(_pair_bounds(amounts, roofs, pair))
        .with_columns(of.limiter(amounts, roofs, starting).alias("limiter"))
        .with_columns(of.with_pipes(amounts, roofs).alias("bound_s"))
        .with_columns(
            # What the unknown amounts would bound is unknown too: no gap is claimed for it.
            where_settled(_gap()).alias("gap_s"),
            where_settled(ratio("work_bound_s", "time_s")).alias("kernel_efficiency"),
            where_settled(ratio("bound_s", "elapsed_s")).alias("efficiency"),
            _intensity(amounts).alias("ai"),
            *time_coordinates(*map(pl.col, ("compute_at_roof_s", "memory_at_roof_s", "time_s"))),
            _inside_box().alias("inside_overhead_box"),
        )
        .with_columns(
            _paper_class().alias("paper_class"),
            of.above_roof_cause(
                profile.kernels.columns, roofs, machine, waited=_waited(profile)
            ).alias("above_roof"),
        )
        .select(_verdict_columns(amounts, roofs))
        .collect()
    )
    return Verdicts(table, roofs, pair, asynchronous, _notes(profile, machine, roofs))


def _waited(profile: Profile) -> bool:
    """Whether other programs had the CPUs while the rows were timed."""
    return any(note.code in (CONTENDED, UNTRUSTED) for note in as_notes(profile.notes))


def _bounded(amounts: list[str], roofs: dict[str, Ceiling]) -> list[str]:
    return [a for a in amounts if a in roofs]


def _bounds(amounts: list[str], roofs: dict[str, Ceiling]) -> list[pl.Expr]:
    owed = owed_share(amounts)
    bounds = [
        (pl.col(a) * (owed if a.startswith("flop/") else 1.0) / roofs[a].rate).alias(f"{BOUND}{a}")
        for a in _bounded(amounts, roofs)
    ]
    bounds += [pl.col(pipe).alias(f"{BOUND}{pipe}") for pipe in PIPES if pipe in amounts]
    if LAUNCH in roofs:
        bounds.append((pl.col("launches") / roofs[LAUNCH].rate).alias(f"{BOUND}{LAUNCH}"))
    return bounds


def _partial_bounds(amounts: list[str], roofs: dict[str, Ceiling]) -> list[pl.Expr]:
    work = [f"{BOUND}{a}" for a in _bounded(amounts, roofs) if a != FAULT]
    null = pl.lit(None, pl.Float64)
    fault = pl.col(f"{BOUND}{FAULT}") if FAULT in _bounded(amounts, roofs) else null
    launch = pl.col(f"{BOUND}{LAUNCH}") if LAUNCH in roofs else null
    return [
        of.work_bound(work).alias("work_bound_s"),
        fault.alias("fault_bound_s"),
        launch.alias("overhead_time_s"),
    ]


def _pair_bounds(
    amounts: list[str], roofs: dict[str, Ceiling], pair: RoofPair | None
) -> list[pl.Expr]:
    """Compute and memory seconds at the pair's roofs: a complexity point's coordinates."""
    compute = memory = pl.lit(None, pl.Float64)
    if pair is not None and pair.compute in roofs:
        compute = owed_flops(amounts) / roofs[pair.compute].rate
    if pair is not None and pair.memory in roofs and pair.memory in amounts:
        memory = pl.col(pair.memory) / roofs[pair.memory].rate
    return [compute.alias("compute_at_roof_s"), memory.alias("memory_at_roof_s")]


def _gap() -> pl.Expr:
    """Seconds above the bound; never below 0 for a row that launching outlasts."""
    gap = pl.col("elapsed_s") - pl.col("bound_s")
    return pl.when(_inside_box()).then(pl.max_horizontal(gap, 0.0)).otherwise(gap)


def _inside_box() -> pl.Expr:
    return pl.col("time_s") <= pl.col("overhead_time_s")


def _intensity(amounts: list[str]) -> pl.Expr:
    if DRAM not in amounts:
        return pl.lit(None, pl.Float64)
    return pl.when(pl.col(DRAM) > 0).then(owed_flops(amounts) / pl.col(DRAM))


def time_coordinates(compute_s: pl.Expr, memory_s: pl.Expr, time_s: pl.Expr) -> list[pl.Expr]:
    """Run time on the two axes of the time plane: the larger is T, and AI keeps its direction.

    `compute_s` and `memory_s` are the work at two roofs; which roofs is up to the caller: the
    pair of a report, or what somebody chose for a chart.
    """
    slowest = pl.max_horizontal(compute_s, memory_s)
    known = compute_s.is_not_null() & memory_s.is_not_null() & (slowest > 0)
    longer = pl.when(compute_s > memory_s)
    at = {
        "compute_time_s": longer.then(time_s).otherwise(time_s * compute_s / memory_s),
        "bandwidth_time_s": longer.then(time_s * memory_s / compute_s).otherwise(time_s),
    }
    return [pl.when(known).then(seconds).alias(name) for name, seconds in at.items()]


def _paper_class() -> pl.Expr:
    compute, memory = pl.col("compute_at_roof_s"), pl.col("memory_at_roof_s")
    return columns.first_of(
        (pl.col("inside_overhead_box"), "overhead"),
        (compute.is_null() | memory.is_null(), pl.lit(None, pl.String)),
        (compute > memory, "compute"),
        otherwise="bandwidth",
    )


def _verdict_columns(amounts: list[str], roofs: dict[str, Ceiling]) -> list[str]:
    bounded = [*_bounded(amounts, roofs), *(p for p in PIPES if p in amounts)]
    bounded += [LAUNCH] if LAUNCH in roofs else []
    return ["id", *(f"{BOUND}{a}" for a in bounded), *(c.name for c in columns_from("verdict"))]


def _notes(
    profile: Profile, machine: Machine | None, roofs: dict[str, Ceiling]
) -> tuple[Note, ...]:
    if machine is None:
        words = "No machine is known for this profile, so nothing is bounded; name one with"
        return (Note(f"{words} --machine.", "no-machine", "warning"),)
    amounts = [a for a in profile.amount_columns if a not in PIPES]
    used = [a for a in amounts if _is_used(profile, a)]
    notes = [
        Note(no_ceiling(machine, resource), "no-ceiling")
        for resource in [*used, LAUNCH]
        if resource not in roofs
    ]
    notes += [
        Note(
            f"{resource_words(r)} is emulated on {machine.name} and compared with the"
            f" {resource_words(unit)} ceiling.",
            "emulated",
        )
        for r, unit in machine.emulated.items()
        if r in used and roofs.get(r) is roofs.get(unit)
    ]
    if machine.launching == "asynchronous" and profile.ran_on_a_cpu:
        words = (
            f"Measured on a CPU, compared with {machine.name}: bounds are for that device, times"
            " are from the CPU. `timeroof whatif` predicts times."
        )
        notes.append(Note(words, "other-device", "warning"))
    return tuple(notes)


def no_ceiling(machine: Machine, resource: str) -> str:
    """That a machine has no rate for a resource."""
    return f"{machine.name} has no ceiling for {resource_words(resource)}, so it sets no bound."


def _is_used(profile: Profile, resource: str) -> bool:
    return bool(profile.kernels.select((pl.col(resource) > 0).any()).item())


__all__ = ["RoofPair", "headline_pair", "judge", "owed_flops", "scope_for", "time_coordinates"]
