"""Which resources a kernel uses at the same time, and which it must take in turn.

This is the only place that says so.

* FLOPs of every precision, bytes of every memory level, and links overlap: different
  units work at once, so together they take at least as long as the slowest (max).
* Page faults are handled while the kernel waits, but zeroing a page also moves its
  bytes towards the core: counting both in full could exceed the true time, so for a
  lower bound they overlap with the work (max).
* Launching overlaps with the work of earlier kernels where the device has a queue
  (asynchronous: max, the paper's rule). Where the caller itself runs the kernel
  (synchronous: a CPU in eager mode) it cannot launch and work at once (add).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from timeroof.core.columns import bytes_known, first_of, flops_known
from timeroof.core.machine import (
    DRAM,
    FAULT,
    LATENCY,
    LAUNCH,
    PIPES,
    Ceiling,
    Machine,
    launch_variant,
)
from timeroof.core.profile import LABEL, ORIGIN
from timeroof.core.report import BOUND

FAULT_BOUND = f"{BOUND}{FAULT}"
# Labels of cases of a study: what ran them, and how.
FRAMEWORK, VARIANT = f"{LABEL}framework", f"{LABEL}variant"


def combined_bound(
    work_s: pl.Expr, fault_s: pl.Expr, launch_s: pl.Expr, *, asynchronous: bool
) -> pl.Expr:
    """The lower bound on the time of a row from its partial bounds; nulls are left out."""
    busy = pl.max_horizontal(work_s, fault_s)
    if asynchronous:
        return pl.max_horizontal(busy, launch_s)
    return pl.sum_horizontal(busy, launch_s, ignore_nulls=True)


# Which rows are too small for their work to matter: starting them is what takes the time.
#
# On a device with a queue, launching takes at least as long as the work at the roof, and the
# kernels are only a few launches long. On a CPU the framework's own path is part of an op's time,
# and costs far more than the cheapest launch there can be: what an op from Python costs is measured
# by the probe, or taken as a microsecond. There a row is tiny if an op takes a few of those, most
# of it not work; and if it does no work at all (a view).

MOST_LAUNCH_TIMES = 4.0
MOST_OP_COSTS = 50.0
MOST_WORK = 0.5
# An op called from Python, where no probe has measured it.
USUAL_OP_COST_S = 1e-6


# The same of other frameworks, as measured on a server's CPU: an op from Python, a call of a
# compiled function, a kernel in it.
USUAL_COSTS_S = {
    ("jax", "op"): 5e-6, ("jax", "call"): 5e-6, ("jax", "kernel"): 0.8e-6,
    ("tensorflow", "op"): 1e-5, ("tensorflow", "call"): 1.5e-4, ("tensorflow", "kernel"): 0.7e-6,
}  # fmt: skip
# Ways of running in which a framework starts a whole program by one call.
ONE_CALL = ("compiled", "graph", "xla", "session")


def op_cost_s(machine: Machine | None, framework: str = "torch") -> float | None:
    """What starting one op costs as programs do it; on a queue, the smallest launch."""
    t0_s = machine.launch_overhead_s if machine is not None else None
    if machine is None or t0_s is None or machine.launching == "asynchronous":
        return t0_s
    if framework != "torch":
        return _framework_cost_s(machine, framework, "op")
    variants = machine.roofs()[LAUNCH].variants
    others = tuple(framework for framework, _ in USUAL_COSTS_S)
    own = {name.lower(): rate for name, rate in variants.items() if not name.startswith(others)}
    python = [1 / rate for name, rate in own.items() if "python" in name]
    return max([t0_s, *(python or [USUAL_OP_COST_S])])


def _framework_cost_s(machine: Machine, framework: str, what: str) -> float:
    """What a framework takes to start something, as it was measured, else as is usual."""
    rate = machine.roofs()[LAUNCH].variants.get(launch_variant(framework, what))
    return 1 / rate if rate else USUAL_COSTS_S.get((framework, what), USUAL_OP_COST_S)


def starting_s(machine: Machine | None, columns: Sequence[str]) -> pl.Expr | None:
    """What starting a row's launches takes as its framework does it; None where nobody knows."""
    cost_s = launch_cost_s(machine)
    if machine is None or cost_s is None:
        return None
    launches = pl.when(pl.col("launches") > 0).then(pl.col("launches")).otherwise(pl.col("calls"))
    usual = cost_s * launches
    if machine.launching == "asynchronous" or FRAMEWORK not in columns:
        return usual
    variant = pl.col(VARIANT) if VARIANT in columns else pl.lit("")
    found = usual
    for name in dict.fromkeys(framework for framework, _ in USUAL_COSTS_S):
        op, call, kernel = (_framework_cost_s(machine, name, w) for w in ("op", "call", "kernel"))
        whole = variant.is_in(ONE_CALL)
        own = pl.when(whole).then(call + kernel * launches).otherwise(op * launches)
        found = pl.when(pl.col(FRAMEWORK) == name).then(own).otherwise(found)
    return found


