"""The described pass: torch's execution trace (tensors, storages, results) and modules' calls."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from timeroof_recorder.process import QuietErrors
from timeroof_recorder.torch.inductor.calls import CompiledCalls
from timeroof_recorder.torch.inductor.hooks import CompiledGraph
from timeroof_recorder.torch.lines import ModuleNames, SourceLines
from timeroof_recorder.torch.unseen import unseen

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.profiler import ExecutionTraceObserver

# Whoever describes at the moment: at most one in a process.
_ON: list[Describing] = []


class Describing:
    """Switches torch's ExecutionTraceObserver and the modules' names on and off."""

    def __init__(
        self, graphs: list[CompiledGraph] | None = None, *, with_lines: bool = False,
        root_called: Callable[[Module], None] = lambda module: None,
    ) -> None:  # fmt: skip
        self._graphs = graphs if graphs is not None else []
        self._compiled = CompiledCalls(self._graphs)
        self._with_lines, self._lines = with_lines, SourceLines()
        self._observer: ExecutionTraceObserver | None = None
        self._modules = ModuleNames(root_called)

    def start(self, path: str, entered: Module | None = None) -> bool:
        """Begin to record into a file, perhaps inside a module's call; False where another
        observer is on."""
        from torch.profiler import ExecutionTraceObserver

        # Torch ends the program over a second observer that is started while one is on.
        if _ON:
            return False
        observer = ExecutionTraceObserver()
        observer.register_callback(path)
        if not observer._registered:
            return False
        self._observer = observer
        _ON.append(self)
        with QuietErrors():
            observer.start()
        self._modules.attach(entered)
        self._compiled.attach()
        # Compiled code would be compiled anew for the mode; it brings its lines itself.
        if self._with_lines and not self._graphs:
            self._lines.attach()
        return True

    def stop(self) -> None:
        """End the recording; the file is whole then."""
        self._lines.detach()
        self._compiled.detach()
        self._modules.detach()
        if self._observer is not None:
            with QuietErrors():
                self._observer.stop()
                self._observer.unregister_callback()
            self._observer = None
            _ON.remove(self)


# Torch's execution trace cannot write some tensors down: it may then end the whole program.
_NAMES = ("sparse_csr", "sparse_csc", "sparse_bs", "sparse_compressed", "crow_indices", "ccol_")


def cannot_describe(op_names: Iterable[str]) -> bool:
    """Whether compressed sparse tensors are about: among the ops that ran, or alive.

    >>> cannot_describe(["aten::_sparse_csr_sum"])
    True
    """
    if any(part in name for name in op_names for part in _NAMES):
        return True
    import torch

    kinds = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
    with unseen():
        return any(type(t) is torch.Tensor and t.layout in kinds for t in gc.get_objects())
