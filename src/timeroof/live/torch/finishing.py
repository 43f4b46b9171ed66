"""What is read once a program has ended: described steps, compiled kernels, the cost of events."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from timeroof.live.torch.calibration import Calibration
from timeroof.live.torch.compiling import missing_compiler
from timeroof.live.torch.describing import Describing
from timeroof.live.torch.inductor.folding import folded
from timeroof.live.torch.inductor.hooks import Workshop
from timeroof.live.torch.ranking import rank_of_process
from timeroof.live.torch.recording import Described, Recording
from timeroof.live.torch.sampling import slow_clean_note, stand_in
from timeroof.live.torch.sizes import changed_sizes, nearer_to_last


def read_surroundings(found: Recording) -> None:
    """Threads, rank and devices of the program."""
    import torch

    found.threads = torch.get_num_threads()
    found.rank = found.rank if found.rank is not None else rank_of_process()
    cuda: Any = torch.cuda
    found.uses_gpu = bool(cuda.is_available() and cuda.is_initialized())


def read_described(found: Recording, pending: Sequence[Describing], workshop: Workshop) -> None:
    """The described step that stands for the others, and the kernels that Inductor made.

    The first one that can be read; where sizes have changed since, the last one.
    """
    found.compiled = workshop.kernels
    read: list[tuple[int, list[Described]]] = []
    for source in pending:
        try:
            ops = source.read()
        except Exception as error:
            found.why_undescribed = f"a described step cannot be read ({error})"
            found.note(found.why_undescribed)
            continue
        if ops:
            read.append((source.number, folded(ops, found.compiled, workshop.graphs)))
    if read:
        found.described = read[0][1]
    if len(read) > 1:
        _mind_sizes(found, read[0], read[-1])
    missing = missing_compiler()
    if missing is not None:
        found.note(missing)


def _mind_sizes(
    found: Recording, first: tuple[int, list[Described]], last: tuple[int, list[Described]]
) -> None:
    """Where sizes change from step to step, times and amounts are to be of the same steps."""
    changed = changed_sizes(first[1], last[1])
    if changed is None:
        return
    near = nearer_to_last(found.timed, first[0], last[0])
    if near:
        found.described, found.timed = last[1], near
    used = last[0] if near else first[0]
    steps = "1 timed step" if len(near) == 1 else f"{len(near)} timed steps"
    times = f"times of ops those of {steps} near it" if near else "all timed steps are before it"
    found.note(
        f"sizes change from step to step: {_share_words(changed.share)} of the ops that were"
        f" described in step {first[0]} and again in step {last[0]} had other sizes"
        f" ({changed.example}); amounts are those of step {used}, {times}"
    )


def _share_words(share: float) -> str:
    """A share that is not nothing never reads 0%.

    >>> _share_words(0.5), _share_words(0.001)
    ('50%', 'under 1%')
    """
    return f"{share:.0%}" if share >= 0.005 else "under 1%"


def read_event_cost(found: Recording, calibration: Calibration) -> None:
    """What an event of the profiler cost, and whether clean steps can be believed."""
    if found.timed or found.block is not None:
        with contextlib.suppress(Exception):
            block = [] if found.block is None else [found.block]
            cost = calibration.cost(found.timed or block)
            if cost is not None:
                found.event_cost_ns, found.event_cost_error_ns = cost
    stand_in(found)
    slow = slow_clean_note(found)
    if slow is not None:
        found.note(slow)
