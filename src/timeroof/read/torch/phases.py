"""Phases of training, from the names that PyTorch and its users give to stretches of time."""

from __future__ import annotations

import re

UNMARKED, FORWARD, BACKWARD, OPTIMIZER, DATA, OTHER = range(6)
PHASE_NAMES = [None, "forward", "backward", "optimizer", "data", "other"]

_BACKWARD_OP = re.compile(r"autograd::engine::evaluate_function|.*Backward\d*$")
_ANNOTATIONS = (
    (OPTIMIZER, re.compile(r"optimizer\.(step|zero_grad)|(optimizer|zero_grad)\b", re.I)),
    (DATA, re.compile(r"enumerate\(dataloader|(load_batch|wait_for_batch|data_?load\w*)\b", re.I)),
    (BACKWARD, re.compile(r"backward(\b|_)", re.I)),
    (FORWARD, re.compile(r"forward(\b|_)|distributeddataparallel\.forward", re.I)),
)


def op_phase(name: str) -> int:
    """The phase that an op's name alone gives.

    >>> op_phase("autograd::engine::evaluate_function: MmBackward0") == BACKWARD
    True
    >>> op_phase("aten::mm") == UNMARKED
    True
    """
    return BACKWARD if _BACKWARD_OP.match(name) else UNMARKED


def annotation_phase(name: str) -> int:
    """The phase that an annotation's name gives.

    >>> annotation_phase("Optimizer.step#SGD.step") == OPTIMIZER
    True
    >>> annotation_phase("## forward:bottom_mlp ##") == FORWARD
    True
    >>> annotation_phase("ProfilerStep#5") == UNMARKED
    True
    """
    bare = name.strip("# \t")
    return next((phase for phase, names in _ANNOTATIONS if names.match(bare)), UNMARKED)
