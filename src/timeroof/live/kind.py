"""One kind of steps: as they were recorded, what they took, what it is called, sizes that vary."""

from __future__ import annotations

import math
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from statistics import median
from typing import NamedTuple

from timeroof.live.recording import OP_SCOPE, Described, Recording, TimedStep, pairs, tensors_in
from timeroof_recorder.schedule import INSTRUMENTED, UNSETTLED, UNTOUCHED, Pass

OTHER, WARM_UP = "other steps", "warm-up"
# Unprofiled steps beside a profiled one that tell what it would have taken.
NEAREST = 5
# Steps whose sizes differ at most so much are like one another.
ALIKE = 1.2


class StepSeen(NamedTuple):
    """One step as it was recorded."""

    number: int
    pass_: str
    duration_ns: int
    faults: int
    kind: int
    is_foreign: bool
    # Elapsed, own, waiting for a CPU (ns), voluntary switches, other threads' waiting; or None.
    clocks: tuple[int, int, int, int | None, int] | None
    end_ns: int
    # What its thread waited for a CPU, where somebody looked, the sizes of calls, where its kind
    # does not tell, and its thread's CPU time (0: nobody looked).
    waited_ns: int = 0
    sizes: tuple[tuple[int, ...], ...] = ()
    cpu_ns: int = 0

    @property
    def own_ns(self) -> int:
        """The step's time without waiting for a CPU, which never is less than its CPU time."""
        return max(self.cpu_ns, self.duration_ns - self.waited_ns)

    @property
    def is_plain(self) -> bool:
        """Whether nothing was switched on."""
        return self.pass_ in (*UNTOUCHED, *UNSETTLED) and not self.is_foreign

    @property
    def is_first(self) -> bool:
        """Whether it is the first, and whole: parts of it were not profiled as steps."""
        return self.number == 1 and self.kind >= 0

    @property
    def volume(self) -> int:
        """How many elements modules were called with, a call of each size counting once."""
        return sum(math.prod(shape) for shape in self.sizes)


class KindKey(NamedTuple):
    """What tells steps apart: what happened in them, with which sizes, and whether one seemed long
    to the recorder, which knew those before it only."""

    items: tuple[tuple[object, ...], ...] = ()
    sizes: object = ()
    is_long: bool = False


@dataclass
class Kind:
    """Steps of one kind."""

    name: str
    phase: str | None
    numbers: set[int] = field(default_factory=set)
    steps: list[StepSeen] = field(default_factory=list)
    # Of steps that were not kept one by one: how many, and their nanoseconds.
    later: tuple[int, int] = (0, 0)
    sizes_vary: bool = False
    is_long: bool = False
    # Where sizes vary: steps with about so many elements stand for all of them.
    volume: int | None = None

    @property
    def count(self) -> int:
        """How many steps there were."""
        return len(self.steps) + self.later[0]

    def forget(self) -> None:
        """Steps have come, or others are to stand for all: figures are worked out again."""
        for computed in ("typical", "median_s", "total_s", "estimates_ns"):
            vars(self).pop(computed, None)

    @cached_property
    def typical(self) -> list[StepSeen]:
        """The steps that stand for all: where sizes vary, those of about the chosen one."""
        if self.volume is None:
            return self.steps
        near = [s for s in self.steps if is_alike(s.volume, self.volume)]
        return near if any(step.is_plain for step in near) else self.steps

    @cached_property
    def median_s(self) -> float | None:
        """The median unprofiled step; a step that was still settling stands in, then one that began
        before anybody looked, then a profiled one."""
        unseen: tuple[str, ...] = (Pass.UNSEEN,)
        for passes in (UNTOUCHED, UNSETTLED, unseen, INSTRUMENTED):
            times = [s.duration_ns for s in self.typical if s.pass_ in passes and not s.is_foreign]
            if any(times):
                return median(times) / 1e9
        return None

    @cached_property
    def total_s(self) -> float:
        """Seconds of all its steps, profiled ones as long as the unprofiled ones beside them."""
        return (sum(self.estimates_ns) + self.later[1]) / 1e9

    @cached_property
    def estimates_ns(self) -> list[float]:
        """What each step would have taken without instruments."""
        plain = [step for step in self.steps if step.pass_ in UNTOUCHED and not step.is_foreign]
        plain = plain or [step for step in self.steps if step.is_plain]
        places = [step.number for step in plain]
        slowed = (*INSTRUMENTED, Pass.UNSEEN)
        return [
            float(step.duration_ns) if step.pass_ not in slowed or step.is_first or not plain
            else min(float(step.duration_ns), _beside(plain, bisect(places, step.number)))
            for step in self.steps
        ]  # fmt: skip


