"""What one op costs that does next to nothing: the price of launching, per framework."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

from timeroof.core.machine import Ceiling
from timeroof.core.resources import LAUNCH
from timeroof.probe.measurement import LaunchCost
from timeroof.probe.sampling import Plan, Samples, sample

# Tensors in one call of a loop inside torch: enough that the call itself is nothing.
LOOP = 1000

Clock = Callable[[], float]


def why_no_torch() -> str | None:
    """None where torch can be imported, else why it cannot: absent, or present and broken."""
    try:
        if importlib.util.find_spec("torch") is None:
            return "torch is not installed"
        import torch  # noqa: F401
    except Exception as error:  # a library of its own that fails to load raises anything
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
    """Costs of torch ops on one element, sampled in several turns.

    Between the turns other things are measured: a disturbance of a second spoils one turn only.
    """

    def __init__(self, plan: Plan, clock: Clock = time.perf_counter) -> None:
        import torch

        self._torch, self._plan, self._clock = torch, plan, clock
        self._found: dict[str, tuple[Samples, int]] = {}
        self._calls = [
            *((what, call, LOOP) for what, call in _native_loops(torch).items()),
            *((what, call, 1) for what, call in _python_calls(torch).items()),
        ]

    def take(self) -> None:
        """One turn at every op."""
        with self._torch.no_grad():
            for what, call, ops in self._calls:
                samples = sample(timed(call, self._clock), self._plan)
                held = self._found.get(what)
                self._found[what] = held[0].joined(samples) if held else samples, ops

    def compile(self) -> str | None:
        """Take a compiled call into the turns from now on; why not where it cannot be."""
        call, note = _compiled_call(self._torch)
        if call is not None:
            self._calls.append(("torch.compile call", call, 1))
        return note

    def costs(self) -> list[LaunchCost]:
        """What was found."""
        return [
            _cost(what, samples, ops, python=ops == 1)
            for what, (samples, ops) in self._found.items()
        ]


def _native_loops(torch: Any) -> dict[str, Callable[[], object]]:
    """Ops called one after another from C++: on a CPU, the foreach functions are such loops."""
    ones = [torch.ones(1) for _ in range(LOOP)]
    others = [torch.ones(1) for _ in range(LOOP)]
    return {
        "torch zero_, C++ loop": lambda: torch._foreach_zero_(ones),
        "torch neg_, C++ loop": lambda: torch._foreach_neg_(ones),
        "torch copy_, C++ loop": lambda: torch._foreach_copy_(ones, others),
    }


def _python_calls(torch: Any) -> dict[str, Callable[[], object]]:
    one = torch.ones(1)
    return {
        "torch zero_, python loop": one.zero_,
        "torch neg_, python loop": one.neg_,
        "torch add, python loop": lambda: one + one,
    }


def _compiled_call(torch: Any) -> tuple[Callable[[], object] | None, str | None]:
    """A compiled function of one op, whose code is that op: what is left is the guards.

    A back end of our own, so that no compiler is needed and none of its wrappers is timed:
    the least that any torch.compile'd call costs.
    """
    one = torch.ones(1)

    def keep(_graph: Any, _inputs: Any) -> Callable[..., Any]:
        return lambda *tensors: (tensors[0].neg_(),)

    try:
        function = torch.compile(lambda tensor: tensor.neg_(), backend=keep)
        function(one)
    except Exception as error:  # a torch that cannot compile is no failure here
        return None, f"torch.compile does not work here ({type(error).__name__}): not measured"
    return (lambda: function(one)), None


def _cost(what: str, samples: Samples, ops: int, *, python: bool) -> LaunchCost:
    return LaunchCost(
        framework="torch",
        what=what,
        python_loop=python,
        best_s=samples.best_s / ops,
        p25_s=samples.quantile_s(0.25) / ops,
        median_s=samples.median_s / ops,
        p75_s=samples.quantile_s(0.75) / ops,
        p95_s=samples.quantile_s(0.95) / ops,
        samples=len(samples.times_s),
    )


def launch_ceiling(costs: list[LaunchCost]) -> Ceiling | None:
    """The ceiling `launch`: the cheapest op from a loop without Python; the rest as variants."""
    native = [cost for cost in costs if not cost.python_loop]
    if not native:
        return None
    best = min(native, key=lambda cost: cost.best_s)
    return Ceiling(
        resource=LAUNCH,
        rate=1.0 / best.best_s,
        origin="measured",
        threads=1,
        spread=(best.p75_s - best.p25_s) / best.median_s,
        source=f"{best.what}: one op on one element, best of {best.samples} samples",
        variants={cost.what: 1.0 / cost.best_s for cost in costs},
    )
