"""Kinds of steps: which steps did the same, what they are called, and whose time the run was."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from timeroof.core.profile import StepKind
from timeroof_recorder.schedule import UNSETTLED, UNTOUCHED, Pass

# Kinds that are told apart; what is left over is one more.
MOST_KINDS = 8
OTHER = "other steps"
# Single steps this early are no kind: what happened before is in them.
FIRST_STEPS = 2
# Steps that took so many times longer for no known reason are a kind of their own where they hold
# this share of the time, and the longest of the others' steps are shorter than most of them.
LONGER, LEAST_LONGER = 4.0, 0.1
# Unprofiled steps that tell what is usual.
LEAST_USUAL = 4
# The share of gaps between longer steps that are the same, on a machine that others use as well.
LEAST_REGULAR = 0.6
VARYING = "varying"


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
    # What its thread waited for a CPU, where somebody looked, and the sizes of calls, where its
    # kind does not tell.
    waited_ns: int = 0
    sizes: tuple[tuple[int, ...], ...] = ()

    @property
    def own_ns(self) -> int:
        """The step's time without waiting for a CPU."""
        return max(0, self.duration_ns - self.waited_ns)


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

    @property
    def count(self) -> int:
        """How many steps there were."""
        return len(self.steps) + self.later[0]

    @property
    def median_s(self) -> float | None:
        """The median unprofiled step; a step that was still settling stands in."""
        for passes in (UNTOUCHED, UNSETTLED):
            times = [s.duration_ns for s in self.steps if s.pass_ in passes and not s.is_foreign]
            if times:
                return median(times) / 1e9
        return None

    @property
    def total_s(self) -> float:
        """Seconds of all its steps, profiled ones as long as unprofiled ones are."""
        usual_ns = (self.median_s or 0.0) * 1e9
        own = sum(
            s.duration_ns if s.pass_ in (*UNTOUCHED, *UNSETTLED, Pass.UNSEEN) or not usual_ns
            else min(s.duration_ns, usual_ns)
            for s in self.steps
        )  # fmt: skip
        return (own + self.later[1]) / 1e9


def kinds_of(
    steps: Sequence[StepSeen], keys: Mapping[int, KindKey], later: Mapping[int, tuple[int, int]],
    *, is_busy: bool = False,
) -> list[Kind]:  # fmt: skip
    """The kinds of a run, most time first; those of little time are one together. Beside other
    programs (`is_busy`) steps that took longer are a kind only where they come regularly."""
    members: dict[tuple[object, ...], set[int]] = defaultdict(set)
    varying = {key.items for key in keys.values() if key.sizes == VARYING}
    for number, key in keys.items():
        # Too many sizes to be told apart: those that came first are of the same kind.
        sizes = VARYING if key.items in varying else key.sizes
        members[key.items, sizes].add(number)
    by_number: dict[int, list[StepSeen]] = defaultdict(list)
    for step in steps:
        by_number[step.kind].append(step)
    found = []
    for numbers in members.values():
        own = sorted((s for n in numbers for s in by_number[n]), key=lambda s: s.number)
        more = [later.get(n, (0, 0)) for n in numbers]
        kind = Kind("", None, numbers, own, (sum(n for n, _ in more), sum(ns for _, ns in more)))
        kind.sizes_vary = any(keys[n].items in varying for n in numbers)
        if kind.count:
            found.append(kind)
    _join_unknown(found, keys)
    found = _without_chance(found)
    found = [part for kind in found for part in _without_long(kind, is_busy=is_busy)]
    found.sort(key=lambda kind: -kind.total_s)
    kept = _with_rest(found)
    _name(kept, keys)
    return kept


def _without_chance(found: list[Kind]) -> list[Kind]:
    """Kinds without single steps at the beginning: those belong to the kind that follows."""
    kept: list[Kind] = []
    for kind in found:
        is_first = kind.count == 1 and kind.steps and kind.steps[0].number <= FIRST_STEPS
        others = [other for other in found if other.count > 1 and other.steps]
        if not is_first or not others:
            kept.append(kind)
            continue
        goes_to = min(others, key=lambda other: other.steps[0].number)
        join(goes_to, kind)
    return kept


def _join_unknown(found: list[Kind], keys: Mapping[int, KindKey]) -> None:
    """Steps of which nobody knows what was called belong to others that step the same: those from
    before anybody knew what a step is to the kind that follows, those whose modules were not
    watched (the next fold has its own) to the most frequent one with the same optimizers."""
    known = [kind for kind in found if kind.steps and _calls_of(kind, keys)]
    for kind in list(found):
        if kind in known or not known:
            continue
        steps = _updates(keys[min(kind.numbers)])
        same = [other for other in known if _updates(keys[min(other.numbers)]) == steps]
        if kind.numbers == {-1}:
            join(min(known, key=lambda other: other.steps[0].number), kind)
        elif same:
            join(max(same, key=lambda other: other.count), kind)
        else:
            continue
        found.remove(kind)


