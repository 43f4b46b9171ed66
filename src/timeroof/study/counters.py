"""Counters of a vendor's profiler for a case: they take the place of what shapes say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from timeroof.core.children import Child
from timeroof.core.machine import Machine
from timeroof.counters import CollectOptions
from timeroof.counters.tools import find_tool
from timeroof.study.case import Plan, Result
from timeroof.study.counted_case import collect_case
from timeroof.study.worker.messages import Order

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
        child = Child("timeroof.study.worker.one_case", (order, str(times)))
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
