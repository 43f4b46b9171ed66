"""A case of a study, what measuring it gave, and what a kernel is: the nouns of all of study.

A kernel is one short file in `timeroof.study.kernels` that makes one `Kernel`: its parameters, its
passes, and how it is made ready to run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import msgspec

from timeroof.core.machine import Machine

if TYPE_CHECKING:
    import torch


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


Params = Mapping[str, Value]
FLOATS = ("fp64", "fp32", "tf32", "bf16", "fp16", "bf16-autocast", "fp16-autocast")
PLAIN_FLOATS = ("fp64", "fp32", "bf16", "fp16")
COMPILED = ("compile", "max-autotune")
COMMON_VARIANTS = ("eager", "no-onednn", *COMPILED)

CALIBRATE, FORWARD, BACKWARD = "calibrate", "forward", "backward"
BACKWARD_INPUT, BACKWARD_WEIGHT, OPTIMIZER = "backward-input", "backward-weight", "optimizer"
PASSES = (CALIBRATE, FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, OPTIMIZER)


@dataclass(frozen=True)
class Parameter:
    """One parameter: its base value, and the values that the full and the quick sweep take."""

    name: str
    base: int | str
    full: tuple[int | str, ...] = ()
    quick: tuple[int | str, ...] = ()
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setting:
    """Everything a kernel needs to know to be made ready: sizes, number format and device."""

    params: Params
    dtype: torch.dtype
    device: str
    precision: str = "fp32"
    variant: str = "eager"

    def size(self, name: str) -> int:
        """A parameter that is a number."""
        return int(self.params[name])

    def sizes(self, *names: str) -> list[int]:
        """Several such."""
        return [self.size(name) for name in names]

    def random(self, *shape: int) -> torch.Tensor:
        """A tensor of normal numbers in the case's format."""
        import torch

        return torch.randn(*shape, device=self.device).to(self.dtype)

    def place(self, module: torch.nn.Module) -> torch.nn.Module:
        """A module in the case's format and on its device."""
        return module.to(device=self.device, dtype=self.dtype)

    @property
    def memory_format(self) -> torch.memory_format:
        """How images lie in memory, of kernels with the parameter `layout`."""
        import torch

        last = self.params["layout"] == "channels_last"
        return torch.channels_last if last else torch.contiguous_format


@dataclass
class Workload:
    """A kernel made ready: its inputs, what it does with them, and what it learns."""

    make_inputs: Callable[[], tuple[torch.Tensor, ...]]
    function: Callable[..., object]
    weights: tuple[torch.Tensor, ...] = ()
    # Makes the optimizer of the pass `optimizer`; gradients are set before.
    make_optimizer: Callable[[tuple[torch.Tensor, ...]], torch.optim.Optimizer] | None = None
    # Whether `function` is compiled already (a loop around a compiled cell).
    compiled: bool = False
    # The same work uncompiled, for counting.
    eager: Callable[..., object] | None = None
    # The same work on tensors whose memory can be looked at, for counting.
    described: Callable[[], Workload] | None = None
    # A function of the user's that takes no inputs: it runs as it is written.
    as_written: bool = False
    # Gradients of all that has one, whatever the graph holds, and not of the above alone.
    all_leaves: bool = False

    @classmethod
    def of(
        cls, layer: torch.nn.Module, make_inputs: Callable[[], tuple[torch.Tensor, ...]]
    ) -> Workload:
        """A layer with its own weights."""
        return cls(make_inputs, layer, tuple(layer.parameters()))


INPUTS_ONLY = "creates the inputs in memory and nothing else"
_NOT_IN_TIME = "the forward pass is not in the time"
SGD_TEXT = "one step of torch.optim.SGD over weights and biases, gradients given"
# The passes of a layer that has weights.
LAYER_PASSES = {
    CALIBRATE: INPUTS_ONLY,
    FORWARD: "the forward pass without recording gradients, inputs and weights ready",
    BACKWARD: "the gradients of inputs, weights and biases from a given gradient of the result;"
    " the forward pass ran before and is not in the time",
    BACKWARD_INPUT: f"the gradient of the inputs alone; {_NOT_IN_TIME}",
    BACKWARD_WEIGHT: f"the gradients of weights and biases alone; {_NOT_IN_TIME}",
    OPTIMIZER: SGD_TEXT,
}
# The passes of a function without weights: its only gradient is that of its inputs.
FUNCTION_PASSES = {
    CALIBRATE: INPUTS_ONLY,
    FORWARD: "the forward pass without recording gradients, inputs ready",
    BACKWARD: "the gradients of all inputs from a given gradient of the result; the forward"
    " pass ran before and is not in the time",
}


@dataclass(frozen=True)
class Kernel:
    """A kernel with its grid.

    `passes` says of every pass exactly what it contains. `contraction` gives the FLOPs of
    matrix products and convolutions of a pass from the parameters alone, the second opinion
    on what is counted from the ops that ran; None where a pass has no such formula.
    """

    name: str
    parameters: tuple[Parameter, ...]
    prepare: Callable[[Setting], Workload]
    passes: Mapping[str, str] = field(default_factory=lambda: FUNCTION_PASSES)
    contraction: Callable[[Params, str], float | None] = lambda params, pass_name: 0.0
    precisions: tuple[str, ...] = FLOATS
    variants: tuple[str, ...] = COMMON_VARIANTS
    default_passes: tuple[str, ...] = (FORWARD, BACKWARD)
    # Parameter values that cannot be together, as a reason; None where all is well.
    refuse: Callable[[Params], str | None] = lambda params: None

    @property
    def base(self) -> dict[str, Value]:
        """The base case: every parameter at its base value."""
        return {p.name: p.base for p in self.parameters}

    def parameter(self, name: str) -> Parameter | None:
        """A parameter by name."""
        return next((p for p in self.parameters if p.name == name), None)


def like_forward(forward: float, pass_name: str) -> float:
    """Contraction FLOPs of a pass where each gradient repeats the products of the forward pass."""
    times = {FORWARD: 1, BACKWARD: 2, BACKWARD_INPUT: 1, BACKWARD_WEIGHT: 1}
    return forward * times.get(pass_name, 0)