def is_tiny(machine: Machine | None, columns: Sequence[str]) -> pl.Expr:
    """Whether starting a row's kernels takes its time, not their work; of judged rows."""
    cost_s = op_cost_s(machine)
    if machine is None or cost_s is None:
        return pl.lit(False)
    # Unknown work is not small work.
    known = flops_known(columns) & bytes_known(columns)
    fault = [pl.col(FAULT_BOUND)] if FAULT_BOUND in columns else []
    work_s = pl.max_horizontal(pl.col("work_bound_s"), *fault, 0.0)
    launch_s = pl.col("overhead_time_s").fill_null(0.0)
    if machine.launching == "asynchronous":
        short = pl.col("time_s") <= MOST_LAUNCH_TIMES * cost_s * pl.col("launches")
        return known & (pl.col("launches") > 0) & (launch_s >= work_s) & short
    ops = pl.max_horizontal("launches", "calls")
    short = pl.col("time_s") <= MOST_OP_COSTS * cost_s * ops
    return known & short & (work_s <= MOST_WORK * pl.col("time_s"))


# Why a row may be faster than its roof: a flag with the likely cause, never a clip.

# How far beyond a roof chance, and a clock above the one the ceiling assumes, can carry.
NOISE_FACTOR = 1.03
CLOCK_FACTOR = 1.30

# Room for rounding when a time is compared with an equal bound.
ROUNDING = 1e-9

COUNTED = ("counted", "modelled", "inferred")
WAITING = "waiting for a CPU"


def above_roof_cause(
    columns: list[str], roofs: dict[str, Ceiling], machine: Machine | None, *, waited: bool = False
) -> pl.Expr:
    """The likely cause where time_s is below work_bound_s beyond the spread, else null.

    Only work counts: launching never puts a kernel above the roof. A row of 0 s was not timed
    finely enough to say anything. Of a program that `waited` for a CPU a row's time is a low
    quantile of its own: what is above the roof then is so by how waiting was taken out.
    """
    if waited:
        beyond = pl.col("work_bound_s") > NOISE_FACTOR * pl.col("time_s")
        is_above = (beyond & (pl.col("time_s") > 0)).fill_null(False)
        return pl.when(is_above).then(pl.lit(WAITING)).otherwise(pl.lit(None, pl.String))
    spread = pl.col("time_spread").fill_null(0.0)
    took_time = pl.col("time_s") > 0
    above = took_time & (pl.col("time_s") * (1 + spread + ROUNDING) < pl.col("work_bound_s"))
    excess = pl.col("work_bound_s") / pl.col("time_s")
    work = [c for c in columns if c in roofs and c.split("/")[0] in ("flop", "byte", "link")]
    causes = {r: _cause(r, columns, excess, roofs[r], machine) for r in work}
    limits = ((pl.col(f"{BOUND}{r}") == pl.col("work_bound_s"), causes[r]) for r in work)
    none = pl.lit(None, pl.String)
    return first_of((~above.fill_null(False), none), *limits, otherwise=None)


def _cause(
    resource: str, columns: list[str], excess: pl.Expr, ceiling: Ceiling, machine: Machine | None
) -> pl.Expr:
    head, _, tail = resource.partition("/")
    origin = f"{ORIGIN}flops" if head == "flop" else f"{ORIGIN}{head}s/{tail}"
    counted = pl.col(origin).is_in(COUNTED).fill_null(False) if origin in columns else pl.lit(False)
    shaky = pl.lit(ceiling.origin in COUNTED)
    small = excess <= NOISE_FACTOR
    if head == "byte":
        cache = machine.largest_cache_bytes if machine is not None else None
        per_call = pl.col(resource) / pl.col("calls")
        fits = per_call <= cache if cache is not None else pl.lit(False)
        likely = ((fits, "cache-resident"), (small, "noise"), (counted, "wrong count"))
        return first_of(*likely, otherwise="wrong ceiling")
    return first_of(
        (small, "noise"),
        (excess <= _room_below_theory(ceiling, machine), "wrong ceiling"),
        ((excess <= CLOCK_FACTOR) & pl.lit(head == "flop") & ~shaky, "boost clock"),
        (counted, "wrong count"),
        otherwise="wrong ceiling",
    )


