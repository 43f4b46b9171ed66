"""Rows of a table looked up by random indices; the weight gradient is dense."""

from __future__ import annotations

from timeroof.study import case as k
from timeroof.study.case import Kernel, Parameter, Setting, Workload

_DENSE = (
    "the dense gradient of the table from a given gradient of the result (zeros, then the rows"
    " that were looked up); the forward pass is not in the time"
)


def _prepare(given: Setting) -> Workload:
    import torch

    rows, columns, lookups = given.sizes("rows", "columns", "lookups")
    table = given.place(torch.nn.Embedding(rows, columns))
    return Workload.of(table, lambda: (torch.randint(0, rows, (lookups,), device=given.device),))


KERNEL = Kernel(
    name="embedding",
    parameters=(
        Parameter("rows", 50_000, (1_000, 50_000, 200_000), (1_000, 50_000)),
        Parameter("columns", 256, (64, 256, 1024), ()),
        Parameter("lookups", 4096, (256, 4096, 65_536), (256, 4096)),
    ),
    prepare=_prepare,
    passes={
        name: _DENSE if name in (k.BACKWARD, k.BACKWARD_WEIGHT) else text
        for name, text in k.LAYER_PASSES.items()
        if name != k.BACKWARD_INPUT
    },
    precisions=k.PLAIN_FLOATS,
)
