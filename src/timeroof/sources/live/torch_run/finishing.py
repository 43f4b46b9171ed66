"""What is read once a program has ended: described steps, compiled kernels, the cost of events."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from timeroof.sources.live.torch_run.calibration import Calibration
from timeroof.sources.live.torch_run.compiling import missing_compiler
from timeroof.sources.live.torch_run.describing import Describing
from timeroof.sources.live.torch_run.inductor.folding import folded
from timeroof.sources.live.torch_run.inductor.hooks import Workshop
from timeroof.sources.live.torch_run.ranking import rank_of_process
from timeroof.sources.live.torch_run.recording import Recording
from timeroof.sources.live.torch_run.sampling import slow_clean_note


def read_surroundings(found: Recording) -> None:
    """Threads, rank and devices of the program."""
    import torch

    found.threads = torch.get_num_threads()
    found.rank = found.rank if found.rank is not None else rank_of_process()
    cuda: Any = torch.cuda
    found.uses_gpu = bool(cuda.is_available() and cuda.is_initialized())


def read_described(found: Recording, pending: Sequence[Describing], workshop: Workshop) -> None:
    """The last described step that can be read, and the kernels that Inductor made of its ops."""
    for source in pending:
        try:
            found.described = source.read() or found.described
        except Exception as error:
            found.why_undescribed = f"a described step cannot be read ({error})"
            found.note(found.why_undescribed)
    found.compiled = workshop.kernels
    found.described = folded(found.described, found.compiled, workshop.graphs)
    missing = missing_compiler()
    if missing is not None:
        found.note(missing)


def read_event_cost(found: Recording, calibration: Calibration) -> None:
    """What an event of the profiler cost, and whether clean steps can be believed."""
    if found.timed or found.block is not None:
        with contextlib.suppress(Exception):
            block = [] if found.block is None else [found.block]
            cost = calibration.cost(found.timed or block)
            if cost is not None:
                found.event_cost_ns, found.event_cost_error_ns = cost
    slow = slow_clean_note(found)
    if slow is not None:
        found.note(slow)
