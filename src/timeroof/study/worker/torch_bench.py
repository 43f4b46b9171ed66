"""PyTorch's worker: one case from beginning to end, made ready, sampled, counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from timeroof.core.machine import Machine
from timeroof.live.recording import PrimitiveSeen
from timeroof.live.rows import launches_of
from timeroof.live.torch import count_ops
from timeroof.live.torch.primitive_rows import primitives_in
from timeroof.read.onednn import MOVERS
from timeroof.study import case as k
from timeroof.study.case import Case, Kernel, Plan, Result, Setting, Status, Workload
from timeroof.study.kernels import kernel as find_kernel
from timeroof.study.worker import torch_passes as passes
from timeroof.study.worker.counting import Used, describe, nothing_seen, used
from timeroof.study.worker.own import Own
from timeroof.study.worker.results import result_of
from timeroof.study.worker.sampling import Entrant, Sampled
from timeroof.study.worker.torch_passes import Context, OwnKernel, Runnable, runnable
from timeroof.study.worker.turns import Turns
from timeroof_recorder.torch.timing import PrimitivePass, Timing

TIMES_THE_CACHE = 2
# Where nobody knows the cache: larger than any that is common.
UNKNOWN_CACHE_BYTES = 64 << 20
_ALGORITHM = "alg:"
# "src:f32:a:blocked:aBcd16b::f0": a tensor of a primitive, and how it lies in memory.
_FORMAT = re.compile(r"\b(src|wei|dst|data)\w*:\w+:\w*:blocked:(\w+)")
_NOT_THERE = re.compile(
    r"not implemented for|not supported|unsupported|no kernel|not compiled with|could not create a"
    r" primitive|only supports|does not support",
    re.IGNORECASE,
)
_NO_MEMORY = re.compile(
    r"can't allocate memory|out of memory|cannot allocate|MemoryError", re.IGNORECASE
)
SEED = 1234


def flusher(machine: Machine | None, device: str) -> Callable[[], object]:
    """A function that leaves nothing of a case in any cache, by streaming through more memory. It
    reads: lines that it leaves behind are clean, so that the case does not pay for writing them
    back."""
    import torch

    cache = (machine.largest_cache_bytes if machine is not None else None) or UNKNOWN_CACHE_BYTES
    buffer = torch.ones(TIMES_THE_CACHE * cache // 4, dtype=torch.float32, device=device)
    return buffer.sum if device == "cpu" else lambda: buffer.sum().item()


def primitives_of(run: Callable[[], object]) -> list[PrimitiveSeen] | None:
    """The primitives of one execution; None where this torch has no oneDNN."""
    watching = PrimitivePass(Timing())
    if not watching.start():
        return None
    try:
        run()
    except BaseException:
        watching.abort()
        raise
    seen = watching.stop()
    return [] if seen is None else primitives_in(seen[1])


def primitive_labels(found: Sequence[PrimitiveSeen] | None) -> dict[str, str]:
    """Reorders (how many, how long) and the implementation that took longest.

    >>> seen = [PrimitiveSeen(("reorder", "jit:uni"), 0, 2000)]
    >>> primitive_labels(seen)
    {'reorders': '1', 'reorder_s': '2e-06'}
    """
    if found is None:
        return {}
    reorders = [p for p in found if p.words[0] == "reorder"]
    labels = {
        "reorders": str(len(reorders)),
        "reorder_s": f"{sum(p.duration_ns for p in reorders) / 1e9:.6g}",
    }
    workers = [p for p in found if p.words[0] not in MOVERS and len(p.words) > 1]
    if workers:
        main = max(workers, key=lambda p: p.duration_ns)
        labels["implementation"] = f"{main.words[0]} {main.words[1]}".strip()
        words = [w for w in main.words if w.startswith(_ALGORITHM)]
        if words:
            labels["algorithm"] = words[0].removeprefix(_ALGORITHM)
        formats = [f"{name} {tag}" for word in main.words for name, tag in _FORMAT.findall(word)]
        if formats:
            labels["formats"] = ", ".join(formats)
    return labels


@dataclass
class Ready:
    """A case that can be run."""

    workload: Workload
    context: Context
    runnable: Runnable
    entrant: Entrant

    @property
    def run(self) -> Callable[[], object]:
        """One execution."""
        return self.runnable.run

    @property
    def working_set_bytes(self) -> int:
        """Bytes of what it works on."""
        return self.runnable.working_set_bytes


class Bench:
    """PyTorch's cases on one machine."""

    def __init__(self, machine: Machine | None, own: Own | None = None) -> None:
        self._machine = machine
        self._own = None if own is None else OwnKernel(own)
        # One buffer per device, and only where a case is cold.
        self._flusher = lru_cache(maxsize=None)(partial(flusher, machine))

    def measure(
        self, cases: Sequence[Case], plan: Plan, beat: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        """Measure cases in turns, and hand over a result of each in their order."""
        return Turns(self).measure(cases, plan, beat)

    def refusal(self, case: Case) -> str | None:
        """Why a case cannot run here."""
        return _unsupported(self._kernel(case), case)

    def _kernel(self, case: Case) -> Kernel:
        return find_kernel(case.kernel) if self._own is None else self._own.kernel

    def use_threads(self, count: int) -> None:
        """Run what follows on so many threads."""
        import torch

        torch.set_num_threads(count)

    def outcome(self, error: Exception) -> tuple[Status, str]:
        """What an error of torch means."""
        return _told(error)

    def clear(self, cases: Sequence[Case]) -> None:
        """The next cases must not find what was compiled, nor its memory."""
        if any(case.variant in passes.COMPILES for case in cases):
            import torch

            torch.compiler.reset()

    @contextmanager
    def ready(self, case: Case) -> Iterator[Ready]:
        """A case made ready, in the state of torch that it needs."""
        import torch

        torch.manual_seed(SEED)
        if case.variant in passes.COMPILES:
            passes.prepare_compiling()
        context = partial(passes.computing, case.precision, case.device)
        dtype = passes.tensor_dtype(case.precision)
        given = Setting(case.params, dtype, case.device, case.precision, case.variant)
        with passes.setting(case.variant):
            made = self._kernel(case).prepare(given)
            workload = passes.compiled(case.variant, made)
            found = runnable(workload, case.pass_name, context)
            if case.variant == "graph":
                found = _captured(found)
        flush = self._flusher(case.device) if case.cache == "cold" else None
        entrant = Entrant(found.run, flush, partial(passes.setting, case.variant))
        yield Ready(workload, context, found, entrant)

    def result(self, case: Case, ready: Ready, sampled: Sampled) -> Result:
        """Samples with what one execution used, and what oneDNN did in it."""
        count = self._count(case, ready)
        seen = primitives_of(ready.run) if case.device == "cpu" else None
        labels = self._labels(self._kernel(case), case, ready.runnable, sampled, count)
        if self._own is not None:
            labels |= self._own.labels(case, count, self._count_again)
        return result_of(case, sampled, count, labels | primitive_labels(seen))

    def _count(self, case: Case, ready: Ready) -> Used:
        use = partial(
            used, machine=self._machine, cold=case.cache == "cold", tf32=case.precision == "tf32"
        )
        if ready.workload.described is not None:
            twin = ready.workload.described()
            return use(describe(runnable(twin, case.pass_name, ready.context).run), fused=False)
        if not ready.workload.compiled:
            ops = describe(ready.run)
            if self._own is not None and not ops:  # whatever ran, torch did not see it
                return nothing_seen("torch")
            return use(ops, fused=False)
        # What was compiled shows no ops: the same work is counted uncompiled.
        plain = runnable(ready.workload, case.pass_name, ready.context, ready.workload.eager)
        found = use(describe(plain.run), fused=True)
        ops = describe(ready.run)
        found.launches = float(sum(launches_of(ops, count_ops(ops))))
        return found

    def _count_again(self, case: Case) -> Used:
        with self.ready(case) as ready:
            return self._count(case, ready)

    def _labels(
        self, kernel: Kernel, case: Case, ready: Runnable, sampled: Sampled, count: Used
    ) -> dict[str, str]:
        emulated = self._machine.emulated if self._machine is not None else {}
        unit = emulated.get(f"flop/{case.precision.removesuffix(passes.AUTOCAST)}", "")
        formula, confidence = kernel.contraction(case.params, case.pass_name), sampled.confidence
        # Fused layers compute gradients that nobody asked for; loops leave some out.
        done = count.contraction_flops
        ratio = done / formula if formula and done is not None else None
        other = ratio is not None and done != formula
        other_way = {
            **dict.fromkeys(passes.COMPILES, "the same work uncompiled, as one fused kernel"),
            "blocked": "the same work in the plain layout",
        }
        labels = {
            "contains": kernel.passes[case.pass_name],
            "working_set_bytes": str(ready.working_set_bytes),
            "input_bytes": str(ready.input_bytes) if ready.input_bytes else None,
            "executions_per_sample": str(sampled.executions_per_sample),
            "confidence": None if confidence is None else f"{confidence:.4f}",
            "emulated": unit.removeprefix("flop/"),
            "formula_flops": f"{formula:.0f}" if other else None,
            "executed_per_needed": f"{ratio:.6g}" if other else None,
            "executed_because": because(case, ratio) if other and ratio is not None else None,
            "uncounted": ", ".join(count.uncounted),
            "counted_on": other_way.get(case.variant),
        }
        return {name: text for name, text in labels.items() if text}


def because(case: Case, ratio: float) -> str:
    """Why PyTorch executes other products than the definition needs."""
    if ratio < 1:
        is_recurrent = "time_steps" in case.params and case.pass_name != k.FORWARD
        left_out = "the gradient of the initial state is left out"
        return left_out if is_recurrent else "products with zeros are left out"
    if case.pass_name in (k.BACKWARD_INPUT, k.BACKWARD_WEIGHT):
        return "the layer's backward pass computes the gradients of inputs and weights together"
    if case.kernel == "attention" and case.pass_name == k.BACKWARD:
        return "flash attention computes the scores again in its backward pass"
    return "not known"


def _unsupported(kernel: Kernel, case: Case) -> str | None:
    if case.pass_name not in kernel.passes:
        return f"{case.kernel} has no pass {case.pass_name!r}: it has {', '.join(kernel.passes)}"
    if case.precision not in kernel.precisions:
        return f"{case.kernel} has no {case.precision} form"
    if case.variant not in kernel.variants:
        return f"{case.kernel} has no variant {case.variant!r}"
    return passes.why_unsupported(case.precision, case.variant, case.device)


def _told(error: Exception) -> tuple[Status, str]:
    first = (str(error).strip().splitlines() or [""])[0][:500]
    text = f"{type(error).__name__}: {first}".removesuffix(": ")
    if _NO_MEMORY.search(text):
        return "failed", f"out of memory ({first or text})"
    if isinstance(error, NotImplementedError) or _NOT_THERE.search(first):
        return "unsupported", text
    return "failed", text


def _captured(ready: Runnable) -> Runnable:
    import torch

    cuda: Any = torch.cuda
    stream = cuda.Stream()
    with cuda.stream(stream):
        for _ in range(3):
            ready.run()
    cuda.current_stream().wait_stream(stream)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        ready.run()
    return Runnable(graph.replay, ready.working_set_bytes)
