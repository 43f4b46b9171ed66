"""What one op costs that does next to nothing: the price of launching, through torch."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import NamedTuple

from timeroof.core.errors import trace_ignored
from timeroof.core.machine import LAUNCH, Ceiling
from timeroof.probe.measurement import Figure
from timeroof.probe.sampling import Plan, Samples, sample

# Tensors in one call of a loop inside torch: enough that the call itself is nothing.
LOOP = 1000

Clock = Callable[[], float]


class LaunchCost(NamedTuple):
    """Launches per second of an op that does next to nothing."""

    what: str
    figure: Figure
    python_loop: bool = False


def why_no_torch() -> str | None:
    """None where torch can be imported, else why it cannot: absent, or present and broken."""
    try:
        if importlib.util.find_spec("torch") is None:
            return "torch is not installed"
        import torch  # noqa: F401
    except Exception as error:  # a library of its own that fails to load raises anything
        trace_ignored("torch cannot be loaded")
        reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
        return f"torch cannot be loaded ({reason})"
    return None


def timed(function: Callable[[], object], clock: Clock) -> Callable[[int], float]:
    """A `run` for sampling: seconds of so many calls in a Python loop."""

    def run(repetitions: int) -> float:
        turns = range(repetitions)
        start = clock()
        for _ in turns:
            function()
        return clock() - start

    return run


class TorchLaunches:
    """Costs of torch ops on one element, sampled in several turns. Between the turns other things
    are measured: a disturbance of a second spoils one turn only."""

    def __init__(self, plan: Plan, clock: Clock = time.perf_counter) -> None:
        self._plan, self._clock = plan, clock
        self._calls = _calls()
        self._found: dict[str, Samples] = {}

    def take(self) -> None:
        """One turn at every op."""
        import torch

        with torch.no_grad():
            for what, call in self._calls.items():
                samples = sample(timed(call, self._clock), self._plan)
                held = self._found.get(what)
                self._found[what] = held.joined(samples) if held else samples

    def costs(self) -> list[LaunchCost]:
        """What was found."""
        return [
            LaunchCost(what, Figure.of(samples, 1 if python else LOOP), python)
            for what, samples in self._found.items()
            for python in ["python" in what]
        ]


def _calls() -> dict[str, Callable[[], object]]:
    """Ops on one element: from C++, where foreach functions are loops on a CPU, and from Python."""
    import torch

    ones, others = ([torch.ones(1) for _ in range(LOOP)] for _ in range(2))
    one = torch.ones(1)
    return {
        "torch zero_, C++ loop": lambda: torch._foreach_zero_(ones),
        "torch neg_, C++ loop": lambda: torch._foreach_neg_(ones),
        "torch copy_, C++ loop": lambda: torch._foreach_copy_(ones, others),
        "torch zero_, python loop": one.zero_,
        "torch neg_, python loop": one.neg_,
        "torch add, python loop": lambda: one + one,
    }


def launch_ceiling(costs: list[LaunchCost]) -> Ceiling | None:
    """The ceiling `launch`: the cheapest op from a loop without Python; the rest as variants."""
    native = [cost for cost in costs if not cost.python_loop]
    if not native:
        return None
    best = max(native, key=lambda cost: cost.figure.rate_per_s)
    source = f"{best.what}: one op on one element, best of samples"
    rates = {cost.what: cost.figure.rate_per_s for cost in costs}
    return best.figure.ceiling(LAUNCH, source, threads=1, variants=rates)
