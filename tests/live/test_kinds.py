"""Kinds of steps on made-up records: what is apart, what is noise, and where all seconds are."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from timeroof.core.errors import as_notes
from timeroof.core.profile import AFTER, StepKind
from timeroof.live.kind import Kind, KindKey, StepSeen, choose_size, varying_note
from timeroof.live.kinds import around_steps, kinds_of, profiling_s, step_kinds, with_sizes
from timeroof.live.reading import ProcessSeen, note_calls_after
from timeroof.live.recording import Recording
from timeroof_recorder.marks import FORWARD, OPTIMIZER, Marks
from timeroof_recorder.schedule import INSTRUMENTED, RECORDING, UNTOUCHED, Kinds, Pass, Schedule

MS = 1_000_000
TRAINING = ((("forward", "Net", "train grad", 1), ("optimizer", "SGD", 1)), ((8, 16),), False)
KEYS = {0: KindKey(*TRAINING)}
# What instruments cost a step of a millisecond.
COST = {Pass.TIMED: 2.0, Pass.DESCRIBED: 9.0, Pass.PRIMITIVES: 3.0}


def recorded(
    count: int, cost_ms: dict[int, float], waits_ms: dict[int, float] | None = None
) -> list[StepSeen]:
    """Steps of a millisecond with the passes of the plan; some do more, some wait for a CPU."""
    plan, now_ns, found = Schedule(1, 20), 0, []
    for number in range(1, count + 1):
        pass_ = plan.next() if number > 1 else Pass.UNSEEN
        cpu_ns = round((cost_ms.get(number, 1.0) + COST.get(pass_, 0.0)) * MS)
        waited_ns = round((waits_ms or {}).get(number, 0.0) * MS)
        now_ns += 50_000 + cpu_ns + waited_ns
        found.append(
            StepSeen(
                number, pass_, cpu_ns + waited_ns, 0, 0, False, None, now_ns, waited_ns, (), cpu_ns
            )
        )
    return found


def named(kinds: list[Kind]) -> dict[str, int]:
    return {kind.name: kind.count for kind in kinds}


@pytest.mark.parametrize("is_busy", [False, True])
def test_work_in_every_eighth_step_is_a_kind(is_busy: bool) -> None:
    chance = random.Random(3)
    waits = {n: chance.choice([0, 0, 0, 30, 200]) for n in range(1, 65)} if is_busy else {}
    steps = recorded(64, dict.fromkeys(range(8, 65, 8), 401.0), waits)
    assert named(kinds_of(steps, KEYS, {}, is_busy=is_busy)) == {
        "training with other work": 8, "training": 56
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_waiting_beside_others_makes_no_kind(seed: int) -> None:
    chance = random.Random(seed)
    waits = {n: chance.choice([0, 0, 5, 40, 300]) for n in range(1, 41)}
    # A host that takes the CPU away is in the thread's own time.
    cost = {n: 60.0 for n in range(2, 41) if chance.random() < 0.1}
    assert named(kinds_of(recorded(40, cost, waits), KEYS, {}, is_busy=True)) == {"training": 40}


def test_a_single_step_that_holds_the_time_is_shown_on_a_quiet_machine() -> None:
    found = kinds_of(recorded(41, {40: 900.0}), KEYS, {})
    assert named(found) == {"training with other work": 1, "training": 40}


def test_a_first_step_of_seconds_is_warm_up() -> None:
    found = kinds_of(recorded(40, {1: 30_000.0}), KEYS, {})
    assert named(found) == {"warm-up": 1, "training": 39}
    assert found[1].median_s == pytest.approx(1e-3)


def test_every_second_is_in_a_kind_or_was_added_by_profiling() -> None:
    steps = recorded(64, dict.fromkeys(range(8, 65, 8), 401.0))
    kinds = kinds_of(steps, KEYS, {})
    listed = step_kinds(kinds, kinds[0], around_steps(kinds, 0.0, 0.5))
    whole_s = sum(kind.total_s or 0.0 for kind in listed if kind.count)
    first_ns = steps[0].end_ns - steps[0].duration_ns
    lasted_s = (steps[-1].end_ns - first_ns) / 1e9
    assert whole_s + profiling_s(steps, kinds) == pytest.approx(lasted_s)
    assert whole_s == pytest.approx(64e-3 + 8 * 0.4, rel=1e-3)
    assert sum(kind.share or 0.0 for kind in listed) == pytest.approx(1.0)
    assert listed[-1].name == "after the last step"
    assert [kind.reported for kind in listed] == [True, False, False]


def test_a_long_start_is_listed_and_a_short_one_is_not() -> None:
    kinds = kinds_of(recorded(40, {}), KEYS, {})
    assert [(k.name, k.total_s) for k in around_steps(kinds, 3.0, 0.0)] == [
        ("before the first step", 3.0)
    ]
    assert not around_steps(kinds, 0.5, 0.0)


def test_the_first_step_begins_with_its_batches_or_its_compiler() -> None:
    for begins in (Marks.fetches, Marks.compiles):
        marks = Marks("auto", lambda end_ns: None)
        begins(marks)
        marks.stepped(1, "SGD", lambda: True)
        assert marks.first_ns is not None
        assert marks.began_ns is not None
        assert marks.began_ns < marks.first_ns
        begins(marks)  # later ones belong to later steps
        assert marks.began_ns < marks.first_ns


def test_one_size_stands_for_steps_of_all_sizes() -> None:
    sizes = [1024, 1000, 950, 900, *range(800, 0, -40)]
    items = ((("forward", "Net", "eval", 1),),)
    keys = {n: KindKey(*items, ((size, 16),)) for n, size in enumerate(sizes[:4])}
    keys[4] = KindKey(*items, "varying")
    plain = recorded(24, {n: size / 100 for n, size in enumerate(sizes, 1)})
    steps = [
        step._replace(kind=min(place, 4), sizes=((size, 16),) if place > 3 else ())
        for place, (step, size) in enumerate(zip(plain, sizes, strict=True))
    ]
    (kind,) = kinds_of(with_sizes(steps, keys), keys, {})
    described = {step.number for step in steps if step.pass_ == Pass.DESCRIBED} | {11}
    choose_size(kind, described)
    assert (kind.count, kind.volume) == (24, sizes[10] * 16)
    assert kind.median_s == pytest.approx(sizes[10] / 100 * 1e-3, rel=0.2)
    note = varying_note(kind)
    assert "(40x16 to 1024x16)" in note
    assert note.endswith(f"about {sizes[10]}x16.")


def test_more_steps_are_described_where_sizes_change() -> None:
    plan = Schedule(1, 20)
    first = [plan.next() for _ in range(6)]
    plan.describe_more()
    later = [plan.next() for _ in range(18)]
    assert first.count(Pass.DESCRIBED) == 1
    assert later.count(Pass.DESCRIBED) >= 2
    # Each right after a timed one.
    places = [place for place, pass_ in enumerate(later) if pass_ == Pass.DESCRIBED]
    assert all(later[place - 1] == Pass.TIMED for place in places[:2])


def passes_of(
    kind_of: Callable[[int], int], steps: int, offers: tuple[str, ...] = INSTRUMENTED
) -> list[tuple[int, str]]:
    """The kind and the pass of every step, as a session chooses them."""
    plan, kinds, found = Schedule(1, 20), Kinds(), []
    for number in range(1, steps + 1):
        chosen = plan.next()
        wish = kinds.wish(chosen, offers)
        chosen = chosen if wish is None else plan.instead(chosen, wish)
        kind = kind_of(number)
        # The first steps take long.
        kinds.came(kind, number, chosen, MS * (1 + kind) * (1 if number > 2 else 200))
        found.append((kind, chosen))
    return found


def test_an_evaluation_in_every_sixth_step_gets_all_passes() -> None:
    found = passes_of(lambda number: int(number % 6 == 1 and number > 1), 36)
    evaluated = {pass_ for kind, pass_ in found if kind == 1}
    assert {Pass.TIMED, Pass.DESCRIBED} <= evaluated
    assert evaluated & set(UNTOUCHED)


def test_steps_that_describing_made_long_are_not_waited_for() -> None:
    plan, kinds, found = Schedule(1, 20), Kinds(), []
    for number in range(1, 301):
        chosen = plan.next()
        wish = kinds.wish(chosen)
        chosen = chosen if wish is None else plan.instead(chosen, wish)
        # What is usual is not known yet when the first step is described.
        is_long = chosen == Pass.DESCRIBED and number > 5
        kinds.came(int(is_long), number, chosen, MS * (15 if is_long else 1))
        found.append(chosen)
    assert found[60:].count(Pass.FREE) > 200


def test_where_nothing_can_be_described_nobody_waits_for_it() -> None:
    """JAX has timed steps only: once every kind has its own, steps are left alone."""
    found = passes_of(lambda number: int(number % 6 == 1 and number > 1), 600, (Pass.TIMED,))
    assert Pass.CLEAN in {pass_ for kind, pass_ in found if kind == 1}
    late = [pass_ for _, pass_ in found[100:]]
    assert late.count(Pass.FREE) > 0.8 * len(late)


@pytest.mark.parametrize("seed", range(30))
def test_no_recorder_is_on_in_two_steps_that_follow(seed: int) -> None:
    chance = random.Random(seed)
    cycle = [chance.randrange(4) for _ in range(chance.randint(1, 9))]
    found = passes_of(lambda n: cycle[n % len(cycle)] if chance.random() < 0.9 else 0, 150)
    for (_, before), (_, after) in pairwise(found):
        assert not (before in RECORDING and after in RECORDING)
        assert not (before == after == Pass.DESCRIBED)


@pytest.mark.parametrize(
    ("left_s", "calls", "is_said"), [(4.0, 128, True), (4.0, 8, False), (0.5, 128, False)]
)
def test_calls_after_the_last_step_are_named(left_s: float, calls: int, is_said: bool) -> None:
    """A program that trains and then samples for long."""
    seen = ProcessSeen(marker=OPTIMIZER, over=(0, (("forward", "UNet", "eval", calls),), ()))
    around = [StepKind(name=AFTER, count=0, total_s=left_s, reported=False)]
    found = Recording(kinds=[StepKind(name="training", count=40, total_s=6.0), *around])
    note_calls_after(found, seen, around)
    assert [note.code for note in as_notes(found.notes)] == ["calls-after"] * is_said
    if is_said:
        assert "4 s after its last step (40 % of the time), calling UNet" in found.notes[0]


def test_a_module_in_the_place_of_one_that_is_gone_is_another() -> None:
    """Observers of a quantisation are made, called once each and thrown away."""
    ends: list[int] = []
    marks = Marks("auto", ends.append)
    for _ in range(3):
        marks.called(1, "Observer", "grad", (4,), lambda: False)
    assert not ends
    for _ in range(4):
        marks.called(2, "Net", "grad", (4,), lambda: True)
    assert marks.found == FORWARD
    assert marks.label == "a call of Net"
