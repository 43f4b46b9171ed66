"""Counters of a vendor's profiler for a case: they take the place of what shapes say.

The driver's side runs a worker that does one case under the profiler; the worker's side marks
what is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from timeroof.core.children import Child
from timeroof.core.errors import UsageError
from timeroof.core.machine import Machine
from timeroof.core.profile import ORIGIN, Profile, amount_columns
from timeroof.counters import CollectOptions, collect, counted_region, repetitions
from timeroof.counters.join import is_one_unit
from timeroof.counters.tools import find_tool
from timeroof.study.case import Order, Plan, Result

# A short case is run so often that its counts stand out of the program around it.
LEAST_S = 0.2
MOST_EXECUTIONS = 1000
TIMES_THE_LIMIT = 4


def counting_with(tool: str, plan: Plan, machine: Machine | None) -> Callable[[Result], Result]:
    """A function that counts a measured case with a profiler; refuses a missing tool at once."""
    find_tool(tool)
    architecture = None
    if machine is not None and machine.kind == "gpu":
        architecture = machine.compute_capability or machine.architecture or None

    def count(result: Result) -> Result:
        times = _executions(result)
        order = msgspec.json.encode(Order(case=result.case, plan=plan)).decode()
        child = Child("timeroof.study.worker", ("count", order, str(times)))
        counts = collect_case(
            tool,
            child.command,
            executions=times,
            architecture=architecture,
            options=CollectOptions(
                cache="keep" if result.case.cache == "warm" else "flush",
                timeout_s=TIMES_THE_LIMIT * plan.limit_s,
                surroundings=child.environment,
            ),
        )
        label = {"counters": f"{tool}: {'; '.join(counts.notes)}" if counts.notes else tool}
        found = merged(result, counts.amounts, counts.origins, counts.launches)
        return msgspec.structs.replace(found, labels=found.labels | label)

    return count


def counts_nothing(tool: str) -> bool:
    """Whether a profiler that is there counts neither FLOPs nor bytes on this machine.

    Found out by trying each event once; a want of permission is an error with its remedy.
    """
    if tool != "perf":
        return False
    from timeroof.counters.perf import known_selection
    from timeroof.counters.sets import find_set
    from timeroof.counters.tools import chip_here

    chip = chip_here(tool)
    if chip is None:
        return True
    return not known_selection(find_tool(tool), find_set(tool, chip), CollectOptions()).selected


def _executions(result: Result) -> int:
    one_s = sorted(result.samples_s)[len(result.samples_s) // 2]
    return max(1, min(MOST_EXECUTIONS, round(LEAST_S / max(one_s, 1e-7))))


def merged(
    result: Result,
    amounts: Mapping[str, float | None],
    origins: Mapping[str, str],
    launches: float | None,
) -> Result:
    """A result with counted amounts: FLOPs whole or not at all, bytes level by level.

    >>> from timeroof.study.case import Case
    >>> case = Case(kernel="gemm", params={}, pass_name="forward")
    >>> own = Result(case=case, status="done", amounts={"flop/fp32": 8.0, "byte/dram": 2.0})
    >>> merged(own, {"flop/fp16": 9.0, "byte/dram": None}, {"flops": "measured"}, None).amounts
    {'byte/dram': 2.0, 'flop/fp32': 0.0, 'flop/fp16': 9.0}
    """
    flops = {k: v for k, v in amounts.items() if k.startswith("flop/")}
    new, told = dict(result.amounts), dict(result.origins)
    if flops and None not in flops.values():
        new = {k: v for k, v in new.items() if not k.startswith("flop/")}
        new |= {"flop/fp32": 0.0} | flops
        told["flops"] = origins.get("flops", "measured")
    for name, value in amounts.items():
        what = f"bytes/{name.partition('/')[2]}"
        if name.startswith("byte/") and value is not None:
            new[name] = value
            told[what] = origins.get(what, "measured")
    return msgspec.structs.replace(
        result,
        amounts=new,
        origins=told,
        launches=result.launches if launches is None else launches,
    )


@dataclass(frozen=True)
class CaseCounts:
    """What one execution of a case did, as it was counted; null is unknown.

    `origins` are those of a row's `origin.<what>` columns: "flops", "bytes/dram". Only what was
    counted is here: the rest of a case stays as it was.
    """

    amounts: dict[str, float | None] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    # Kernels of a GPU that one execution launched; None where only the whole was counted.
    launches: float | None = None
    notes: tuple[str, ...] = ()
    # Stopped before its end: the amounts are of a part, and none is given.
    interrupted: bool = False


def collect_case(
    tool: str,
    command: list[str],
    *,
    executions: int = 1,
    architecture: str | None = None,
    options: CollectOptions | None = None,
) -> CaseCounts:
    """Run a worker of one case under a profiler; amounts are those of one execution.

    The worker prepares and warms up, then calls `count_executions(run, executions)` once, and
    ends. Errors are those of `collect`; an interruption is marked.
    """
    if executions < 1:
        raise UsageError(f"executions is {executions}", advice="use 1 or more")
    told = replace(options or CollectOptions(), region="profiler", subtract=tool == "perf")
    collected = collect(tool, command, architecture=architecture, options=told)
    if collected.interrupted:
        return CaseCounts(notes=collected.notes, interrupted=True)
    profile = collected.profile
    amounts = {c: _total(profile, c) for c in amount_columns(profile.kernels)}
    per_execution = {c: None if v is None else v / executions for c, v in amounts.items()}
    origins = {c.removeprefix(ORIGIN): _origin(profile, c) for c in _origin_columns(profile)}
    calls = None if is_one_unit(profile) else float(profile.kernels["calls"].sum()) / executions
    return CaseCounts(per_execution, origins, calls, collected.notes)


def count_executions(run: Callable[[], object], executions: int = 1) -> None:
    """Inside the worker: the counted part, as often as `collect` asks for it."""
    with counted_region():
        for _ in range(executions * repetitions()):
            run()


def _total(profile: Profile, column: str) -> float | None:
    """A sum over all kernels; unknown and something is unknown."""
    values = profile.kernels[column]
    return None if values.null_count() else float(values.sum())


def _origin_columns(profile: Profile) -> list[str]:
    columns = [c for c in profile.kernels.columns if c.startswith(ORIGIN)]
    return [c for c in columns if c != f"{ORIGIN}time" and profile.kernels[c].drop_nulls().len()]


def _origin(profile: Profile, column: str) -> str:
    """One origin for all kernels: an inferred part makes the sum inferred."""
    found = set(profile.kernels[column].drop_nulls().to_list())
    return found.pop() if len(found) == 1 else "inferred"