def _room_below_theory(ceiling: Ceiling, machine: Machine | None) -> float:
    """By what factor a measured ceiling may be beaten before the hardware's own is; 0 if unknown.

    A product that reaches more than a measured ceiling, but not more than the units can do,
    shows that the ceiling was measured too low: on a busy machine, or by a poorer kernel.
    """
    if machine is None or ceiling.origin != "measured":
        return 0.0
    rates = [
        c.rate for c in machine.ceilings
        if (c.resource, c.scope, c.origin) == (ceiling.resource, ceiling.scope, "theoretical")
    ]  # fmt: skip
    return max(rates, default=0.0) / ceiling.rate * (1 + ROUNDING)


# What an amount that nobody knows does to a bound, a limiter, a total and a rule: all of it here.
#
# * A bound is what known amounts need. It stays a lower bound where others are unknown, but an
# amount of 0 beside unknown ones bounds nothing: then the bound is unknown, not 0.
# * A limiter is unknown unless FLOPs and DRAM bytes are known (of a collective what it sends), or
# a known bound already explains nearly all of the time.
# * Where amounts do not settle it, the vendor's own throughput percentages do: the larger pipe
# limits, and neither does where both are far below their peaks. One percentage without the other
# must explain nearly all of the time.
# * Gap and efficiency of a row without a limiter are unknown, and so is what a cure of its work
# gives back: no rule claims busy seconds of it. It keeps its time wherever rows are added up.
# * A sum over amounts is that of the known ones, and stands with the share of time that it
# covers.

UNKNOWN = "unknown"

# A known bound that explains this share of the time settles the limiter, whatever
# the amounts that are not known may be.
EXPLAINING_SHARE = 0.9
# Launching explains a row that takes at most so many launch costs per launch.
MOST_LAUNCH_COSTS = 2.0
# Pipes that are busy for less of the time do not limit it: Nsight Compute's own rule.
LEAST_BUSY = 0.6
# A largest bound below this share of the elapsed time explains nothing.
LEAST_EXPLAINED = 0.05


def launch_cost_s(machine: Machine | None) -> float | None:
    """What one launch takes as programs see it: no kernel is shorter than the device's floor."""
    cost_s = op_cost_s(machine)
    if machine is None or cost_s is None or machine.launching == "synchronous":
        return cost_s
    return max(cost_s, machine.kernel_floor_s or 0.0)


def work_bound(bounds: Sequence[str]) -> pl.Expr:
    """The largest of the bounds by work; nothing known to be done is no bound of the unknown."""
    if not bounds:
        return pl.lit(None, pl.Float64)
    largest = pl.max_horizontal(bounds)
    some_unknown = pl.any_horizontal(pl.col(b).is_null() for b in bounds)
    return pl.when((largest > 0) | ~some_unknown).then(largest)


def amounts_known(amounts: Sequence[str]) -> pl.Expr:
    """Whether what limits a row can be told: its FLOPs and bytes, or what a collective sends."""
    known = flops_known(amounts) & bytes_known(amounts)
    links = [a for a in amounts if a.startswith("link/")]
    if not links:
        return known
    sends = pl.sum_horizontal(links) > 0
    sent_known = pl.all_horizontal(pl.col(a).is_not_null() for a in links)
    return known | ((pl.col("kind") == "collective") & sends & sent_known)


