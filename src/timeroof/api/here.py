"""The machine that a live run is judged on: the named one, or this one, measured once."""

from __future__ import annotations

from collections.abc import Callable

from timeroof.api.reports import machine as find_machine
from timeroof.core.children import Child
from timeroof.core.machine import Machine
from timeroof.model.judge import scope_for

__all__ = ["HERE", "machine_for", "scope_for"]

HERE = "here"
LIMIT_S = 180


def machine_for(
    name: str | Machine | None, told: Callable[[str], None] | None = None
) -> tuple[Machine | None, list[str]]:
    """A machine, and notes on how it came about; None where this one cannot be measured."""
    if isinstance(name, Machine):
        return name, []
    if name not in (None, HERE):
        return find_machine(str(name)), []
    try:
        return _this_machine(told)
    except Exception as error:  # a report without bounds is better than none
        return None, [f"this machine could not be measured ({error}): nothing is bounded"]


def _this_machine(told: Callable[[str], None] | None) -> tuple[Machine, list[str]]:
    from timeroof.probe.measure import cached_machine

    found = cached_machine()
    if found is not None:
        return found, []
    if told is not None:
        told("measuring this machine once (a few seconds)")
    # In a process of its own: the program may hold memory, threads and settings of torch.
    done = Child("timeroof.probe.measure_here").run(capture_output=True, timeout=LIMIT_S)
    found = cached_machine()
    if found is None:
        reason = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason"])[-1]
        raise RuntimeError(reason)
    return found, ["the machine was measured quickly; `timeroof machine` measures it in full"]
