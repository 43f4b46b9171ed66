"""Recurrent layers: gates are matrix products over every time step, cells are element-wise.

Per layer and direction, over N·T rows: 2·N·T·G·H·(D + R) FLOPs of contraction with G gates
(LSTM 4, GRU 3, RNN 1), hidden size H, input size D and recurrent size R (H, or the
projection's size P, which adds 2·N·T·H·P). Backward: as much again for the input and the
hidden state together, and as much for the weights.
"""

from __future__ import annotations

import msgspec

from timeroof.work import call as args
from timeroof.work.call import Arg, Call, Tensor, UncountableError
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula

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


MODES = {0: "rnn", 1: "rnn", 2: "lstm", 3: "gru"}


def sequence(x: Tensor, batch_first: bool, batch_sizes: Arg = None) -> tuple[int, int]:
    """Rows (batch times steps) and batch; a packed sequence has its rows in one dimension."""
    if len(x.shape) == 2:
        if isinstance(batch_sizes, tuple) and batch_sizes:
            return x.shape[0], args.integer(batch_sizes[0], "batch size")
        return x.shape[0], 1
    return x.shape[0] * x.shape[1], x.shape[0 if batch_first else 1]


def _fused(
    x: Arg, mode: Arg, hidden: Arg, projection: Arg, layers: Arg, bidirectional: Arg,
    batch_first: Arg, batch_sizes: Arg, biases: bool = True,
) -> Recurrent:  # fmt: skip
    found = args.ranked(x, "the input", 2, 3)
    kind = MODES.get(args.integer(mode, "the mode"))
    if kind is None:
        raise UncountableError(f"recurrent mode {mode}")
    rows, batch = sequence(found, args.flag(batch_first, "batch_first", False), batch_sizes)
    return Recurrent(
        kind=kind, rows=rows, batch=batch, features=found.shape[-1],
        hidden=args.integer(hidden, "the hidden size"),
        projection=args.integer(projection, "the projection's size"),
        layers=args.integer(layers, "the number of layers"),
        directions=1 + args.flag(bidirectional, "bidirectional"), biases=biases, dtype=found.dtype,
    )  # fmt: skip


@formula("aten::mkldnn_rnn_layer", "onednn::rnn",
         order="x _ _ _ _ _ _ reverse batch_sizes mode hidden_size num_layers has_biases "
         "bidirectional batch_first train")  # fmt: skip
def mkldnn_layer(
    x: Arg, batch_sizes: Arg = None, mode: Arg = None, hidden_size: Arg = None,
    has_biases: Arg = True, train: Arg = False,
) -> Cost:  # fmt: skip
    """oneDNN on a CPU: one layer in one direction per call, whatever the whole has."""
    biases = args.flag(has_biases, "has_biases", True)
    r = _fused(x, mode, hidden_size, 0, 1, False, False, batch_sizes, biases)
    return forward_cost(r, training=args.flag(train, "train", False))


@formula("aten::mkldnn_rnn_layer_backward",
         order="x _ _ _ _ _ _ _ _ _ _ _ _ reverse mode hidden_size num_layers has_biases train "
         "bidirectional batch_sizes")  # fmt: skip
def mkldnn_layer_backward(
    x: Arg, mode: Arg = None, hidden_size: Arg = None, has_biases: Arg = True,
    batch_sizes: Arg = None,
) -> Cost:  # fmt: skip
    """All gradients of one oneDNN layer: it computes them together."""
    biases = args.flag(has_biases, "has_biases", True)
    return backward_cost(_fused(x, mode, hidden_size, 0, 1, False, False, batch_sizes, biases))


@formula("aten::_cudnn_rnn", "cudnn::rnn",
         order="x _ _ _ _ _ mode hidden_size proj_size num_layers batch_first dropout train "
         "bidirectional batch_sizes")  # fmt: skip
@formula("aten::miopen_rnn",
         order="x _ _ _ _ mode hidden_size num_layers batch_first dropout train bidirectional "
         "batch_sizes")  # fmt: skip
def whole_rnn(
    x: Arg, mode: Arg = None, hidden_size: Arg = None, proj_size: Arg = 0, num_layers: Arg = None,
    batch_first: Arg = None, train: Arg = False, bidirectional: Arg = None, batch_sizes: Arg = None,
) -> Cost:  # fmt: skip
    """cuDNN's and MIOpen's whole stack of layers in one op."""
    r = _fused(x, mode, hidden_size, proj_size, num_layers, bidirectional, batch_first, batch_sizes)
    return forward_cost(r, training=args.flag(train, "train", False))


@formula("aten::_cudnn_rnn_backward",
         order="x _ _ _ _ _ _ _ _ _ mode hidden_size proj_size num_layers batch_first dropout "
         "train bidirectional batch_sizes _ _ output_mask")  # fmt: skip
@formula("aten::miopen_rnn_backward",
         order="x _ _ _ _ _ _ _ _ _ mode hidden_size num_layers batch_first dropout train "
         "bidirectional batch_sizes _ _ output_mask")  # fmt: skip