def _calls_of(kind: Kind, keys: Mapping[int, KindKey]) -> bool:
    return any(item[0] == "forward" for n in kind.numbers for item in keys[n].items)


def _updates(key: KindKey) -> list[tuple[object, ...]]:
    return [item for item in key.items if item[0] == "optimizer"]


def join(kind: Kind, more: Kind) -> None:
    """Put the steps of one kind to those of another."""
    kind.steps = sorted([*kind.steps, *more.steps], key=lambda step: step.number)
    kind.numbers = kind.numbers | more.numbers
    kind.later = (kind.later[0] + more.later[0], kind.later[1] + more.later[1])


def _without_long(kind: Kind, *, is_busy: bool) -> list[Kind]:
    """A kind, and apart from it those of its steps that took far longer: they did something else
    that nobody saw. Profiled steps always take longer: they are among those where they took about
    as long as the unprofiled ones there."""
    plain = [s for s in kind.steps if s.pass_ in UNTOUCHED and not s.is_foreign]
    if len(plain) < LEAST_USUAL:
        return [kind]
    times = sorted(step.own_ns for step in plain)
    usual_ns = median(times[: (len(times) + 1) // 2])
    longer = [step for step in plain if step.own_ns > LONGER * usual_ns]
    if len(longer) < 2:
        return [kind]
    least_ns = median(step.own_ns for step in longer) * 0.75
    apart = {
        step.number for step in kind.steps
        if step.own_ns >= least_ns and (step.pass_ != Pass.UNSEEN or step.number > FIRST_STEPS)
    }  # fmt: skip
    other = Kind("", None, kind.numbers, [s for s in kind.steps if s.number in apart])
    other.is_long, other.sizes_vary = True, kind.sizes_vary
    if other.total_s < LEAST_LONGER * kind.total_s or (is_busy and not is_regular(sorted(apart))):
        return [kind]
    kind.steps = [step for step in kind.steps if step.number not in apart]
    return [kind, other]


def is_regular(numbers: Sequence[int]) -> bool:
    """Whether numbers come at about the same distance.

    >>> is_regular([8, 16, 24, 40]), is_regular([3, 4, 11, 30])
    (True, False)
    """
    gaps = [b - a for a, b in pairwise(numbers)]
    if len(gaps) < 2:
        return False
    usual = Counter(gaps).most_common(1)[0][0]
    return sum(gap % usual == 0 for gap in gaps) >= LEAST_REGULAR * len(gaps) and (
        usual > 1 or len(set(gaps)) == 1
    )


def _with_rest(found: list[Kind]) -> list[Kind]:
    """The kinds with most time, and one of all that are left over."""
    if len(found) <= MOST_KINDS:
        return found
    rest = Kind(OTHER, None)
    for kind in found[MOST_KINDS - 1 :]:
        join(rest, kind)
    return [*found[: MOST_KINDS - 1], rest]


# Names for people: what a step does, then what sets it apart from others that do the same.


def _name(kinds: list[Kind], keys: Mapping[int, KindKey]) -> None:
    named = [kind for kind in kinds if kind.name != OTHER]
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
    if work == "inference" and trains:
        work = "evaluation"
    name = f"{work} with {more}" if more else work
    if kind.is_long:
        name = f"{name} with other work" if not more else f"{name} and other work"
    return name, None


def _sizes(sizes: object) -> str:
    """The sizes of calls as people write them.

    >>> _sizes(((64, 784), (64, 784), (32,)))
    '64x784 and 32'
    """
    shapes = list(dict.fromkeys(sizes)) if isinstance(sizes, tuple) else []
    texts = ["x".join(map(str, shape)) or "scalars" for shape in shapes if isinstance(shape, tuple)]
    return " and ".join(texts[:2]) or "no module called"


def _calls(items: Sequence[tuple[object, ...]]) -> str:
    """How often what was called, roughly."""
    texts = [
        f"{item[1]}.step {item[-1]}×" if item[0] == "optimizer" else f"{item[1]} {item[-1]}×"
        for item in items
    ]
    return ", ".join(texts[:3]) or "nothing that marks it"


def step_kinds(kinds: Sequence[Kind], reported: Kind | None) -> list[StepKind]:
    """The kinds as a report has them."""
    whole_s = sum(kind.total_s for kind in kinds)
    return [
        StepKind(
            name=kind.name,
            count=kind.count,
            median_s=kind.median_s,
            total_s=kind.total_s,
            share=kind.total_s / whole_s if whole_s else None,
            phase=kind.phase,
            reported=kind is reported,
        )
        for kind in kinds
    ]
