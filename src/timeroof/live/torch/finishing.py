"""What is read once a program has ended: described steps, compiled kernels, the cost of events."""

from __future__ import annotations

import gc
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from timeroof.core.errors import ignoring, trace_ignored
from timeroof.live.torch.alignment import pairs
from timeroof.live.torch.calibration import Calibration
from timeroof.live.torch.compiling import is_glue, missing_compiler
from timeroof.live.torch.describing import Describing
from timeroof.live.torch.inductor.calls import folded
from timeroof.live.torch.inductor.hooks import Workshop
from timeroof.live.torch.process import rank_of_process, unseen
from timeroof.live.torch.recording import OP_SCOPE, Described, Recording, TimedStep, tensors_in
from timeroof.live.torch.schedule import stand_in
from timeroof.live.torch.timing import used_devices

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Changed:
    """Which share of the ops that are in both of two steps has other sizes, and one of them."""

    share: float
    op: str
    then: Shape | None
    now: Shape | None

    @property
    def example(self) -> str:
        """The op and the tensor of it that changed."""
        return f"{self.op} {_text(self.then)}, then {_text(self.now)}"


def changed_sizes(first: Sequence[Described], last: Sequence[Described]) -> Changed | None:
    """What changed between two steps; None where ops that are in both have the same sizes."""
    both = [(_shapes(a), _shapes(b), b) for a, b in _matched(first, last)]
    compared = [each for each in both if each[0] or each[1]]
    changed = []
    for then, now, op in compared:
        if then != now:
            a, b = next((a, b) for a, b in zip_longest(then, now) if a != b)
            # Ops that make something tell more than views, and large ones more than small ones.
            made = {t.storage for t in tensors_in(op.outputs)}
            is_new = bool(made - {t.storage for t in tensors_in(op.inputs)})
            telling = (is_new, max(math.prod(a or ()), math.prod(b or ())))
            changed.append((telling, Changed(0.0, op.name, a, b)))
    if not changed:
        return None
    _, example = max(changed, key=lambda each: each[0])
    return replace(example, share=len(changed) / len(compared))


def _matched(
    first: Sequence[Described], last: Sequence[Described]
) -> Iterator[tuple[Described, Described]]:
    theirs = _by_thread(first)
    for thread, ops in _by_thread(last).items():
        before = theirs.get(thread, [])
        for a, b in pairs([o.name for o in before], [o.name for o in ops]):
            yield before[a], ops[b]


def _by_thread(ops: Sequence[Described]) -> dict[int, list[Described]]:
    found: dict[int, list[Described]] = defaultdict(list)
    for op in ops:
        if op.scope == OP_SCOPE and not is_glue(op.name, op.sequence):
            found[op.thread].append(op)
    return found


def _shapes(op: Described) -> tuple[Shape, ...]:
    return tuple(t.shape for t in tensors_in((op.inputs, op.outputs)))


def _text(shape: Shape | None) -> str:
    return "no such tensor" if shape is None else "x".join(map(str, shape)) or "a scalar"


def nearer_to_last(timed: Sequence[TimedStep], first: int, last: int) -> list[TimedStep]:
    """The timed steps that are not nearer to the first described one than to the last."""
    return [s for s in timed if abs(s.number - last) <= abs(s.number - first)]


def read_surroundings(found: Recording) -> None:
    """Threads, rank and devices of the program."""
    import torch

    found.threads = torch.get_num_threads()
    found.rank = found.rank if found.rank is not None else rank_of_process()
    found.uses_gpu = "cuda" in used_devices()


def read_described(found: Recording, pending: Sequence[Describing], workshop: Workshop) -> None:
    """The described step that stands for the others, and the kernels that Inductor made. The first
    one that can be read; where sizes have changed since, the last one."""
    found.compiled = workshop.kernels
    read: list[tuple[int, list[Described]]] = []
    for source in pending:
        try:
            ops = source.read()
        except Exception as error:
            trace_ignored("a described step was lost")
            found.undescribed(f"a described step cannot be read ({error})")
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
    share = f"{changed.share:.0%}" if changed.share >= 0.005 else "under 1%"
    steps = "1 timed step" if len(near) == 1 else f"{len(near)} timed steps"
    times = f"times of ops those of {steps} near it" if near else "all timed steps are before it"
    found.note(
        f"sizes change from step to step: {share} of the ops that were"
        f" described in step {first[0]} and again in step {last[0]} had other sizes"
        f" ({changed.example}); amounts are those of step {used}, {times}"
    )


def read_event_cost(found: Recording, calibration: Calibration) -> None:
    """What an event of the profiler cost, and what stands in for a clean step."""
    steps = found.timed or ([] if found.block is None else [found.block])
    if steps:
        with ignoring("the cost of an event was not measured"):
            cost = calibration.cost(steps)
            if cost is not None:
                found.event_cost_ns, found.event_cost_error_ns = cost
    stand_in(found)


# Torch's execution trace cannot write some tensors down: it may then end the whole program.
_NAMES = ("sparse_csr", "sparse_csc", "sparse_bs", "sparse_compressed", "crow_indices", "ccol_")
COMPRESSED = (
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

    kinds = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
    with unseen():
        return any(type(t) is torch.Tensor and t.layout in kinds for t in gc.get_objects())
