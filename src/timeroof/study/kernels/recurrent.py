"""The kernels `lstm`, `gru` and `rnn`: one layer over a sequence, fused or a loop of cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from timeroof.study import case as k
from timeroof.study.case import Kernel, Parameter, Params, Setting, Workload

if TYPE_CHECKING:
    import torch

CELL_LOOP, COMPILED_LOOP, GRAPH = "cell-loop", "cell-loop-compile", "graph"
_LAYERS = {"lstm": ("LSTM", "LSTMCell"), "gru": ("GRU", "GRUCell"), "rnn": ("RNN", "RNNCell")}


def recurrent_kernel(kind: str) -> Kernel:
    """One layer over a sequence (time first), the paper's grid; two bias vectors per gate."""
    steps = (16, 32, 64, 128)
    return Kernel(
        name=kind,
        parameters=(
            Parameter("batch", 16, steps, (16, 64)),
            Parameter("time_steps", 16, steps, (16, 64)),
            Parameter("features", 32, (32, 64, 128), (32, 128)),
            Parameter("hidden", 16, steps, (16, 64)),
        ),
        prepare=lambda given: _prepare(kind, given),
        passes=k.LAYER_PASSES,
        contraction=lambda params, pass_name: _contraction(kind, params, pass_name),
        variants=(*k.COMMON_VARIANTS, CELL_LOOP, COMPILED_LOOP, GRAPH),
    )


def _prepare(kind: str, given: Setting) -> Workload:
    import torch

    layer_name, cell_name = _LAYERS[kind]
    features, hidden = given.sizes("features", "hidden")

    def inputs() -> tuple[torch.Tensor]:
        return (given.random(*given.sizes("time_steps", "batch", "features")),)

    if given.variant not in (CELL_LOOP, COMPILED_LOOP):
        layer = given.place(getattr(torch.nn, layer_name)(features, hidden))
        return Workload(inputs, lambda x: layer(x)[0], tuple(layer.parameters()))
    cell = given.place(getattr(torch.nn, cell_name)(features, hidden))
    loop = _loop(cell)
    if given.variant == CELL_LOOP:
        return Workload(inputs, loop, tuple(cell.parameters()))
    compiled = _loop(torch.compile(cell, dynamic=False))
    return Workload(inputs, compiled, tuple(cell.parameters()), compiled=True, eager=loop)


def _loop(cell: Callable[..., Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    """The same layer as a Python loop over the cell; states begin at zero inside the cell."""

    def run(sequence: torch.Tensor) -> torch.Tensor:
        import torch

        state = None
        results = []
        for step in sequence.unbind(0):
            state = cell(step, state)
            results.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(results)

    return run


def _contraction(kind: str, params: Params, pass_name: str) -> float | None:
    """Products of input and state with the gates' weights, over all steps."""
    from timeroof.work.families.recurrent import Recurrent, backward_cost, forward_cost

    layer = Recurrent(
        kind=kind,
        rows=int(params["batch"]) * int(params["time_steps"]),
        batch=int(params["batch"]),
        features=int(params["features"]),
        hidden=int(params["hidden"]),
    )
    costs = {
        k.FORWARD: lambda: forward_cost(layer),
        k.BACKWARD: lambda: backward_cost(layer),
        k.BACKWARD_INPUT: lambda: backward_cost(layer, weights=False),
        k.BACKWARD_WEIGHT: lambda: backward_cost(layer, inputs=False),
    }
    return costs[pass_name]().contraction_flops if pass_name in costs else 0.0


KERNELS = tuple(recurrent_kernel(kind) for kind in _LAYERS)
