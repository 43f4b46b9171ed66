"""From a recording to a profile: rows with times and amounts, the account, rungs, a timeline."""

from __future__ import annotations

import math
import mmap
import statistics
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import polars as pl

from timeroof.core.errors import PARTIAL, Note
from timeroof.core.machine import DRAM, Machine
from timeroof.core.profile import Framework as FrameworkUsed, Profile, Source, StepKind, Steps
from timeroof.core.run_file import LIVE_TOOL
from timeroof.core.vocabulary import IdleCause
from timeroof.live import accounting, rows as row_table
from timeroof.live.accounting import Account, Balance
from timeroof.live.calls import Counted
from timeroof.live.frameworks import Framework, framework_of
from timeroof.live.memory import Traffic
from timeroof.live.recording import CleanStep, Described, Recording, TimedStep
from timeroof.live.rows import Amounts, Rows, Total
from timeroof.model.judge import scope_for
from timeroof.work.recorded import RecordedCall
from timeroof_recorder.marks import WINDOW

# Page faults a step that come and go; fewer are not worth a word.
LEAST_CHANGING = 1000
# A smaller share of the ops is 0.0%: nothing to say.
LEAST_UNMATCHED = 0.0005
NO_WORK = "no op of the timed steps does any work (views, or tensors on the meta device)"


@dataclass(frozen=True)
class Work:
    """The described step: its ops with costs, phases and traffic."""

    ops: Sequence[Described]
    counted: Sequence[Counted]
    phases: Sequence[str]
    traffic: Traffic | None
    amounts: list[Amounts]


