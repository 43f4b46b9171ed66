"""Softmax over the last dimension."""

from __future__ import annotations

from timeroof.study.kernel import Kernel, Parameter, Setting, Workload


def _prepare(given: Setting) -> Workload:
    import torch

    shape = given.sizes("rows", "columns")
    return Workload(lambda: (given.random(*shape),), lambda x: torch.softmax(x, -1))


KERNEL = Kernel(
    name="softmax",
    title="softmax",
    parameters=(
        Parameter("rows", "rows", 4096, (256, 1024, 4096, 16384), (1024, 4096)),
        Parameter("columns", "columns", 1024, (256, 1024, 4096), (256, 1024)),
    ),
    prepare=_prepare,
)
