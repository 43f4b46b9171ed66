"""Counters of one case of a study: a worker that does one thing, counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from timeroof.core.errors import UsageError
from timeroof.core.profile import ORIGIN, Profile, amount_columns
from timeroof.counters.collect import collect, counted_region, repetitions
from timeroof.counters.join import is_one_unit
from timeroof.counters.options import CollectOptions


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


def count_executions(run: Callable[[], Any], executions: int = 1) -> None:
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
