"""Names of ours around a program's ops."""

from __future__ import annotations

from typing import Any


class Annotation:
    """A name around ops that the program's dispatch modes (FlopCounterMode, a logger) do not see.

    A mode would get to see an op of the profiler's that is none of the program's. What it does
    with it is an event around the opening of the name, which ends first and takes the name along.
    """

    def __init__(self, name: str) -> None:
        import torch

        self._hidden: Any = torch._C._DisableTorchDispatch
        self._annotation: Any = torch.autograd.profiler.record_function(name)

    def __enter__(self) -> None:
        with self._hidden():
            self._annotation.__enter__()

    def __exit__(self, *error: object) -> None:
        with self._hidden():
            self._annotation.__exit__(None, None, None)