def limiter(
    amounts: Sequence[str], roofs: Mapping[str, Ceiling], starting: pl.Expr | None
) -> pl.Expr:
    """The resource of the largest bound, `latency` where none explains the time, or `unknown`."""
    resources = [a for a in amounts if a in roofs] + ([LAUNCH] if LAUNCH in roofs else [])
    by_pipes = _busiest_pipe(amounts, roofs)
    if not resources:
        return by_pipes
    largest = pl.max_horizontal(f"{BOUND}{r}" for r in resources)
    unexplained = _unexplained(largest, roofs, starting)
    return first_of(
        (~_settled_by_work(amounts, resources), by_pipes),
        # What a link takes that has no ceiling, nobody knows: it may explain the time.
        (unexplained & _link_unbounded(amounts, roofs), UNKNOWN),
        (unexplained, LATENCY),
        # Known to do no work, not even a launch of its own: overhead, whatever the columns' order.
        (largest == 0, LAUNCH if LAUNCH in roofs else UNKNOWN),
        *((pl.col(f"{BOUND}{r}") == largest, r) for r in resources),
        otherwise=UNKNOWN,
    )


def _settled_by_work(amounts: Sequence[str], resources: Sequence[str]) -> pl.Expr:
    """Whether known amounts, or a bound that explains nearly all of the time, tell the limiter."""
    largest = pl.max_horizontal(f"{BOUND}{r}" for r in resources)
    explains = largest >= EXPLAINING_SHARE * pl.col("elapsed_s")
    return (amounts_known(amounts) | explains).fill_null(False) & largest.is_not_null()


def _busiest_pipe(amounts: Sequence[str], roofs: Mapping[str, Ceiling]) -> pl.Expr:
    """The limiter by a vendor's percentages, unknown where they are not there.

    Where only that of compute was collected, the bound of DRAM bytes stands for memory. It may be
    of a faster machine than the one that ran, so that it can settle memory, but no latency.
    """
    pipes = [p for p in PIPES if p in amounts]
    if not pipes:
        return pl.lit(UNKNOWN)
    both = pl.lit(len(pipes) == len(PIPES)) & pl.all_horizontal(pl.col(*pipes).is_not_null())
    shares = {p: pl.col(p) for p in pipes}
    if DRAM in amounts and DRAM in roofs:
        stands = pl.col(PIPES[1]).is_null() if PIPES[1] in pipes else pl.lit(True)
        shares[DRAM] = pl.when(stands).then(pl.col(f"{BOUND}{DRAM}"))
    busiest = pl.max_horizontal(shares.values())
    known = both | (pl.lit(DRAM in shares) & pl.all_horizontal(pl.col(*pipes).is_not_null()))
    least = pl.when(known).then(LEAST_BUSY).otherwise(EXPLAINING_SHARE) * pl.col("time_s")
    return first_of(
        (both.fill_null(False) & (busiest < least), LATENCY),
        (~(busiest >= least).fill_null(False), UNKNOWN),
        *((share == busiest, name) for name, share in shares.items()),
        otherwise=UNKNOWN,
    )


def with_pipes(amounts: Sequence[str], roofs: Mapping[str, Ceiling]) -> pl.Expr:
    """The bound of a judged row, with what its pipes take where they settled its limiter."""
    pipes = [p for p in PIPES if p in amounts]
    bound = pl.col("bound_s")
    if not pipes:
        return bound
    resources = [a for a in amounts if a in roofs] + ([LAUNCH] if LAUNCH in roofs else [])
    by_work = _settled_by_work(amounts, resources) if resources else pl.lit(False)
    by_pipes = ~by_work & is_settled()
    return pl.when(by_pipes).then(pl.max_horizontal(bound, *pipes)).otherwise(bound)


def _unexplained(
    largest: pl.Expr, roofs: Mapping[str, Ceiling], starting: pl.Expr | None
) -> pl.Expr:
    """Whether neither launching nor work explains the time of a row.

    What one launch costs is more than the bound has, which is of a loop without Python.
    """
    little = largest < LEAST_EXPLAINED * pl.col("elapsed_s")
    if LAUNCH not in roofs or starting is None:
        return little.fill_null(False)
    launching = pl.col(f"{BOUND}{LAUNCH}") == largest
    long = pl.col("time_s") > MOST_LAUNCH_COSTS * starting
    return pl.when(launching).then(long).otherwise(little).fill_null(False)


def _link_unbounded(amounts: Sequence[str], roofs: Mapping[str, Ceiling]) -> pl.Expr:
    """Whether a row sends over a link, or may, that bounds nothing: no ceiling, or no amount."""
    links = [a for a in amounts if a.startswith("link/")]
    open_ended = [pl.col(a).is_null() | ((pl.col(a) > 0) & (a not in roofs)) for a in links]
    return pl.any_horizontal(open_ended) if open_ended else pl.lit(False)


