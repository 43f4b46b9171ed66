"""A case of a study, and what measuring it gave: the nouns of runner, store and analysis."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from timeroof.core.machine import Machine

Status = Literal["done", "failed", "unsupported"]
Cache = Literal["warm", "cold"]
Value = int | float | str | bool
# Share of all processor time that others may use before wall time says nothing of a kernel.
BUSY = 0.15
# Labels of a case that a node of a cluster ran: the computer, and what kind of machine it is.
NODE, MACHINE = "node", "machine"
# What samples are seconds of: of the clock on the wall, or of the one thread that ran the case.
Clock = Literal["wall", "cpu"]


class Case(msgspec.Struct, kw_only=True, frozen=True):
    """One kernel with all its parameters, one pass, one precision, one way of running it.

    >>> Case(kernel="gemm", params={"m": 8, "n": 8, "k": 8}, pass_name="forward").variant
    'eager'
    """

    kernel: str
    params: dict[str, Value]
    # calibrate, forward, backward (both gradients), backward-input, backward-weight, optimizer
    pass_name: str
    # fp64, fp32, tf32, bf16, fp16, int8, and bf16-autocast, fp16-autocast
    precision: str = "fp32"
    framework: str = "torch"
    device: str = "cpu"
    threads: int = 1
    cache: Cache = "warm"
    # how the same work is run: eager, no-onednn, compile, max-autotune, cell-loop, graph, ...
    variant: str = "eager"

    def key(self, machine: str, software: str) -> str:
        """What makes a case the same case: all of the above, on one machine and software."""
        told = msgspec.json.encode([self, machine, software], order="sorted")
        return hashlib.sha256(told).hexdigest()[:32]


class Result(msgspec.Struct, kw_only=True, frozen=True):
    """What measuring a case gave: samples of one execution each, amounts, or why there are none."""

    case: Case
    status: Status
    error: str | None = None
    samples_s: list[float] = []
    launches: float | None = None
    # resource -> amount of one execution; null is unknown
    amounts: dict[str, float | None] = {}
    contraction_flops: float | None = None
    # what -> origin, as in the columns origin.<what> of a profile
    origins: dict[str, str] = {}
    # whatever else is known: reorders, reorder_s, implementation, working_set_bytes, emulated, ...
    labels: dict[str, str] = {}
    load: float | None = None
    created: str = ""


class Plan(msgspec.Struct, kw_only=True, frozen=True):
    """How carefully cases are measured. Sampling ends when the 95 % confidence interval of every
    median is within `precision` of it on either side, or when the time is used up; never before
    `least` samples of each case."""

    warmup_s: float = 0.3
    # Seconds per case; cases that are measured in turns share theirs.
    budget_s: float = 2.0
    precision: float = 0.02
    least: int = 12
    most: int = 2000
    # A sample of a short kernel is the mean of so many executions that it lasts this long: 1 ms
    # is short enough to be over before another program gets the processor.
    sample_s: float = 1e-3
    # Seconds without a sign of life after which a worker has failed.
    limit_s: float = 300.0
    # As soon as other programs are seen: one thread, and its own CPU time.
    one_thread_beside_others: bool = True
    # Bind cases to cores and their memory to these cores' nodes.
    bind: bool = False
    # Before a cold execution so much memory is overwritten; None: more than the caches is read.
    overwrite_bytes: int | None = None


FULL = Plan()
QUICK = Plan(warmup_s=0.1, budget_s=0.5, precision=0.03, least=12, limit_s=120.0)


class OwnFunction(msgspec.Struct, kw_only=True, frozen=True):
    """A function of the user's: the name of its cases, its file, its name in there."""

    name: str
    path: str
    function: str
    # Of the file: a function that was changed has other cases.
    digest: str = ""
    # None: whatever its file imports.
    framework: str | None = None


class OwnParameter(msgspec.Struct, kw_only=True, frozen=True):
    """A parameter of such a function, as its signature shows it."""

    name: str
    # Types that its annotation or its default names: int, float, bool, str; none where unknown.
    kinds: list[str] = []
    choices: list[Value] = []
    default: Value | None = None
    required: bool = False


class Setup(msgspec.Struct, kw_only=True):
    """The first line that a worker gets: what it runs, and where, as far as counting needs it."""

    framework: str = "torch"
    # Cases are those of this function, and `framework` is the one that it uses.
    own: OwnFunction | None = None
    machine: Machine | None = None
    memory_limit_bytes: int | None = None


class Hello(msgspec.Struct, kw_only=True):
    """The worker is ready, or says why it never will be."""

    error: str | None = None
    advice: str | None = None
    # Of a user's function: what it is swept over, and what runs it.
    parameters: list[OwnParameter] = []
    any_name: bool = False
    framework: str = ""


class Order(msgspec.Struct, kw_only=True):
    """Measure these cases in turns, so carefully. A process that counts one case, and hears nothing
    before, learns here whose function it is of."""

    cases: list[Case]
    plan: Plan
    own: OwnFunction | None = None


class Reply(msgspec.Struct, kw_only=True):
    """What a worker answers: the next case's result, or, without one, that it is at work."""

    result: Result | None = None
