"""Rows of a table looked up by random indices; the weight gradient is dense."""

from __future__ import annotations

from timeroof.study.kernel import (
    BACKWARD,
    BACKWARD_WEIGHT,
    CALIBRATE,
    FORWARD,
    FORWARD_TEXT,
    INPUTS_ONLY,
    OPTIMIZER,
    PLAIN_FLOATS,
    SGD_TEXT,
    Kernel,
    Parameter,
    Setting,
    Workload,
    no_contraction,
)

_DENSE = (
    "the dense gradient of the table from a given gradient of the result (zeros, then the rows"
    " that were looked up); the forward pass is not in the time"
)


def _prepare(given: Setting) -> Workload:
    import torch

    table = given.place(torch.nn.Embedding(given.size("rows"), given.size("columns")))

    def inputs() -> tuple[torch.Tensor]:
        rows, lookups = given.size("rows"), given.size("lookups")
        return (torch.randint(0, rows, (lookups,), device=given.device),)

    return Workload(inputs, table, tuple(table.parameters()))


KERNEL = Kernel(
    name="embedding",
    title="embedding",
    parameters=(
        Parameter("rows", "rows of the table", 50_000, (1_000, 50_000, 200_000), (1_000, 50_000)),
        Parameter("columns", "columns", 256, (64, 256, 1024), ()),
        Parameter("lookups", "lookups", 4096, (256, 4096, 65_536), (256, 4096)),
    ),
    passes={
        CALIBRATE: INPUTS_ONLY,
        FORWARD: FORWARD_TEXT,
        BACKWARD: _DENSE,
        BACKWARD_WEIGHT: _DENSE,
        OPTIMIZER: SGD_TEXT,
    },
    prepare=_prepare,
    contraction=no_contraction,
    precisions=PLAIN_FLOATS,
)
