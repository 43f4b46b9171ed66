"""Kinds of steps: which steps did the same, what they are called, and whose time the run was."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from timeroof.core.profile import StepKind
from timeroof_recorder.schedule import UNSETTLED, UNTOUCHED, Pass

# Kinds that are told apart; what is left over is one more.
MOST_KINDS = 8
OTHER = "other steps"
# Single steps this early are no kind: what happened before is in them.
FIRST_STEPS = 2
# Steps that took far longer for no known reason are a kind where they hold this share of the time.
LEAST_LONGER = 0.1
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


class KindKey(NamedTuple):
    """What tells steps apart: what happened in them, with which sizes, and whether it took long."""

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
    steps: Sequence[StepSeen], keys: Mapping[int, KindKey], later: Mapping[int, tuple[int, int]]
) -> list[Kind]:
    """The kinds of a run, most time first; those of little time are one together."""
    members: dict[tuple[object, ...], set[int]] = defaultdict(set)
    varying = {key.items for key in keys.values() if key.sizes == VARYING}
    for number, key in keys.items():
        # Too many sizes to be told apart: those that came first are of the same kind.
        sizes = VARYING if key.items in varying else key.sizes
        members[key.items, sizes, key.is_long].add(number)
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
    found = _without_chance(found, keys)
    found.sort(key=lambda kind: -kind.total_s)
    kept = _with_rest(found)
    _name(kept, keys)
    return kept


def _without_chance(found: list[Kind], keys: Mapping[int, KindKey]) -> list[Kind]:
    """Kinds without those that are none: single steps at the beginning, and steps that took longer
    too rarely, or too little, to be anything but chance."""
    whole_s = sum(kind.total_s for kind in found)
    usual = max(found, key=lambda kind: kind.count, default=None)
    kept: list[Kind] = []
    for kind in found:
        key = keys[min(kind.numbers)]
        goes_to = None
        if kind.count == 1 and kind.steps and kind.steps[0].number <= FIRST_STEPS:
            goes_to = usual
        elif key.is_long and (kind.count < 2 or kind.total_s < LEAST_LONGER * whole_s):
            goes_to = next(
                (k for k in found if k is not kind and keys[min(k.numbers)].items == key.items),
                None,
            )
        if goes_to is None or goes_to is kind:
            kept.append(kind)
            continue
        goes_to.steps = sorted([*goes_to.steps, *kind.steps], key=lambda step: step.number)
        goes_to.later = (goes_to.later[0] + kind.later[0], goes_to.later[1] + kind.later[1])
    return kept


def _with_rest(found: list[Kind]) -> list[Kind]:
    """The kinds with most time, and one of all that are left over."""
    if len(found) <= MOST_KINDS:
        return found
    rest = Kind(OTHER, None)
    for kind in found[MOST_KINDS - 1 :]:
        rest.numbers |= kind.numbers
        rest.steps += kind.steps
        rest.later = (rest.later[0] + kind.later[0], rest.later[1] + kind.later[1])
    rest.steps.sort(key=lambda s: s.number)
    return [*found[: MOST_KINDS - 1], rest]


# Names for people: what a step does, then what sets it apart from others that do the same.


def _name(kinds: list[Kind], keys: Mapping[int, KindKey]) -> None:
    named = [kind for kind in kinds if kind.name != OTHER]
    shown = {id(kind): keys[min(kind.numbers)] for kind in named}
    trains = any(_work(shown[id(kind)].items)[0] == "training" for kind in named)
    for kind in named:
        kind.name, kind.phase = _words(shown[id(kind)], trains)
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


def _doubles(kinds: Iterable[Kind]) -> list[Kind]:
    several = Counter(kind.name for kind in kinds)
    return [kind for kind in kinds if several[kind.name] > 1]


def _work(items: Sequence[tuple[object, ...]]) -> tuple[str, str]:
    """What a step does, and what it does besides."""
    flags = {str(item[2]) for item in items if item[0] == "forward" and len(item) > 3}
    steps = [item for item in items if item[0] == "optimizer"]
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


def _words(key: KindKey, trains: bool) -> tuple[str, str | None]:
    work, more = _work(key.items)
    if work == "inference" and trains:
        work = "evaluation"
    name = f"{work} with {more}" if more else work
    if key.is_long:
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