def build_profile(recording: Recording, machine: Machine | None, command: str | None) -> Profile:
    """The profile of an average step; empty, with notes, where no step was timed."""
    source = live_source(recording, command)
    steps = timed_steps(recording)
    if not steps:
        return _nothing(recording, source)
    framework = framework_of(recording.framework)
    steps = [accounting.with_stated(s, recording.described) for s in steps]
    quantile = accounting.busy_quantile(steps, recording.threads)
    # Beside others, what stands for an op is the step in which it had its CPU for itself.
    stretch = recording.event_stretch if quantile is None else 1.0
    cost_ns = (recording.event_cost_ns or 0.0) * stretch
    accounts = [framework.account(s, cost_ns) for s in steps]
    chosen = accounting.middle_half([s.duration_ns for s in steps])
    units = row_table.matrix_units(machine)
    work, rows = _described(recording, accounts, machine, units)
    timed = row_table.timed_rows(rows, work.ops, accounts)
    if not timed.calls.any():
        recording.why_nothing = NO_WORK
        return _nothing(recording, source)
    launches = row_table.launches_of(work.ops, work.counted)
    totals = row_table.totals_of(rows, work.amounts, launches, units)
    rate = machine.rate("fault", scope_for(recording.threads, machine)) if machine else None
    _add_faults(recording, rows, work, totals, rate)
    table = row_table.kernel_table(rows, timed, totals, chosen, quantile)
    rows_s = float(table["time_s"].sum())
    table = table.with_columns(pl.lit(recording.rank, pl.Int64).alias("rank"))
    table, more = framework.split(table, recording, rows, units, machine)
    found = accounting.balance(recording, accounts, chosen)
    idle = accounting.idle_seconds(accounts, chosen, quantile, rows_s)
    kernel_s = found.corrected_s - sum(idle.values())
    if quantile is not None:
        kernel_s, rest_s = rows_s, found.wall_s - rows_s - sum(idle.values())
        waited_s = rest_s if found.clean_s is None else accounting.cpu_wait_s(recording, rest_s)
        own_s = max(0.0, waited_s) * (recording.own_waiting or 0.0)
        idle[IdleCause.CPU_WAIT.value] += max(0.0, waited_s) - own_s
        idle[IdleCause.OWN_THREADS.value] = own_s
    typical = chosen[len(chosen) // 2]
    return Profile.of(
        table,
        source,
        threads=recording.threads,
        wall_s=found.wall_s,
        kernel_s=kernel_s,
        idle_by_cause={cause: s for cause, s in idle.items() if s > 0},
        unexplained_error_s=found.error_s,
        steps=msgspec.structs.replace(
            live_steps(recording, found.clean_s, found.timed_s), waits=framework.waits(steps)
        ),
        timeline=row_table.timeline(accounts[typical], timed.row_of_event[typical]),
        rungs=rungs(work, table),
        notes=(
            *notes_of(recording, rows, found, framework),
            *other_threads_notes(work.ops, launches, timed_steps(recording)),
            *more,
        ),
        calls=_calls_of_rows(rows, work),
    )


def _calls_of_rows(rows: Rows, work: Work) -> dict[int, RecordedCall]:
    """A call of each row that was described and does work, to explain its amounts by."""
    calls: dict[int, RecordedCall] = {}
    for row, counted in zip(rows.of_described, work.counted, strict=True):
        if row >= 0 and not counted.cost.free and not counted.without_tensors:
            calls.setdefault(row, RecordedCall(counted.call))
    return calls


def live_source(recording: Recording, command: str | None) -> Source:
    """What was run, and with which version of torch."""
    frameworks = [FrameworkUsed(name=n, version=v or None) for n, v in recording.frameworks]
    version = frameworks[0].version if frameworks else None
    return Source(tool=LIVE_TOOL, version=version, command=command, frameworks=frameworks)


def live_steps(recording: Recording, unprofiled_s: float | None, profiled_s: float | None) -> Steps:
    """The steps behind the rows, and those of other kinds."""
    count = recording.steps_seen
    kind = StepKind(name="step", count=count, median_s=unprofiled_s, share=1.0)
    return Steps(
        count=count,
        mark=recording.mark or recording.marker or None,
        unprofiled_s=unprofiled_s,
        profiled_s=profiled_s,
        samples=accounting.clean_durations_s(recording.clean),
        pace_samples=recording.pace,
        kinds=recording.kinds or ([kind] if count else []),
        profiling_s=recording.profiling_s,
    )


def timed_steps(recording: Recording) -> list[TimedStep]:
    """The timed steps; a block that ran once stands in where there are none."""
    if recording.timed:
        return recording.timed
    return [recording.block] if recording.block is not None and len(recording.block) else []


def _described(
    recording: Recording, accounts: Sequence[Account], machine: Machine | None, units: list[str]
) -> tuple[Work, Rows]:
    ops = recording.described
    framework = framework_of(recording.framework)
    counted = framework.count(ops, recording.compiled)
    found = framework.contexts(ops)
    phases = row_table.phases_of(ops, found, accounts)
    is_bounded = ops and machine is not None
    moved = framework.traffic(ops, counted, phases, machine) if is_bounded and machine else None
    work = Work(ops, counted, phases, moved, row_table.op_amounts(counted, moved, units))
    lines = recording.with_lines
    rows = row_table.described_rows(ops, counted, found, phases, recording.compiled, lines)
    rows.is_recurring = recording.marker == WINDOW
    return work, rows


def _add_faults(
    recording: Recording, rows: Rows, work: Work, totals: list[Total], fault_rate: float | None
) -> None:
    if not recording.clean or work.traffic is None:
        return
    usual = statistics.median(s.faults for s in recording.clean)
    faults = faults_in_bounds(recording.clean, 1 / fault_rate if fault_rate else 0.0)
    if usual - faults > LEAST_CHANGING:
        most = max(s.faults for s in recording.clean)
        recording.note(
            f"Page faults vary from {faults:.0f} to {most} per step (median {usual:.0f}); bounds"
            " use the minimum."
        )
    if not faults:
        return
    shares = share_faults(float(faults), work.traffic.fresh_bytes)
    for row, share in zip(rows.of_described, shares, strict=True):
        if row >= 0:
            amounts = totals[row].amounts
            amounts["fault"] = (amounts.get("fault") or 0.0) + share


def _nothing(recording: Recording, source: Source) -> Profile:
    empty = pl.DataFrame(schema={"name": pl.String, "time_s": pl.Float64})
    durations = [s.duration_ns / 1e9 for s in recording.clean]
    clean_s = statistics.median(durations) if durations else None
    steps = live_steps(recording, clean_s, None) if recording.steps_seen else None
    nothing = Note(why_nothing(recording), "nothing-measured", "warning")
    notes = (*own_notes(recording), nothing, *partial_notes(recording))
    return Profile.of(empty, source, wall_s=clean_s, steps=steps, notes=notes)


def why_nothing(recording: Recording) -> str:
    """Why there is nothing to show, and what to do."""
    if not recording.frameworks:
        return "Nothing was measured: the program imported neither torch nor jax nor tensorflow."
    if recording.why_nothing is not None:
        return recording.why_nothing
    if not recording.steps_seen:
        return (
            "No step was found: no optimizer step, no repeated call of a module. Call"
            " timeroof.step() after each step, or put the work in `with timeroof.profile():`."
        )
    if recording.marker == WINDOW:
        return (
            "Nothing marks a step, and no op ran in the thread that was looked at."
            " Call timeroof.step() after each turn of the loop."
        )
    seen = "1 step was" if recording.steps_seen == 1 else f"{recording.steps_seen} steps were"
    return (
        f"Only {seen} seen, none left to time after the warm-up. Run more steps or use --warmup 1."
    )


def own_notes(recording: Recording) -> list[Note]:
    """What was noted while the program ran."""
    return [t if isinstance(t, Note) else Note(t, "live") for t in recording.notes]


def partial_notes(recording: Recording) -> list[Note]:
    """That the program did not run to its end, where it did not."""
    if recording.partial is None:
        return []
    words = f"Partial: the program did not run to its end, {recording.partial}."
    return [Note(words, PARTIAL, "warning")]


def notes_of(recording: Recording, rows: Rows, found: Balance, framework: Framework) -> list[Note]:
    """What the reader has to know of how the numbers came about."""
    notes = [*partial_notes(recording), *own_notes(recording), *_step_notes(recording, found)]
    if not recording.described and recording.why_undescribed is None:
        words = "No step was described: shapes and amounts are unknown."
        notes.append(Note(words, "not-described", "warning"))
    elif recording.described and rows.unmatched:
        share = rows.unmatched / max(rows.events, 1)
        if share >= LEAST_UNMATCHED:
            words = f"{share:.1%} of the timed ops were not described: their amounts are unknown."
            notes.append(Note(words, "unmatched-ops"))
    is_unseen = framework.is_unseen_kernel
    if any(is_unseen(key.name) and row not in rows.fused for row, key in enumerate(rows.keys)):
        words = (
            "Some kernels were compiled before they could be looked at: their amounts are unknown."
        )
        notes.append(Note(words, "compiled-unseen"))
    if recording.uses_gpu:
        words = (
            "A GPU is in use, but no step with its kernels was recorded: the rows are the host's"
            " ops. Run more steps, or read a torch.profiler trace with `timeroof read`."
        )
        notes.append(Note(words, "no-device-kernels", "warning"))
    return notes


def _step_notes(recording: Recording, found: Balance) -> list[Note]:
    """How the steps behind the numbers were measured, where that matters."""
    if not recording.timed:
        words = (
            "The block was profiled as one piece, in one pass: its times are perturbed by the"
            " measuring."
        )
        return [Note(words, "block-once", "warning")]
    if found.clean_s is None:
        words = (
            "No unprofiled step was seen: the step time is that of profiled steps less profiler"
            " overhead."
        )
        return [Note(words, "no-unprofiled-step", "warning")]
    return []


# Page faults of a step on the account of the ops that write fresh memory.


# glibc hands out larger blocks from the kernel every time, and gives them back when freed;
# smaller ones it keeps (M_MMAP_THRESHOLD grows to this and no further).
ALWAYS_FRESH_BYTES = 32 << 20
# Below this an allocation comes from memory that the program has touched before.
LEAST_BYTES = 64 << 10
# Of a step, that page faults must take to be told from the allocator's ups and downs.
LEAST_SHARE = 0.05


def share_faults(faults: float, fresh_bytes: Sequence[Mapping[Hashable, int]]) -> list[float]:
    """Faults per op: blocks that are always fresh first, then the others, by their pages. No op
    gets more faults than it has pages; what is left over is nobody's."""
    page = mmap.PAGESIZE
    left = faults
    found = [0.0] * len(fresh_bytes)
    for low, high in ((ALWAYS_FRESH_BYTES, math.inf), (LEAST_BYTES, ALWAYS_FRESH_BYTES)):
        pages = [sum(-(-b // page) for b in f.values() if low <= b < high) for f in fresh_bytes]
        total = sum(pages)
        if total and left > 0:
            share = min(1.0, left / total)
            found = [f + share * p for f, p in zip(found, pages, strict=True)]
            left -= share * total
    return found


def faults_in_bounds(clean: Sequence[CleanStep], fault_s: float) -> float:
    """Page faults a step that bounds count: the usual number if it matters, else the fewest. How
    many pages an allocator gives back and takes again changes from step to step and from run to
    run. Where that is a small part of a step, it must not decide what an op is bound by."""
    usual = statistics.median(step.faults for step in clean)
    step_s = statistics.median(step.duration_ns for step in clean) / 1e9
    return usual if usual * fault_s >= LEAST_SHARE * step_s else min(s.faults for s in clean)


# Ops in threads that the profiler does not follow.


NAMED = 3


def other_threads_notes(
    ops: Sequence[Described], launches: Sequence[int], steps: Sequence[TimedStep]
) -> list[Note]:
    """A warning where a described step has ops that work in threads in which no timed step has any.
    torch's profiler is switched on for the thread that steps, and autograd's. To switch it on for
    all would end programs whose ops run on while it is switched off."""
    followed = {int(thread) for step in steps for thread in set(step.thread.tolist())}
    names = Counter(
        op.name for op, n in zip(ops, launches, strict=True) if n and op.thread not in followed
    )
    if not names or not followed:
        return []
    shown = ", ".join(name for name, _ in names.most_common(NAMED))
    more = ", …" if len(names) > NAMED else ""
    words = (
        f"Other threads of the program ran ops during a step ({names.total()}: {shown}{more})."
        " Their time and work are in no row: only the thread that steps is timed."
    )
    return [Note(words, "other-threads", "warning")]


# The ladder's lower rungs: each phase as one kernel, and the whole step as one.


FLOPS = ("flop/", "padding_flops")


def rungs(work: Work, table: pl.DataFrame) -> pl.DataFrame | None:
    """Rows `fused` (one per phase that works) and `ideal`; None without tensor identities. Fusing
    never needs more memory traffic than the ops one by one have in their caches."""
    found, amounts = work.traffic, work.amounts
    if found is None or not amounts:
        return None
    names = sorted({n for amount in amounts for n in amount if n.startswith(FLOPS)})
    fused: dict[str, dict[str, float]] = {}
    for phase in dict.fromkeys(work.phases):
        places = [i for i, p in enumerate(work.phases) if p == phase]
        in_caches = float(found.by_level["dram"][places].sum())
        moved = min(float(found.ladder.phases[phase].total_bytes), in_caches)
        owed = _owed([amounts[i] for i in places], names, moved)
        if any(owed.values()):
            fused[phase] = owed
    if not fused:
        return None
    least = min(float(found.ladder.step.total_bytes), sum(owed[DRAM] for owed in fused.values()))
    times = dict(table.group_by("phase").agg(pl.col("time_s").sum()).iter_rows())
    lines = [_rung("fused", phase, times.get(phase, 0.0), owed) for phase, owed in fused.items()]
    whole_s = float(table["time_s"].sum())
    lines.append(_rung("ideal", None, whole_s, _owed(amounts, names, least)))
    return pl.DataFrame(lines, infer_schema_length=None)


def _owed(amounts: Sequence[Amounts], names: Sequence[str], moved: float) -> dict[str, float]:
    return {DRAM: moved} | {n: float(sum(a.get(n) or 0.0 for a in amounts)) for n in names}


def _rung(name: str, phase: str | None, time_s: float, owed: dict[str, float]) -> dict[str, object]:
    once = {"kind": "unit", "calls": 1.0, "launches": 1.0}
    return {"name": name, **once, **owed, "phase": phase, "time_s": time_s}