def whole_rnn_backward(
    x: Arg, mode: Arg = None, hidden_size: Arg = None, proj_size: Arg = 0, num_layers: Arg = None,
    batch_first: Arg = None, bidirectional: Arg = None, batch_sizes: Arg = None,
    output_mask: Arg = None,
) -> Cost:  # fmt: skip
    """Their gradients, as `output_mask` asks (input, hx, cx, weights)."""
    r = _fused(x, mode, hidden_size, proj_size, num_layers, bidirectional, batch_first, batch_sizes)
    mask = output_mask if isinstance(output_mask, tuple) else ()
    wanted = mask if len(mask) >= 4 else (True,) * 4
    return backward_cost(r, weights=bool(wanted[3]), inputs=bool(wanted[0]))


@formula("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu", composite=True)
def whole_stack(call: Call) -> Cost:
    """The op that nn.LSTM, nn.GRU and nn.RNN call, dense or packed.

    Dense: input, states, parameters, has_biases, layers, dropout, train, bidirectional,
    batch_first. Packed: data, batch sizes, states, parameters, and the rest alike.
    """
    kind = {"aten::lstm": "lstm", "aten::gru": "gru"}.get(call.op.split(".")[0], "rnn")
    x = args.ranked(call.inputs[0], "the input", 2, 3)
    packed = isinstance(call.inputs[1], Tensor) and len(call.inputs) == 9 and not isinstance(
        call.inputs[3], bool | int
    )  # fmt: skip
    states = list(args.tensors(call.inputs[2 if packed else 1], "the states"))
    rest = call.inputs[4 if packed else 3 :]
    first = args.flag(rest[5], "batch_first", False) if len(rest) > 5 else False
    rows, batch = sequence(x, first)
    hidden = states[-1].shape[-1]
    r = Recurrent(
        kind=kind, rows=rows, features=x.shape[-1], hidden=hidden, dtype=x.dtype,
        batch=states[0].shape[-2] if len(states[0].shape) == 3 else batch,
        projection=states[0].shape[-1] if states[0].shape[-1] != hidden else 0,
        layers=args.integer(rest[1], "the number of layers"),
        directions=1 + args.flag(rest[4], "bidirectional"), biases=args.flag(rest[0], "has_biases"),
    )  # fmt: skip
    return forward_cost(r, training=args.flag(rest[3], "train", False))


@formula("aten::lstm_cell", "aten::gru_cell", "aten::rnn_tanh_cell", "aten::rnn_relu_cell",
         composite=True)  # fmt: skip
def one_cell(call: Call, x: Tensor, hx: Arg, w_ih: Arg, w_hh: Arg, b_ih: Arg = None) -> Cost:
    """One time step."""
    kind = {"aten::lstm_cell": "lstm", "aten::gru_cell": "gru"}.get(call.op.split(".")[0], "rnn")
    state = args.tensors(hx, "the state")[0]
    rows = x.shape[0] if len(x.shape) == 2 else 1
    r = Recurrent(
        kind=kind, rows=rows, batch=rows, features=x.shape[-1], hidden=state.shape[-1],
        biases=isinstance(b_ih, Tensor), dtype=x.dtype,
    )  # fmt: skip
    return forward_cost(r)


@formula("aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_gru_cell")
def fused_cell(
    call: Call,
    input_gates: Arg,
    hidden_gates: Arg,
    state: Tensor,
    b_ih: Arg = None,
    b_hh: Arg = None,
) -> Cost:
    """The element-wise part of a step, from gates that matrix products have made."""
    kind = "lstm" if "lstm" in call.op else "gru"
    gates = args.tensor(input_gates, "the gates")
    biases = [b for b in (b_ih, b_hh) if isinstance(b, Tensor)]
    saved = Tensor(
        (state.shape[0], gates.shape[-1] if kind == "lstm" else 5 * state.shape[-1]), state.dtype
    )
    return cost(
        [gates, args.tensor(hidden_gates, "the gates"), state, *biases],
        [state, state if kind == "lstm" else None, saved],
        other=CELL_FLOPS[kind] * state.count + len(biases) * gates.count,
        dtype=gates.dtype,
    )


@formula("aten::_thnn_fused_lstm_cell_backward", "aten::_thnn_fused_lstm_cell_backward_impl")
def fused_lstm_backward(
    grad_hy: Arg = None, grad_cy: Arg = None, cx: Arg = None, cy: Arg = None, workspace: Arg = None
) -> Cost:
    """Gradients of the element-wise part of an LSTM step."""
    old, gates = args.tensor(cx, "the cell state"), args.tensor(workspace, "the gates")
    reads = list(args.every_tensor(grad_hy, grad_cy, cx, cy, workspace))
    return cost(reads, [gates, old], other=CELL_BACKWARD_FLOPS["lstm"] * old.count, dtype=old.dtype)


@formula("aten::_thnn_fused_gru_cell_backward")
def fused_gru_backward(grad_hy: Arg, workspace: Arg, has_bias: Arg = True) -> Cost:
    """Gradients of the element-wise part of a GRU step."""
    grad, saved = args.tensor(grad_hy, "the gradient"), args.tensor(workspace, "the gates")
    gates = Tensor((*grad.shape[:-1], 3 * grad.shape[-1]), grad.dtype)
    flops = CELL_BACKWARD_FLOPS["gru"] * grad.count
    return cost([grad, saved], [gates, gates, grad], other=flops, dtype=grad.dtype)
