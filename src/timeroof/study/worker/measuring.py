"""One case from beginning to end: made ready, sampled, counted."""

from __future__ import annotations

import datetime
import gc
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from timeroof.core.machine import Machine
from timeroof.live.torch.primitives import PrimitivePass, primitives_in
from timeroof.live.torch.recording import PrimitiveSeen
from timeroof.live.torch.timing import Timing
from timeroof.probe.sampling import CpuTimes, read_cpu_times
from timeroof.read.onednn import MOVERS
from timeroof.study.case import Case, Plan, Result, Status
from timeroof.study.kernel import Kernel, Setting, Workload
from timeroof.study.kernels import kernel as find_kernel
from timeroof.study.worker import passes as precisions
from timeroof.study.worker import passes as variants
from timeroof.study.worker.counting import Used, describe, launches, used
from timeroof.study.worker.passes import Runnable, runnable
from timeroof.study.worker.sampling import Sampled, clock_for, sample

# Cold caches: stream through more memory than they hold, outside the timed part.


TIMES_THE_CACHE = 2
# Where nobody knows the cache: larger than any that is common.
UNKNOWN_CACHE_BYTES = 64 << 20


def flusher(machine: Machine | None, device: str) -> Callable[[], Any]:
    """A function that leaves nothing of a case in any cache.

    It reads: lines that it leaves behind are clean, so that the case does not pay for
    writing them back.
    """
    import torch

    cache = (machine.largest_cache_bytes if machine is not None else None) or UNKNOWN_CACHE_BYTES
    buffer = torch.ones(TIMES_THE_CACHE * cache // 4, dtype=torch.float32, device=device)

    def flush() -> Any:
        result = buffer.sum()
        return result if device == "cpu" else result.item()

    return flush


# Which oneDNN primitives ran in a case: the one that does the work, and the reorders.


_ALGORITHM = "alg:"


def primitives_of(run: Callable[[], Any]) -> list[PrimitiveSeen] | None:
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
    return [] if seen is None else primitives_in(seen.lines)


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
    return labels


_NOT_THERE = re.compile(
    r"not implemented for|not supported|unsupported|no kernel|not compiled with|could not create a"
    r" primitive|only supports|does not support",
    re.IGNORECASE,
)
_NO_MEMORY = re.compile(r"can't allocate memory|out of memory|cannot allocate", re.IGNORECASE)
SEED = 1234


@dataclass
class Ready:
    """A case that can be run."""

    workload: Workload
    context: Callable[[], AbstractContextManager[Any]]
    runnable: Runnable

    @property
    def run(self) -> Callable[[], Any]:
        """One execution."""
        return self.runnable.run


class Bench:
    """Measures cases on one machine, one after the other."""

    def __init__(self, machine: Machine | None) -> None:
        self._machine = machine
        self._flushers: dict[str, Callable[[], Any]] = {}

    def measure(self, case: Case, plan: Plan) -> Result:
        """Measure a case; whatever torch refuses is a result too."""
        kernel = find_kernel(case.kernel)
        reason = _unsupported(kernel, case)
        if reason is not None:
            return _refused(case, "unsupported", reason)
        try:
            return self._measured(kernel, case, plan)
        except MemoryError as error:
            return _refused(case, "failed", f"out of memory ({error or 'MemoryError'})")
        except Exception as error:
            return _refused(case, *_told(error))
        finally:
            gc.collect()
            _reset_compiler(case)

    @contextmanager
    def ready(self, case: Case) -> Iterator[Ready]:
        """A case made ready, in the state of torch that it needs."""
        import torch

        torch.set_num_threads(case.threads)
        torch.manual_seed(SEED)
        if case.variant in variants.COMPILES:
            variants.prepare_compiling()

        def context() -> AbstractContextManager[Any]:
            return precisions.computing(case.precision, case.device)

        dtype = precisions.tensor_dtype(case.precision)
        given = Setting(case.params, dtype, case.device, case.precision, case.variant)
        with variants.setting(case.variant):
            made = find_kernel(case.kernel).prepare(given)
            workload = variants.compiled(case.variant, made)
            found = runnable(workload, case.pass_name, context)
            if case.variant == "graph":
                found = _captured(found)
            yield Ready(workload, context, found)

    def _measured(self, kernel: Kernel, case: Case, plan: Plan) -> Result:
        with self.ready(case) as ready:
            flush = self._flush(case.device) if case.cache == "cold" else None
            before, own_before = read_cpu_times(), time.process_time()
            sampled = sample(ready.run, clock_for(case.device), plan, flush)
            load = _load(before, own_before)
            count = self._count(case, ready)
            seen = primitives_of(ready.run) if case.device == "cpu" else None
        labels = self._labels(kernel, case, ready.runnable, sampled, count)
        return _result(case, sampled, count, labels | primitive_labels(seen), load)

    def _flush(self, device: str) -> Callable[[], Any]:
        if device not in self._flushers:
            self._flushers[device] = flusher(self._machine, device)
        return self._flushers[device]

    def _count(self, case: Case, ready: Ready) -> Used:
        options = {"cold": case.cache == "cold", "tf32": case.precision == "tf32"}
        if not ready.workload.compiled:
            return used(describe(ready.run), self._machine, fused=False, **options)
        # What was compiled shows no ops: the same work is counted uncompiled.
        plain = runnable(ready.workload, case.pass_name, ready.context, ready.workload.eager)
        found = used(describe(plain.run), self._machine, fused=True, **options)
        found.launches = launches(describe(ready.run))
        return found

    def _labels(
        self, kernel: Kernel, case: Case, ready: Runnable, sampled: Sampled, count: Used
    ) -> dict[str, str]:
        labels = {
            "contains": kernel.passes[case.pass_name],
            "working_set_bytes": str(ready.working_set_bytes),
            "executions_per_sample": str(sampled.executions_per_sample),
        }
        if sampled.confidence is not None:
            labels["confidence"] = f"{sampled.confidence:.4f}"
        emulated = self._machine.emulated if self._machine is not None else {}
        unit = precisions.emulated_by(case.precision, emulated)
        if unit is not None:
            labels["emulated"] = unit
        by_formula = kernel.contraction(case.params, case.pass_name)
        if by_formula is not None and count.contraction_flops not in (None, by_formula):
            # Fused layers compute gradients that nobody asked for; loops leave some out.
            labels["formula_flops"] = f"{by_formula:.0f}"
        if count.uncounted:
            labels["uncounted"] = ", ".join(count.uncounted)
        if case.variant in variants.COMPILES:
            labels["counted_on"] = "the same work uncompiled, as one fused kernel"
        return labels


def _unsupported(kernel: Kernel, case: Case) -> str | None:
    if case.pass_name not in kernel.passes:
        return f"{case.kernel} has no pass {case.pass_name!r}: it has {', '.join(kernel.passes)}"
    if case.precision not in kernel.precisions:
        return f"{case.kernel} has no {case.precision} form"
    if case.variant not in kernel.variants:
        return f"{case.kernel} has no variant {case.variant!r}"
    no_precision = precisions.why_unsupported(case.precision, case.device)
    return no_precision or variants.variants_why_unsupported(case.variant, case.device)


def _told(error: Exception) -> tuple[Status, str]:
    """How an exception of torch is recorded: its kind and its first line."""
    first = (str(error).strip().splitlines() or [""])[0][:500]
    text = f"{type(error).__name__}: {first}".removesuffix(": ")
    if _NO_MEMORY.search(first) or type(error).__name__ == "OutOfMemoryError":
        return "failed", f"out of memory ({first})"
    if isinstance(error, NotImplementedError) or _NOT_THERE.search(first):
        return "unsupported", text
    return "failed", text


def _refused(case: Case, status: Status, reason: str) -> Result:
    return Result(case=case, status=status, error=reason, created=_now())


def _result(
    case: Case, sampled: Sampled, count: Used, labels: dict[str, str], load: float | None
) -> Result:
    amounts = dict(count.amounts)
    if case.device == "cpu":
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
        load=load,
        created=_now(),
    )


def _load(before: CpuTimes | None, own_before_s: float) -> float | None:
    """The share of all CPU time that others used, or that the host took away, meanwhile."""
    after = read_cpu_times()
    if before is None or after is None or after.total_s <= before.total_s:
        return None
    own_s = time.process_time() - own_before_s
    others_s = after.busy_s - before.busy_s - own_s + after.stolen_s - before.stolen_s
    return round(max(0.0, others_s / (after.total_s - before.total_s)), 4)


def _captured(ready: Runnable) -> Runnable:
    """The same work as a CUDA graph that is replayed."""
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


def _reset_compiler(case: Case) -> None:
    """Forget what was compiled for a case: the next one must not find it, nor its memory."""
    if case.variant in variants.COMPILES:
        import torch

        torch.compiler.reset()


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
