"""What a kernel of a study is: its parameters, its passes, and how it is made ready to run.

A kernel is one short file in `timeroof.study.kernels` that makes one `Kernel`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timeroof.study.case import Value

if TYPE_CHECKING:
    import torch

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
