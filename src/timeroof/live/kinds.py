"""Kinds of steps: which steps did the same, and whose time the run was."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

import msgspec

from timeroof.core.profile import AFTER, BEFORE, StepKind
from timeroof.live.kind import OTHER, WARM_UP, Kind, KindKey, StepSeen, name_kinds
from timeroof_recorder.schedule import INSTRUMENTED, UNTOUCHED, Pass

# Kinds that are told apart; what is left over is one more.
MOST_KINDS = 8
# Single steps this early are no kind: what happened before is in them.
FIRST_STEPS = 2
# Steps that took so many times longer for no known reason are a kind of their own where they hold
# this share of the time; a single one has to be longer still.
LONGER, LONGER_ALONE, LEAST_LONGER = 4.0, 10.0, 0.1
# Steps of one pass whose least time tells what its instruments cost, and what is taken for it where
# there are fewer.
LEAST_PROFILED, UNKNOWN_COST = 2, 5.0
# Unprofiled steps that tell what is usual.
LEAST_USUAL = 4
# On a machine that others use as well: the share of gaps between longer steps that are equal, how
# many there have to be, and from where on several times the usual gap are as good.
LEAST_REGULAR, LEAST_GAPS, WIDE = 0.8, 3, 3
# First steps that took longer than usual (compiling, allocating) are shown apart from so many
# seconds on, where they hold this share of the time.
LEAST_WARM_UP_NS, LEAST_WARM_UP = 500_000_000, 0.2
# What follows the last step is shown from this share of the run on.
LEAST_AFTER = 0.01
# What precedes the first one, from so many seconds and this share on.
LEAST_BEFORE_S, LEAST_BEFORE = 1.0, 0.1
VARYING = "varying"


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
    found = _one_warm_up([part for kind in found for part in _without_warm_up(kind)])
    found.sort(key=lambda kind: -kind.total_s)
    kept = _with_rest(found)
    name_kinds(kept, keys)
    return kept


def _one_warm_up(found: list[Kind]) -> list[Kind]:
    first = [kind for kind in found if kind.name == WARM_UP]
    for more in first[1:]:
        join(first[0], more)
    return [kind for kind in found if kind not in first[1:]]


def with_sizes(steps: Iterable[StepSeen], keys: Mapping[int, KindKey]) -> list[StepSeen]:
    """Steps with the sizes that their kind tells."""
    return [
        step._replace(sizes=sizes)
        if not step.sizes and isinstance(sizes := keys.get(step.kind, KindKey()).sizes, tuple)
        else step
        for step in steps
    ]


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
        if -1 in kind.numbers:
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
    kind.forget()
    kind.numbers = kind.numbers | more.numbers
    kind.later = (kind.later[0] + more.later[0], kind.later[1] + more.later[1])


def _without_long(kind: Kind, *, is_busy: bool) -> list[Kind]:
    """A kind, and apart from it those of its steps that took far longer: they did something else
    that nobody saw. The thread's CPU time tells that, or its elapsed time, which also holds sleep.
    Beside other programs steps are long by chance: there such steps have to come regularly."""
    if len([s for s in kind.steps if s.pass_ in UNTOUCHED and not s.is_foreign]) < LEAST_USUAL:
        return [kind]
    apart = _longer(kind, lambda step: step.cpu_ns, is_busy=is_busy)
    apart = apart or _longer(kind, lambda step: step.own_ns, is_busy=is_busy)
    other = Kind("", None, kind.numbers, [s for s in kind.steps if s.number in apart])
    other.is_long, other.sizes_vary = True, kind.sizes_vary
    if not apart or other.total_s < LEAST_LONGER * kind.total_s:
        return [kind]
    rest = replace(kind, steps=[step for step in kind.steps if step.number not in apart])
    return [rest, other]


def _longer(kind: Kind, measure: Callable[[StepSeen], int], *, is_busy: bool) -> set[int]:
    """Steps that took far longer, by number. Profiled steps always take longer: they are among
    those where they are still long without what instruments usually cost."""
    plain = [s for s in kind.steps if s.pass_ in UNTOUCHED and not s.is_foreign]
    times = sorted(measure(step) for step in plain)
    usual = median(times[: (len(times) + 1) // 2])
    longer = [measure(s) for s in plain if measure(s) > LONGER * max(usual, 1.0)]
    # A virtual machine may be paused: a single step counts only where it is long for a program too.
    least_alone = max(LONGER_ALONE * usual, LEAST_WARM_UP_NS)
    if not longer or (len(longer) == 1 and (is_busy or longer[0] < least_alone)):
        return set()
    costs = {pass_: _least_cost(kind, pass_, measure, usual) for pass_ in INSTRUMENTED}
    for least in _thresholds(sorted([LONGER * usual, *longer])):
        found = {
            step.number for step in kind.steps
            if measure(step) >= max(least, LONGER * costs.get(step.pass_, 0.0) * usual)
            and (step.pass_ not in (Pass.UNSEEN, Pass.WARMUP) or step.number > FIRST_STEPS)
        }  # fmt: skip
        if len(found) > len(kind.steps) / 2:  # the others are short for once
            continue
        if found and (not is_busy or is_regular(sorted(found))):
            return found
    return set()


def _thresholds(times: Sequence[float]) -> list[float]:
    """What steps may be long from: below the widest gap in their times nothing is but noise."""
    low, high = max(pairwise(times), key=lambda pair: pair[1] / max(pair[0], 1.0))
    return [(low * high) ** 0.5, median(times[1:]) * 0.75]


def _least_cost(kind: Kind, pass_: str, measure: Callable[[StepSeen], int], usual: float) -> float:
    """How many times longer the instruments of a pass make a step, at the least."""
    times = [measure(step) for step in kind.steps if step.pass_ == pass_]
    return min(times) / max(usual, 1.0) if len(times) >= LEAST_PROFILED else UNKNOWN_COST


def _without_warm_up(kind: Kind) -> list[Kind]:
    """A kind, and apart from it its first steps where they took seconds: a compiler worked, or
    caches were filled."""
    usual_ns = (kind.median_s or 0.0) * 1e9
    first = [
        step for step in kind.steps
        if (step.is_first or (step.number <= FIRST_STEPS + 1 and step.pass_ == Pass.WARMUP))
        and step.duration_ns > LONGER * usual_ns and step.own_ns >= LEAST_WARM_UP_NS
    ]  # fmt: skip
    if kind.is_long or len(first) == len(kind.steps) or not usual_ns:
        return [kind]
    if not first or sum(s.duration_ns for s in first) / 1e9 < LEAST_WARM_UP * kind.total_s:
        return [kind]
    apart = {step.number for step in first}
    rest = replace(kind, steps=[step for step in kind.steps if step.number not in apart])
    return [rest, Kind(WARM_UP, None, kind.numbers, first)]


def is_regular(numbers: Sequence[int]) -> bool:
    """Whether numbers come at about the same distance: nearly all gaps are the usual one, or, where
    that is hardly chance, several of it.

    >>> is_regular([8, 16, 24, 40]), is_regular([3, 4, 11, 30]), is_regular([2, 4, 6, 10, 20])
    (True, False, False)
    """
    gaps = [b - a for a, b in pairwise(numbers)]
    if len(gaps) < LEAST_GAPS:
        return False
    usual = Counter(gaps).most_common(1)[0][0]
    same = sum(gap == usual or (usual >= WIDE and gap % usual == 0) for gap in gaps)
    return usual > 1 and same >= LEAST_REGULAR * len(gaps)


def _with_rest(found: list[Kind]) -> list[Kind]:
    """The kinds with most time, and one of all that are left over."""
    if len(found) <= MOST_KINDS:
        return found
    rest = Kind(OTHER, None)
    for kind in found[MOST_KINDS - 1 :]:
        join(rest, kind)
    return [*found[: MOST_KINDS - 1], rest]


def tail_kind(kinds: Sequence[Kind], keys: Mapping[int, KindKey], items: object) -> Kind | None:
    """The kind of steps that do what was done after the last mark."""
    if not items:
        return None
    same = [kind for kind in kinds if any(keys[n].items == items for n in kind.numbers if n >= 0)]
    return max(same, key=lambda kind: kind.count, default=None)


# The account of the whole run: what the kinds hold, what instruments added, what came after.


def profiling_s(steps: Sequence[StepSeen], kinds: Sequence[Kind]) -> float:
    """Seconds that the program took longer for being profiled: between its steps, and in those that
    were profiled."""
    in_steps = sum(
        step.duration_ns - estimate
        for kind in kinds for step, estimate in zip(kind.steps, kind.estimates_ns, strict=True)
    )  # fmt: skip
    between = sum(
        max(0, b.end_ns - a.end_ns - b.duration_ns)
        for a, b in pairwise(steps) if b.number == a.number + 1
    )  # fmt: skip
    return (in_steps + between) / 1e9


def around_steps(kinds: Sequence[Kind], before_s: float, after_s: float) -> list[StepKind]:
    """What came before the first step and after the last one, where it is worth a line."""
    steps_s = sum(kind.total_s for kind in kinds)
    shown = []
    if before_s >= max(LEAST_BEFORE_S, LEAST_BEFORE * (steps_s + before_s)):
        shown.append((BEFORE, before_s))
    if after_s > LEAST_AFTER * (steps_s + after_s):
        shown.append((AFTER, after_s))
    return [StepKind(name=name, count=0, total_s=s, reported=False) for name, s in shown]


def step_kinds(
    kinds: Sequence[Kind], reported: Kind | None, after: Sequence[StepKind] = ()
) -> list[StepKind]:
    """The kinds as a report has them, with what `around_steps` says; shares are of all of it."""
    found = [
        StepKind(
            name=kind.name, count=kind.count, median_s=kind.median_s, total_s=kind.total_s,
            phase=kind.phase, reported=kind is reported,
        )
        for kind in kinds
    ]  # fmt: skip
    listed = [*found, *after]
    whole_s = sum(kind.total_s or 0.0 for kind in listed)
    return [
        msgspec.structs.replace(kind, share=(kind.total_s or 0.0) / whole_s if whole_s else None)
        for kind in listed
    ]
