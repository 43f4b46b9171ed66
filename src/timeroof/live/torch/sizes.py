"""Whether a program's sizes change from step to step: two described steps held side by side."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from timeroof.live.torch.alignment import pairs
from timeroof.live.torch.compiling import is_glue
from timeroof.live.torch.recording import Described, TensorSeen, TimedStep, leaves

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]


@dataclass(frozen=True)
class Changed:
    """Which share of the ops that are in both steps has other sizes, and one of them."""

    share: float
    op: str
    then: Shape | None
    now: Shape | None

    @property
    def example(self) -> str:
        """The op and the tensor of it that changed.

        >>> Changed(0.5, "aten::bmm", (8, 1, 17), (8, 1, 724)).example
        'aten::bmm 8x1x17, then 8x1x724'
        """
        return f"{self.op} {_text(self.then)}, then {_text(self.now)}"


def changed_sizes(first: Sequence[Described], last: Sequence[Described]) -> Changed | None:
    """What changed between two steps; None where ops that are in both have the same sizes."""
    compared, changed = 0, 0
    largest = (False, -1)
    example: Changed | None = None
    for before, after in _matched(first, last):
        then, now = _shapes(before), _shapes(after)
        if not then and not now:
            continue
        compared += 1
        if then != now:
            changed += 1
            a, b = next((a, b) for a, b in zip_longest(then, now) if a != b)
            # Ops that make something tell more than views.
            size = (_is_new(after), max(math.prod(a or ()), math.prod(b or ())))
            if size > largest:
                largest, example = size, Changed(0.0, after.name, a, b)
    return None if example is None else replace(example, share=changed / compared)


def _matched(
    first: Sequence[Described], last: Sequence[Described]
) -> Iterator[tuple[Described, Described]]:
    """Ops of two steps by the order of their names, per thread."""
    theirs = _by_thread(first)
    for thread, ops in _by_thread(last).items():
        before = theirs.get(thread, [])
        for a, b in pairs([o.name for o in before], [o.name for o in ops]):
            yield before[a], ops[b]


def _by_thread(ops: Sequence[Described]) -> dict[int, list[Described]]:
    found: dict[int, list[Described]] = defaultdict(list)
    for op in ops:
        if op.scope == 0 and not is_glue(op.name, op.sequence):
            found[op.thread].append(op)
    return found


def _shapes(op: Described) -> Shapes:
    return tuple(t.shape for t in leaves((op.inputs, op.outputs)) if isinstance(t, TensorSeen))


def _is_new(op: Described) -> bool:
    """Whether its results are no views of what it was given."""
    given = {t.storage for t in leaves(op.inputs) if isinstance(t, TensorSeen)}
    made = {t.storage for t in leaves(op.outputs) if isinstance(t, TensorSeen)}
    return bool(made - given)


def _text(shape: Shape | None) -> str:
    if shape is None:
        return "no such tensor"
    return "x".join(map(str, shape)) or "a scalar"


def nearer_to_last(timed: Sequence[TimedStep], first: int, last: int) -> list[TimedStep]:
    """The timed steps that are not nearer to the first described one than to the last."""
    return [s for s in timed if abs(s.number - last) <= abs(s.number - first)]
