"""Counters of a vendor's profiler for a case: they take the place of what shapes say.

The driver's side runs a worker that does one case under the profiler; the worker's side marks
what is counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from timeroof.core.children import Child
from timeroof.core.errors import UsageError
from timeroof.core.machine import DRAM, Machine
from timeroof.core.profile import ORIGIN, amount_columns
from timeroof.counters import CollectOptions, collect, counted_region, repetitions
from timeroof.counters.join import is_one_unit
from timeroof.counters.tools import find_tool
from timeroof.study.case import Order, OwnFunction, Plan, Result

# A short case is run so often that its counts stand out of the program around it.
LEAST_S = 0.2
MOST_EXECUTIONS = 1000
TIMES_THE_LIMIT = 4
# A reading below what the case must have read is taken again so often.
MOST_READINGS = 3


@dataclass
class Counting:
    """Counts measured cases with a profiler, which must be there. With `once` a case is counted on
    one number of threads, and its other cases take what was counted."""

    tool: str
    plan: Plan
    machine: Machine | None = None
    own: Mapping[str, OwnFunction] = field(default_factory=dict)
    rounds: int = CollectOptions.rounds
    once: bool = False
    _counted: dict[str, CaseCounts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a missing tool at once."""
        find_tool(self.tool)

    def __call__(self, result: Result) -> Result:
        """A result with what was counted in the place of what shapes say."""
        key = msgspec.structs.replace(result.case, threads=1).key("", "")
        if not self.once or key not in self._counted:
            self._counted[key] = self._read(result)
        counts = self._counted[key]
        notes = "; ".join(counts.notes)
        label = {"counters": f"{self.tool}: {notes}" if notes else self.tool}
        return msgspec.structs.replace(counts.merged(result), labels=result.labels | label)

    def _read(self, result: Result) -> CaseCounts:
        """What a case came to; readings that cannot be are taken again."""
        largest = self.machine.largest_cache_bytes if self.machine is not None else None
        least, counts = least_bytes(result, largest or 0), CaseCounts()
        for _ in range(MOST_READINGS):
            counts = self._collected(result)
            moved = counts.amounts.get(DRAM)
            if moved is None or moved >= least:
                return counts
        return counts.without_bytes(
            f"{self.tool} counted fewer DRAM bytes than the input has, {MOST_READINGS} times: bytes"
            " are modelled"
        )

    def _collected(self, result: Result) -> CaseCounts:
        machine, one_s = self.machine, statistics.median(result.samples_s)
        architecture = None
        if machine is not None and machine.kind == "gpu":
            architecture = machine.compute_capability or machine.architecture or None
        times = max(1, min(MOST_EXECUTIONS, round(LEAST_S / max(one_s, 1e-7))))
        whose = self.own.get(result.case.kernel)
        order = msgspec.json.encode(Order(cases=[result.case], plan=self.plan, own=whose)).decode()
        child = Child("timeroof.study.worker", ("count", order, str(times)))
        return collect_case(
            self.tool,
            child.command,
            executions=times,
            architecture=architecture,
            options=CollectOptions(
                cache="keep" if result.case.cache == "warm" else "flush",
                timeout_s=TIMES_THE_LIMIT * self.plan.limit_s,
                surroundings=child.environment,
                rounds=self.rounds,
            ),
        )


def least_bytes(result: Result, largest_cache_bytes: int) -> float:
    """Bytes that a case must have read from DRAM: its input, unless a cache may still hold it."""
    read = float(result.labels.get("input_bytes", 0))
    return read if result.case.cache == "cold" or read > largest_cache_bytes else 0.0


def counts_nothing(tool: str) -> bool:
    """Whether a profiler that is there counts neither FLOPs nor bytes on this machine. Found out by
    trying each event once; a want of permission is an error with its remedy."""
    if tool != "perf":
        return False
    from timeroof.counters.options import find_set
    from timeroof.counters.perf import known_selection
    from timeroof.counters.tools import chip_here

    chip = chip_here(tool)
    if chip is None:
        return True
    return not known_selection(find_tool(tool), find_set(tool, chip), CollectOptions()).selected


