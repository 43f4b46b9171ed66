"""What cannot be recorded, why, and what would help.

Torch's execution trace cannot write some tensors down: it may then end the whole program.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

from timeroof.live.torch.unseen import unseen

_NAMES = ("sparse_csr", "sparse_csc", "sparse_bs", "sparse_compressed", "crow_indices", "ccol_")
WHY = (
    "the program has compressed sparse tensors (CSR or alike), which torch cannot describe: no step"
    " was described, shapes and amounts are unknown"
)
OTHER_TRACE = "another execution trace is being recorded: no step is described"
OWN_PROFILER = (
    "no step was timed, the program's own torch.profiler was on in all that would have been: switch"
    " it off, or let it write its trace and use `timeroof read`"
)
INSIDE_ANOTHER = (
    "nothing was measured: `timeroof run`, another timeroof.profile or torch.profiler was on around"
    " this block; use one of them at a time"
)
NEVER_ENTERED = "nothing was measured: the timeroof.profile block was never entered"
EMPTY_BLOCK = "nothing was measured: no op of torch ran in the block"


def cannot_describe(op_names: Iterable[str]) -> bool:
    """Whether compressed sparse tensors are about: among the ops that ran, or alive.

    >>> cannot_describe(["aten::_sparse_csr_sum"])
    True
    """
    if any(part in name for name in op_names for part in _NAMES):
        return True
    import torch

    kinds: tuple[Any, ...] = (
        torch.sparse_csr,
        torch.sparse_csc,
        torch.sparse_bsr,
        torch.sparse_bsc,
    )
    with unseen():
        return any(type(t) is torch.Tensor and t.layout in kinds for t in gc.get_objects())
