"""What it costs to launch: through torch, an op that does next to nothing, beside the ceilings.

JAX and TensorFlow: an op from Python, a call of a compiled function, a kernel inside one.
`python -m timeroof.probe.launch NAME` measures one in its own process; torch needs none.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from timeroof.core.children import Child
from timeroof.core.errors import trace_ignored
from timeroof.core.machine import LAUNCH, Ceiling, Machine, launch_variant
from timeroof.probe.sampling import Figure, Plan, Samples, sample

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


DISTRIBUTIONS = {"jax": ("jax",), "tensorflow": ("tensorflow", "tensorflow-cpu")}
# Products in the longer one of two functions: what they differ in is kernels alone.
CHAIN = 65
LIMIT_S = 120.0
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1", "JAX_PLATFORMS": "cpu"}


def version(framework: str) -> str | None:
    """The version of a framework, None where it is not installed; nothing is imported."""
    from importlib import metadata

    for name in DISTRIBUTIONS[framework]:
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return None


def with_frameworks(
    machine: Machine, costs_of: Callable[[str], dict[str, float] | None] | None = None
) -> tuple[Machine, list[str]]:
    """The machine with launch costs of the frameworks that are installed and that it has none of,
    or those of another version; and what could not be measured."""
    notes = []
    for framework in DISTRIBUTIONS:
        installed = version(framework)
        if installed is None or machine.software.get(framework) == installed:
            continue
        costs = (costs_of or measured_costs)(framework)
        if costs is None:
            notes.append(f"The launch cost of {framework} could not be measured.")
            continue
        machine = _with_costs(machine, framework, installed, costs)
    return machine, notes


def _with_costs(
    machine: Machine, framework: str, installed: str, costs: dict[str, float]
) -> Machine:
    rates = {launch_variant(framework, what): 1 / s for what, s in costs.items() if s > 0}
    ceilings = [
        msgspec.structs.replace(c, variants=c.variants | rates) if c.resource == LAUNCH else c
        for c in machine.ceilings
    ]
    software = machine.software | {framework: installed}
    return msgspec.structs.replace(machine, ceilings=ceilings, software=software)


def measured_costs(framework: str) -> dict[str, float] | None:
    """Seconds per op, call and kernel of a framework, measured in a process of its own."""
    child = Child("timeroof.probe.launch", (framework,), _QUIET)
    try:
        done = child.run(LIMIT_S)
        costs = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        return None
    return {str(what): float(seconds) for what, seconds in costs.items()}


def best_s(run: Callable[[], object]) -> float:
    """Seconds of one call, the best of several samples."""
    return sample(timed(run, time.perf_counter), Plan(sample_s=2e-3, most=40)).best_s


def jax_costs() -> dict[str, float]:
    """JAX: results are waited for, as the work of a CPU is then over."""
    jax = import_module("jax")
    one = jax.numpy.ones(1)
    short, long = (jax.jit(_chain(n)) for n in (1, CHAIN))
    wait = jax.block_until_ready
    return _costs(
        lambda: wait(one + one),
        lambda square: wait(short(square)),
        lambda square: wait(long(square)),
        jax.numpy.eye(4),
    )


def tensorflow_costs() -> dict[str, float]:
    """TensorFlow: an eager op, a function's graph, a node in it."""
    tf = import_module("tensorflow")
    one = tf.ones(1)
    short, long = (tf.function(_chain(n)) for n in (1, CHAIN))
    return _costs(lambda: one + one, short, long, tf.eye(4))


def _chain(products: int) -> Callable[[object], object]:
    def run(square: Any) -> Any:
        found = square
        for _ in range(products):
            found = found @ square
        return found

    return run


def _costs(
    op: Callable[[], object],
    short: Callable[[object], object],
    long: Callable[[object], object],
    square: object,
) -> dict[str, float]:  # fmt: skip
    for function in (short, long):  # compiling is not launching
        function(square)
    call_s, long_s = (best_s(lambda f=f: f(square)) for f in (short, long))  # type: ignore[misc]
    kernel_s = max(0.0, (long_s - call_s) / (CHAIN - 1))
    return {"op": best_s(op), "call": call_s, "kernel": kernel_s}


def main(framework: str) -> None:
    """Measure one framework and print what was found as JSON."""
    result = os.dup(1)
    os.dup2(2, 1)  # what a framework prints is not ours
    costs = {"jax": jax_costs, "tensorflow": tensorflow_costs}[framework]()
    os.write(result, json.dumps(costs).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
