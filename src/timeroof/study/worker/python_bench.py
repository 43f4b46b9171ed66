"""A function of the user's that uses no framework: its time is measured, its work is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from timeroof.core.machine import Machine
from timeroof.study import case as k
from timeroof.study.case import Case, Plan, Result, Status
from timeroof.study.worker.counting import nothing_seen
from timeroof.study.worker.own import PYTHON, Own, OwnError
from timeroof.study.worker.results import result_of
from timeroof.study.worker.sampling import Entrant, Sampled
from timeroof.study.worker.turns import Turns

CONTAINS = "what make returned, called once; no framework ran, so FLOPs and bytes are unknown"


@dataclass
class Ready:
    """A case that can be run."""

    run: Callable[[], object]
    entrant: Entrant
    working_set_bytes: int = 0


class Bench:
    """Cases of a function that no framework runs."""

    def __init__(self, machine: Machine | None, own: Own | None = None) -> None:
        self._own = own

    def measure(
        self, cases: Sequence[Case], plan: Plan, beat: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        """Measure cases in turns, and hand over a result of each in their order."""
        return Turns(self).measure(cases, plan, beat)

    def refusal(self, case: Case) -> str | None:
        """Why a case cannot run here."""
        if case.pass_name != k.FORWARD:
            return "gradients need torch, JAX or TensorFlow; this function uses none of them"
        if case.cache == "cold" or case.variant != "eager":
            return "a function without a framework runs with warm caches and as it is written"
        return None

    def use_threads(self, count: int) -> None:
        """Threads are the function's own."""

    def outcome(self, error: Exception) -> tuple[Status, str]:
        """What an error means."""
        first = (str(error).strip().splitlines() or [""])[0][:500]
        return "failed", f"{type(error).__name__}: {first}".removesuffix(": ")

    def clear(self, cases: Sequence[Case]) -> None:
        """Nothing is kept."""

    @contextmanager
    def ready(self, case: Case) -> Iterator[Ready]:
        """A case made ready."""
        if self._own is None:
            raise OwnError("only a function of your own runs without a framework")
        made = self._own.made(case.params)

        def run() -> object:
            return made.function(*made.inputs, **made.named)

        yield Ready(run, Entrant(run))

    def result(self, case: Case, ready: Ready, sampled: Sampled) -> Result:
        """Samples; what one execution used is unknown."""
        count = nothing_seen(f"a framework ({PYTHON} only)")
        labels = {
            "contains": CONTAINS,
            "executions_per_sample": str(sampled.executions_per_sample),
            "uncounted": ", ".join(count.uncounted),
        }
        return result_of(case, sampled, count, labels)