def _beside(plain: Sequence[StepSeen], place: int) -> float:
    """The usual time of the unprofiled steps around a place."""
    low = max(0, min(place - NEAREST // 2 - 1, len(plain) - NEAREST))
    return median(step.duration_ns for step in plain[low : low + NEAREST])


def is_alike(one: int, other: int) -> bool:
    """Whether two numbers of elements are about the same.

    >>> is_alike(100, 115), is_alike(100, 130)
    (True, False)
    """
    return max(one, other) <= ALIKE * min(one, other)


# Names for people: what a step does, then what sets it apart from others that do the same.


def name_kinds(kinds: list[Kind], keys: Mapping[int, KindKey]) -> None:
    """Give kinds their names: what a step does, then what sets it apart."""
    named = [kind for kind in kinds if not kind.name]
    shown = {id(kind): keys[_usual_number(kind)] for kind in named}
    trains = any(_work(shown[id(kind)].items)[0] == "training" for kind in named)
    for kind in named:
        kind.name, kind.phase = _words(kind, shown[id(kind)], trains)
    for kind in _doubles(named):
        kind.name = f"{kind.name}, {_sizes(shown[id(kind)].sizes)}" if not kind.sizes_vary else (
            f"{kind.name}, varying sizes"
        )  # fmt: skip
    for kind in _doubles(named):
        kind.name = f"{kind.name} ({_calls(shown[id(kind)].items)})"
    seen: Counter[str] = Counter()
    for kind in named:
        seen[kind.name] += 1
        if seen[kind.name] > 1:
            kind.name = f"{kind.name} {seen[kind.name]}"


def _usual_number(kind: Kind) -> int:
    """What the recorder called most of its steps."""
    counts = Counter(step.kind for step in kind.steps if step.kind >= 0)
    return counts.most_common(1)[0][0] if counts else min(kind.numbers)


def _doubles(kinds: Iterable[Kind]) -> list[Kind]:
    several = Counter(kind.name for kind in kinds)
    return [kind for kind in kinds if several[kind.name] > 1]


def _work(items: Sequence[tuple[object, ...]]) -> tuple[str, str]:
    """What a step does, and what it does besides."""
    flags = {str(item[2]) for item in items if item[0] == "forward" and len(item) > 3}
    steps = [item for item in items if item[0] == "optimizer"]
    flags -= {""}  # nobody knows
    silent = {flag for flag in flags if "grad" not in flag}
    if steps:
        if not silent:
            return "training", ""
        return "training", "evaluation" if "eval" in silent else "inference"
    if flags and not flags - silent:
        return "inference", ""
    if any("train" in flag and "grad" in flag for flag in flags):
        return "training", "evaluation" if silent else ""
    return ("inference", "") if flags else ("step", "")


def _words(kind: Kind, key: KindKey, trains: bool) -> tuple[str, str | None]:
    work, more = _work(key.items)
    phase = "forward" if work == "inference" else None
    if work == "inference" and trains:
        work = "evaluation"
    name = f"{work} with {more}" if more else work
    if kind.is_long:
        name = f"{name} with other work" if not more else f"{name} and other work"
    return name, phase


def _sizes(sizes: object) -> str:
    """The sizes of calls as people write them.

    >>> _sizes(((64, 784), (64, 784), (32,)))
    '64x784 and 32'
    """
    shapes = list(dict.fromkeys(sizes)) if isinstance(sizes, tuple) else []
    texts = ["x".join(map(str, shape)) or "scalars" for shape in shapes if isinstance(shape, tuple)]
    return " and ".join(texts[:2]) or "no module called"


def _calls(items: Sequence[tuple[object, ...]]) -> str:
    """How often what was called, roughly. A function that updates by itself is named once.

    >>> _calls([("forward", "net", "train grad", 2), ("optimizer", "SGD", 1)])
    'net 2×, SGD.step 1×'
    >>> _calls([("forward", "train_step", "train grad", 1), ("optimizer", "train_step", 1)])
    'train_step 1×'
    """
    called = {item[1] for item in items if item[0] != "optimizer"}
    texts = [
        f"{item[1]}.step {item[-1]}×" if item[0] == "optimizer" else f"{item[1]} {item[-1]}×"
        for item in items
        if item[0] != "optimizer" or item[1] not in called
    ]
    return ", ".join(texts[:3]) or "nothing that marks it"


# Sizes that change from step to step: times and amounts are to be of the same steps.


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
    times = f"Op times are those of {steps} near it" if near else "All timed steps are before it"
    found.note(
        f"Sizes change from step to step: {share} of the ops that were"
        f" described in step {first[0]} and again in step {last[0]} had other sizes"
        f" ({changed.example}). Amounts are those of step {used}. {times}."
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