@dataclass(frozen=True)
class CaseCounts:
    """What one execution of a case did, as it was counted; null is unknown. `origins` are those of
    a row's `origin.<what>` columns: "flops", "bytes/dram". Only what was counted is here: the rest
    of a case stays as it was."""

    amounts: dict[str, float | None] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    # Kernels of a GPU that one execution launched; None where only the whole was counted.
    launches: float | None = None
    notes: tuple[str, ...] = ()

    def without_bytes(self, why: str) -> CaseCounts:
        """The same without bytes, which are not to be trusted."""
        kept = {name: v for name, v in self.amounts.items() if not name.startswith("byte/")}
        return replace(self, amounts=kept, notes=(*self.notes, why))

    def merged(self, result: Result) -> Result:
        """A result with counted amounts: FLOPs whole or not at all, bytes level by level.

        >>> from timeroof.study.case import Case
        >>> case = Case(kernel="gemm", params={}, pass_name="forward")
        >>> own = Result(case=case, status="done", amounts={"flop/fp32": 8.0, "byte/dram": 2.0})
        >>> CaseCounts({"flop/fp16": 9.0, "byte/dram": None}).merged(own).amounts
        {'byte/dram': 2.0, 'flop/fp32': 0.0, 'flop/fp16': 9.0}
        """
        flops = {k: v for k, v in self.amounts.items() if k.startswith("flop/")}
        moved = {k: v for k, v in self.amounts.items() if k.startswith("byte/") and v is not None}
        amounts, told = dict(result.amounts), [k.replace("byte", "bytes") for k in moved]
        if flops and None not in flops.values():
            amounts = {k: v for k, v in amounts.items() if not k.startswith("flop/")}
            amounts |= {"flop/fp32": 0.0} | flops
            told.append("flops")
        return msgspec.structs.replace(
            result,
            amounts=amounts | moved,
            origins=result.origins | {w: self.origins.get(w, "measured") for w in told},
            launches=result.launches if self.launches is None else self.launches,
        )


def collect_case(
    tool: str, command: list[str], *, executions: int = 1, architecture: str | None = None,
    options: CollectOptions | None = None,
) -> CaseCounts:  # fmt: skip
    """Run a worker of one case under a profiler; amounts are those of one execution. The worker
    prepares and warms up, then calls `count_executions(run, executions)` once, and ends. Errors are
    those of `collect`; what was stopped before its end counts nothing."""
    if executions < 1:
        raise UsageError(f"executions is {executions}", advice="use 1 or more")
    told = replace(options or CollectOptions(), region="profiler", subtract=tool == "perf")
    collected = collect(tool, command, architecture=architecture, options=told)
    if collected.interrupted:
        return CaseCounts(notes=collected.notes)
    kernels = collected.profile.kernels
    amounts = {
        # Unknown and something is unknown.
        c: None if kernels[c].null_count() else float(kernels[c].sum()) / executions
        for c in amount_columns(kernels)
    }
    origins = {
        c.removeprefix(ORIGIN): set(kernels[c].drop_nulls().to_list())
        for c in kernels.columns
        if c.startswith(ORIGIN) and c != f"{ORIGIN}time"
    }
    # An inferred part makes a sum inferred.
    one = {what: "inferred" if len(o) > 1 else o.pop() for what, o in origins.items() if o}
    whole = is_one_unit(collected.profile)
    calls = None if whole else float(kernels["calls"].sum()) / executions
    return CaseCounts(amounts, one, calls, collected.notes)


def count_executions(
    run: Callable[[], object], executions: int = 1, flush: Callable[[], object] | None = None
) -> None:
    """Inside the worker: the counted part, as often as `collect` asks for it.

    `flush` clears the caches before each execution. It runs as often in one repetition as in two,
    so that what it does cancels where one is taken from the other.
    """
    wanted = executions * repetitions()
    with counted_region():
        for place in range(wanted if flush is None else max(wanted, 2 * executions)):
            if flush is not None:
                flush()
            if place < wanted:
                run()