def is_settled() -> pl.Expr:
    """Whether a judged row has a limiter."""
    return pl.col("limiter") != UNKNOWN


def where_settled(value: pl.Expr) -> pl.Expr:
    """A number that only rows with a limiter have."""
    return pl.when(is_settled()).then(value)


# Whose an instant is where work of one device runs side by side: each instant counts once.
#
# Kernels take an instant before collectives, and collectives before copies and memsets; several
# of the same tier share it equally. So the exclusive seconds of all work add up to the time in
# which the device was busy, and those of collectives are the communication that nothing hides.
# Only the instants in which a piece of work runs alone of its tier can come back: while another
# one runs beside it, the device stays as long busy without it.

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def distinct(values: Ints) -> Ints:
    """The different values in order, as `np.unique`.

    Without counts numpy asks whether the array is masked, and imports `numpy.ma` for that: 10 ms.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    values, _ = np.unique(values, return_counts=True)
    return values


def rows_of_each(values: Ints) -> list[tuple[int, Ints]]:
    """Each different value and its rows: all are sorted once, none is looked for among all.

    >>> [(value, rows.tolist()) for value, rows in rows_of_each(np.array([3, 1, 3]))]
    [(1, [1]), (3, [0, 2])]
    """
    if not len(values):
        return []
    in_order = np.argsort(values, kind="stable")
    groups = np.split(in_order, np.flatnonzero(np.diff(values[in_order])) + 1)
    return [(int(values[rows[0]]), rows) for rows in groups]


# The first has an instant before the second, the second before the third.
KERNEL_TIER, COLLECTIVE_TIER, COPY_TIER = range(3)
_TIERS = {"collective": COLLECTIVE_TIER, "copy": COPY_TIER, "memset": COPY_TIER}


def tier_of(kind: str) -> int:
    """The tier of a kind of row.

    >>> tier_of("kernel"), tier_of("collective"), tier_of("memset")
    (0, 1, 2)
    """
    return _TIERS.get(kind, KERNEL_TIER)


class OwnTimes(NamedTuple):
    """Per piece of work: its share of the instants, and those that it has alone."""

    exclusive: Floats
    alone: Floats


def own_times(start: Floats, end: Floats, tier: Ints, device: Ints) -> OwnTimes:
    """How much of its device's time each piece of work has to itself, in the unit of the times.

    Two kernels share the second in which both run, and a collective has what they leave:

    >>> start, end = np.array([0.0, 1.0, 0.0]), np.array([2.0, 3.0, 5.0])
    >>> own = own_times(start, end, np.array([0, 0, 1]), np.zeros(3, np.int64))
    >>> own.exclusive.tolist(), own.alone.tolist()
    ([1.5, 1.5, 2.0], [1.0, 1.0, 2.0])
    """
    own = OwnTimes(np.zeros(len(start)), np.zeros(len(start)))
    for _, rows in rows_of_each(device):
        found = _of_one_device(start[rows], end[rows], tier[rows])
        own.exclusive[rows], own.alone[rows] = found
    return own


def _of_one_device(start: Floats, end: Floats, tier: Ints) -> OwnTimes:
    if _one_after_another(start, end):
        return OwnTimes(end - start, end - start)
    # Times since the first start lose no digits in the sums below.
    times = np.concatenate([start, end]) - start.min()
    order = np.argsort(times, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    begins, ends = place[: len(start)], place[len(start) :]
    lengths = np.diff(times[order])
    own = OwnTimes(np.zeros(len(start)), np.zeros(len(start)))
    for one in distinct(tier).tolist():
        rows = tier == one
        steps = np.zeros(len(order))
        steps[begins[rows]] += 1
        steps[ends[rows]] -= 1
        running = np.cumsum(steps)[:-1]
        for found, counts in zip(own, (running > 0, running == 1), strict=True):
            weights = np.where(counts, lengths / np.maximum(running, 1), 0.0)
            so_far = np.concatenate([[0.0], np.cumsum(weights)])
            found[rows] = so_far[ends[rows]] - so_far[begins[rows]]
        lengths = np.where(running > 0, 0.0, lengths)
    return own


def _one_after_another(start: Floats, end: Floats) -> bool:
    order = np.argsort(start, kind="stable")
    return bool((start[order][1:] >= end[order][:-1]).all())
