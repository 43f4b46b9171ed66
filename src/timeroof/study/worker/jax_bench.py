"""JAX's worker: one case from beginning to end, made ready, counted from the HLO that ran."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from timeroof.core.machine import Machine
from timeroof.study import kernel as k
from timeroof.study.case import Case, Plan, Result, Status
from timeroof.study.kernels import kernel as find_kernel
from timeroof.study.worker import xla_counting
from timeroof.study.worker.counting import Used
from timeroof.study.worker.jax_kernels import KERNELS, Made
from timeroof.study.worker.sampling import Entrant, Sampled
from timeroof.study.worker.turns import Turns, now

EAGER, COMPILED = "eager", "compiled"
VARIANTS = (EAGER, COMPILED)
_DTYPES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_PASSES = (k.FORWARD, k.BACKWARD, k.BACKWARD_INPUT, k.BACKWARD_WEIGHT)
_TIMES_THE_CACHE, _UNKNOWN_CACHE_BYTES = 2, 64 << 20
# The compiler repeats more than this of a case's own products: worth a word.
_SAME = 1e-9


@dataclass
class Ready:
    """A case that can be run."""

    run: Callable[[], object]
    entrant: Entrant
    working_set_bytes: int


class Bench:
    """JAX's cases on one machine."""

    def __init__(self, machine: Machine | None) -> None:
        self._machine = machine
        self._jax: Any = import_module("jax")
        self._flush: Callable[[], object] | None = None

    def measure(
        self, cases: Sequence[Case], plan: Plan, beat: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        """Measure cases in turns, and hand over a result of each in their order."""
        # The work is done by JAX's own threads, whose time is not that of the one that asks.
        alone = msgspec.structs.replace(plan, one_thread_beside_others=False)
        return Turns(self).measure(cases, alone, beat)

    def refusal(self, case: Case) -> str | None:
        """Why a case cannot run here."""
        kernel = find_kernel(case.kernel)
        if case.kernel not in KERNELS:
            return f"{case.kernel} has no form in JAX here: {', '.join(KERNELS)} have"
        if case.pass_name not in kernel.passes or case.pass_name not in _PASSES:
            return f"{case.kernel} has no pass {case.pass_name!r} in JAX"
        if case.precision not in _DTYPES:
            return f"{case.precision} is no format of JAX's arrays"
        if case.variant not in VARIANTS:
            return f"JAX has no variant {case.variant!r}: it has {', '.join(VARIANTS)}"
        if case.device != "cpu":
            return "cases of JAX run on the CPU here"
        return None

    def use_threads(self, count: int) -> None:
        """Run what follows on so many cores: JAX makes its threads once, when it starts."""
        use_cores(count)

    def outcome(self, error: Exception) -> tuple[Status, str]:
        """What an error of JAX means."""
        first = (str(error).strip().splitlines() or [""])[0][:500]
        text = f"{type(error).__name__}: {first}".removesuffix(": ")
        if "RESOURCE_EXHAUSTED" in text or isinstance(error, MemoryError):
            return "failed", f"out of memory ({first})"
        missing = isinstance(error, NotImplementedError) or "UNIMPLEMENTED" in text
        return ("unsupported" if missing else "failed"), text

    def clear(self, cases: Sequence[Case]) -> None:
        """The next cases must not find what was compiled."""
        self._jax.clear_caches()

    @contextmanager
    def ready(self, case: Case) -> Iterator[Ready]:
        """A case made ready."""
        if case.precision == "fp64":
            self._jax.config.update("jax_enable_x64", True)
        try:
            made = KERNELS[case.kernel](case.params, _random(case), case.variant == EAGER)
            called, given = self._pass(made, case)
            wait = self._jax.block_until_ready

            def run() -> object:
                return wait(called(*given))

            leaves = self._jax.tree_util.tree_leaves((given, run()))
            size = sum(getattr(leaf, "nbytes", 0) for leaf in leaves)
            flush = self._flusher() if case.cache == "cold" else None
            yield Ready(run, Entrant(run, flush), size)
        finally:
            self._jax.config.update("jax_enable_x64", False)

    def _pass(self, made: Made, case: Case) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The timed function of a pass and its arguments; the forward pass ran before backward."""
        jit = self._jax.jit if case.variant == COMPILED else lambda function: function
        if case.pass_name == k.FORWARD:
            return jit(made.function), (made.weights, *made.inputs)
        function, given = made.function, (made.weights, *made.inputs)
        if case.pass_name == k.BACKWARD_INPUT:
            function, given = (lambda *x: made.function(made.weights, *x)), made.inputs
        elif case.pass_name == k.BACKWARD_WEIGHT:
            function, given = (lambda w: made.function(w, *made.inputs)), (made.weights,)
        forward = jit(lambda *x: self._jax.vjp(function, *x))
        result, pull = forward(*given)
        backward = jit(lambda pull, gradient: pull(gradient))
        return backward, (pull, _random(case)(*result.shape).astype(result.dtype))

    def _flusher(self) -> Callable[[], object]:
        """A function that leaves nothing of a case in any cache, by reading more memory."""
        if self._flush is None:
            machine = self._machine
            cache = machine.largest_cache_bytes if machine is not None else None
            buffer = np.ones(_TIMES_THE_CACHE * (cache or _UNKNOWN_CACHE_BYTES) // 4, np.float32)
            self._flush = buffer.sum
        return self._flush

    def result(self, case: Case, ready: Ready, sampled: Sampled) -> Result:
        """Samples with what one execution used."""
        thunks = xla_counting.executed(ready.run, self._traced)
        count = xla_counting.used(thunks, self._machine, cold=case.cache == "cold")
        labels = labels_of(case, count, sampled, ready.working_set_bytes, "jax")
        return result_of(case, sampled, count, labels)

    def _traced(self, run: Callable[[], object], folder: str) -> None:
        profiler = self._jax.profiler
        options = profiler.ProfileOptions()
        options.python_tracer_level = 0
        with profiler.trace(folder, profiler_options=options):
            run()


def _random(case: Case) -> Callable[..., Any]:
    """Normal numbers in the case's format."""
    jnp: Any = import_module("jax.numpy")
    source = np.random.default_rng(1234)
    return lambda *shape: jnp.asarray(source.standard_normal(shape), _DTYPES[case.precision])


def use_cores(count: int) -> None:
    """Let all threads of this process run on so many of its cores."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(_ALL_CORES)[:count] or sorted(_ALL_CORES)
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError, ValueError):
            os.sched_setaffinity(int(thread.name), cores)


_ALL_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()


def labels_of(
    case: Case, count: Used, sampled: Sampled, working_set_bytes: int, framework: str
) -> dict[str, str]:
    """What is known of a case beside its amounts; executed against algorithmic work among it."""
    kernel = find_kernel(case.kernel)
    formula = kernel.contraction(case.params, case.pass_name)
    done, confidence = count.contraction_flops, sampled.confidence
    ratio = done / formula if formula and done is not None else None
    other = ratio is not None and abs(ratio - 1) > _SAME
    labels = {
        "contains": kernel.passes[case.pass_name],
        "working_set_bytes": str(working_set_bytes),
        "executions_per_sample": str(sampled.executions_per_sample),
        "confidence": None if confidence is None else f"{confidence:.4f}",
        "formula_flops": f"{formula:.0f}" if other else None,
        "executed_per_needed": f"{ratio:.4g}" if other else None,
        "uncounted": ", ".join(count.uncounted),
        "counted_on": "the compiled programs that ran (HLO)" if framework == "jax" else None,
    }
    return {name: text for name, text in labels.items() if text}


def result_of(case: Case, sampled: Sampled, count: Used, labels: dict[str, str]) -> Result:
    """A measured case."""
    amounts = dict(count.amounts)
    amounts["fault"] = statistics.median(sampled.faults)
    origins = {"time": "measured", "flops": "counted", "launches": "counted", "fault": "measured"}
    origins |= {f"bytes/{a.split('/')[1]}": "modelled" for a in amounts if a.startswith("byte/")}
    return Result(
        case=case,
        status="done",
        samples_s=sampled.samples_s,
        launches=count.launches,
        amounts=amounts,
        contraction_flops=count.contraction_flops,
        origins=origins,
        labels=labels,
        created=now(),
    )
