"""Recurrent layers: gates are matrix products over every time step, cells are element-wise.

Per layer and direction, over N·T rows: 2·N·T·G·H·(D + R) FLOPs of contraction with G gates
(LSTM 4, GRU 3, RNN 1), hidden size H, input size D and recurrent size R (H, or the
projection's size P, which adds 2·N·T·H·P). Backward: as much again for the input and the
hidden state together, and as much for the weights.
"""

from __future__ import annotations

import msgspec

from timeroof.work.call import Tensor
from timeroof.work.cost import Cost, cost

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
SIGMOID_FLOPS, TANH_FLOPS = 4, 1
# Element-wise FLOPs per hidden unit and step, without biases (see `cell_flops`).
CELL_FLOPS = {
    # 4 sums of input and hidden parts, 3 sigmoids, 2 tanh, c = f·c + i·g, h = o·tanh(c)
    "lstm": 4 + 3 * SIGMOID_FLOPS + 2 * TANH_FLOPS + 3 + 1,
    # 2 sums, 2 sigmoids, n = tanh(a + r·b), h = (1 − z)·n + z·h
    "gru": 2 + 2 * SIGMOID_FLOPS + 2 + TANH_FLOPS + 4,
    "rnn": 1 + TANH_FLOPS,
}
# Backward per hidden unit and step: derivatives of sigmoid and tanh (2 each) times gradients.
CELL_BACKWARD_FLOPS = {"lstm": 26, "gru": 20, "rnn": 3}


class Recurrent(msgspec.Struct, frozen=True, kw_only=True):
    """A stack of recurrent layers with all its sizes; `rows` is batch times time steps."""

    kind: str
    rows: int
    batch: int
    features: int
    hidden: int
    projection: int = 0
    layers: int = 1
    directions: int = 1
    biases: bool = True
    dtype: str = "fp32"

    @property
    def state(self) -> int:
        """Size of the hidden state that goes round."""
        return self.projection or self.hidden

    @property
    def gates(self) -> int:
        """Gate outputs per step."""
        return GATES[self.kind] * self.hidden

    def layer_inputs(self) -> list[int]:
        """Input size of every layer and direction."""
        later = self.state * self.directions
        sizes = [self.features] + [later] * (self.layers - 1)
        return [s for s in sizes for _ in range(self.directions)]

    def parts(self) -> dict[str, int]:
        """Contraction FLOPs of the forward pass: from input, from state, to projection."""
        return {
            "input": sum(2 * self.rows * self.gates * d for d in self.layer_inputs()),
            "hidden": len(self.layer_inputs()) * 2 * self.rows * self.gates * self.state,
            "projection": len(self.layer_inputs()) * 2 * self.rows * self.hidden * self.projection,
        }

    @property
    def weight_count(self) -> int:
        """Elements of all weights and biases."""
        return sum(
            self.gates * (d + self.state)
            + 2 * self.gates * self.biases
            + self.hidden * self.projection
            for d in self.layer_inputs()
        )

    def weight(self) -> Tensor:
        """All weights as one tensor."""
        return Tensor((self.weight_count,), self.dtype)

    def states(self) -> Tensor:
        """The hidden (and cell) state at one end of the sequence."""
        cells = self.hidden if self.kind == "lstm" else 0
        return Tensor((self.layers * self.directions, self.batch, self.state + cells), self.dtype)

    def output(self) -> Tensor:
        """The result of the last layer."""
        return Tensor((self.rows, self.state * self.directions), self.dtype)

    def input(self) -> Tensor:
        """The sequence that goes in."""
        return Tensor((self.rows, self.features), self.dtype)

    def saved(self) -> Tensor:
        """What training keeps for the backward pass: gates and cells of every step."""
        cells = self.hidden if self.kind == "lstm" else 0
        each = self.gates + cells
        return Tensor((self.layers * self.directions * self.rows, each), self.dtype)

    @property
    def cell_flops(self) -> int:
        """Element-wise FLOPs of the forward pass; two biases add 2 per gate output."""
        units = len(self.layer_inputs()) * self.rows
        return units * (CELL_FLOPS[self.kind] * self.hidden + 2 * self.gates * self.biases)


def forward_cost(r: Recurrent, *, training: bool = False) -> Cost:
    """The forward pass as one op: weights, input and states read once."""
    return cost(
        [r.input(), r.weight(), r.states()],
        [r.output(), r.states(), r.saved() if training else None],
        contraction=sum(r.parts().values()),
        other=r.cell_flops,
        dtype=r.dtype,
    )


def gradient_flops(r: Recurrent) -> dict[str, int]:
    """Contraction FLOPs of every gradient: each repeats a product of the forward pass.

    `hidden` is what flows back through time (and through a projection), and `input` what
    reaches the layer below; of the bottom layer it is the gradient of the input.
    """
    parts = r.parts()
    return {
        "input": parts["input"],
        "hidden": parts["hidden"] + parts["projection"],
        "weight_input": parts["input"],
        "weight_hidden": parts["hidden"] + parts["projection"],
    }


def backward_cost(r: Recurrent, *, weights: bool = True, inputs: bool = True) -> Cost:
    """The backward pass as one op; bias gradients are one addition per gate output."""
    found = gradient_flops(r)
    bottom = 2 * r.rows * r.gates * r.features * r.directions
    flops = found["hidden"] + found["input"] - (0 if inputs else bottom)
    units = len(r.layer_inputs()) * r.rows
    if weights:
        flops += found["weight_input"] + found["weight_hidden"]
    bias = units * r.gates if weights and r.biases else 0
    return cost(
        [r.output(), r.input(), r.weight(), r.states(), r.states(), r.saved()],
        [r.input() if inputs else None, r.weight() if weights else None, r.states()],
        contraction=flops,
        other=units * CELL_BACKWARD_FLOPS[r.kind] * r.hidden + bias,
        dtype=r.dtype,
    )
