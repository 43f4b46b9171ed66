"""Sizes that change from step to step: times and amounts are to be of the same steps."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from timeroof.live.alignment import pairs
from timeroof.live.kind import Kind, is_alike
from timeroof.live.recording import OP_SCOPE, Described, Recording, TimedStep, tensors_in

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
        if op.scope == OP_SCOPE:
            found[op.thread].append(op)
    return found


def _shapes(op: Described) -> tuple[Shape, ...]:
    return tuple(t.shape for t in tensors_in((op.inputs, op.outputs)))


def _text(shape: Shape | None) -> str:
    return "no such tensor" if shape is None else "x".join(map(str, shape)) or "a scalar"


def nearer_to_last(timed: Sequence[TimedStep], first: int, last: int) -> list[TimedStep]:
    """The timed steps that are not nearer to the first described one than to the last."""
    return [s for s in timed if abs(s.number - last) <= abs(s.number - first)]


def mind_sizes(
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


# Modules called with ever other sizes: one size stands for all, in times as in amounts.


def choose_size(kind: Kind, described: set[int]) -> None:
    """Of a kind whose sizes vary, let the described step stand for all that is nearest to the
    middle size."""
    own = [step for step in kind.steps if step.number in described and step.volume]
    volumes = sorted(step.volume for step in kind.steps if step.volume)
    if not kind.sizes_vary or not own or volumes[0] == volumes[-1]:
        return
    middle = volumes[len(volumes) // 2]
    kind.volume = min(own, key=lambda step: _distance(step.volume, middle)).volume
    kind.forget()


def _distance(one: int, other: int) -> float:
    return abs(math.log(one / other))


def nearest_in_size(kind: Kind, timed: Sequence[TimedStep]) -> list[TimedStep]:
    """Timed steps of about the chosen size; the nearest one where there is none."""
    volumes = {step.number: step.volume for step in kind.steps}
    chosen = kind.volume or 1
    near = [step for step in timed if is_alike(volumes[step.number] or 1, chosen)]
    nearest = sorted(timed, key=lambda step: _distance(volumes[step.number] or 1, chosen))
    return near or nearest[:1]


def varying_note(kind: Kind) -> str:
    """Which sizes there were, and which one the rows are of."""
    by_volume = sorted((s for s in kind.steps if s.volume), key=lambda step: step.volume)
    least, most = by_volume[0], by_volume[-1]
    chosen = next(step for step in by_volume if step.volume == kind.volume)
    return (
        f"Sizes change from step to step ({_text(least.sizes[0])} to {_text(most.sizes[0])})."
        f" Times and amounts are those of steps of about {_text(chosen.sizes[0])}."
    )
