"""What the workers of JAX and TensorFlow share: which cases they have, results, cores, caches."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from timeroof.core.machine import Machine
from timeroof.study import case as k
from timeroof.study.case import Case, Result
from timeroof.study.kernels import kernel as find_kernel, kernels
from timeroof.study.worker.counting import Used
from timeroof.study.worker.sampling import Sampled
from timeroof.study.worker.turns import now

DTYPES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
PASSES = (k.FORWARD, k.BACKWARD, k.BACKWARD_INPUT, k.BACKWARD_WEIGHT)
_TIMES_THE_CACHE, _UNKNOWN_CACHE_BYTES = 2, 64 << 20
# Work that differs by less is the same.
_SAME = 1e-9


class Told(NamedTuple):
    """What a framework says of a case: what its pass contains, on what it was counted, why it
    executes other work than the definition needs (a ratio → its cause), and how many products the
    program defines, where the framework can tell."""

    contains: str
    counted_on: str
    because: Callable[[float], str | None] = lambda ratio: None
    defined_flops: float | None = None


def refusal_of(
    case: Case, framework: str, forms: Collection[str], variants: Collection[str], values: str
) -> str | None:
    """Why a framework has no such case; None where it has, or may."""
    kernel = find_kernel(case.kernel)
    if case.kernel not in forms:
        return f"{case.kernel} has no form in {framework} here: {', '.join(forms)} have"
    if case.pass_name not in kernel.passes or case.pass_name not in PASSES:
        return f"{case.kernel} has no pass {case.pass_name!r} in {framework}"
    if case.precision not in DTYPES:
        return f"{case.precision} is no format of {framework}'s {values}"
    if case.variant not in variants:
        return f"{framework} has no variant {case.variant!r}: it has {', '.join(variants)}"
    return f"cases of {framework} run on the CPU here" if case.device != "cpu" else None


def refusal_of_own(
    case: Case, framework: str, passes: Collection[str], variants: Collection[str]
) -> str | None:
    """The same of a function of the user's."""
    for what, value, known in (
        ("passes", case.pass_name, passes), ("variants", case.variant, variants),
        ("devices", case.device, ("cpu",)),
    ):  # fmt: skip
        if value not in known:
            return f"in {framework} a function of yours has the {what} {', '.join(known)}"
    return None


def error_words(error: Exception) -> tuple[str, str]:
    """The first line of an error, and that behind its type."""
    first = (str(error).strip().splitlines() or [""])[0][:500]
    return first, f"{type(error).__name__}: {first}".removesuffix(": ")


def is_moving(value: object, is_float: Callable[[object], bool], pass_name: str) -> bool:
    """Whether what a user's function was given is an array that varies, or has a gradient."""
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return False
    return pass_name == k.FORWARD or is_float(value.dtype)


def flusher(machine: Machine | None) -> Callable[[], object]:
    """A function that leaves nothing of a case in any cache, by reading more memory."""
    cache = machine.largest_cache_bytes if machine is not None else None
    buffer = np.ones(_TIMES_THE_CACHE * (cache or _UNKNOWN_CACHE_BYTES) // 4, np.float32)
    return buffer.sum


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
    case: Case, count: Used, sampled: Sampled, working_set_bytes: int, told: Told
) -> dict[str, str]:
    """What is known of a case beside its amounts; executed against algorithmic work among it."""
    # A function of the user's has no formula but its own definition.
    kernel = kernels().get(case.kernel)
    formula = None if kernel is None else kernel.contraction(case.params, case.pass_name)
    formula = told.defined_flops if formula is None else formula
    done, confidence = count.contraction_flops, sampled.confidence
    ratio = done / formula if formula and done is not None else None
    other = ratio is not None and abs(ratio - 1) > _SAME
    labels = {
        "contains": told.contains,
        "working_set_bytes": str(working_set_bytes),
        "executions_per_sample": str(sampled.executions_per_sample),
        "confidence": None if confidence is None else f"{confidence:.4f}",
        "formula_flops": f"{formula:.0f}" if other else None,
        "executed_per_needed": f"{ratio:.6g}" if other else None,
        "executed_because": told.because(ratio) if other and ratio is not None else None,
        "uncounted": ", ".join(count.uncounted),
        "counted_on": told.counted_on,
    }
    return {name: text for name, text in labels.items() if text}


def result_of(case: Case, sampled: Sampled, count: Used, labels: dict[str, str]) -> Result:
    """A measured case."""
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
        created=now(),
    )
