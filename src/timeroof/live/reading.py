"""From the records of a process to a recording of each kind of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from timeroof.core.errors import Note, trace_ignored
from timeroof.core.profile import AFTER, BEFORE, StepKind
from timeroof.live.accounting import LEAST_WAITING, own_waiting, waiting_share
from timeroof.live.calibration import Program, event_cost, stretch_of
from timeroof.live.frameworks import framework_of
from timeroof.live.kind import (
    Kind,
    KindKey,
    StepSeen,
    choose_size,
    mind_sizes,
    nearest_in_size,
    varying_note,
)
from timeroof.live.kinds import (
    around_steps,
    kinds_of,
    profiling_s,
    step_kinds,
    tail_kind,
    with_sizes,
)
from timeroof.live.recording import CleanStep, Described, Recording, TimedStep
from timeroof.live.records import Payload, ProcessSeen
from timeroof_recorder.clocks import CLOSE
from timeroof_recorder.marks import FORWARD, OPTIMIZER, PATIENCE, WINDOW
from timeroof_recorder.schedule import UNSETTLED, UNTOUCHED, Pass

# How many times longer than the steps windows of time lasted that are reported in their place.
MOST_OF_TIME = 5
# Unprofiled steps of a kind that are looked at one by one.
MOST_CLEAN = 200
# A step that took so many times as long as timed ones still did something else (compiling).
MOST_UNSETTLED = 2.0

WORDS = {
    "own-profiler": (
        "No step was timed: the program's own profiler was on in all that would have been."
        " Switch it off, or let it write its trace and use `timeroof read`."
    ),
    "inside-another": (
        "Nothing was measured: `timeroof run`, another timeroof.profile or torch.profiler was on"
        " around this block. Use one of them at a time."
    ),
    "never-entered": "Nothing was measured: the timeroof.profile block was never entered.",
    "empty-block": "Nothing was measured: no op of a framework ran in the block.",
    "no-framework": (
        "Nothing was measured: neither PyTorch nor JAX nor TensorFlow was imported when the block"
        " ended."
    ),
    "compressed": (
        "The program has compressed sparse tensors (CSR or alike), which torch cannot describe: no"
        " step was described, shapes and amounts are unknown."
    ),
    "other-trace": "Another execution trace was being recorded: no step is described.",
}
NOTES = {
    "tf-level": (
        "This version of TensorFlow hides the level of its profiler: nodes that it takes for cheap"
        " are not timed."
    ),
    "own-profiler": "The program's own profiler was on: steps under it are not timed by op.",
    "lost-to-own-profiler": "The program started its own profiler: a timed step was lost.",
    "forked": (
        "The program forked (workers of a data loader, or others): only processes that take steps"
        " are looked at."
    ),
}


# Recordings: of every kind of steps, all that the profile of it is built from.


def recordings_of(
    seen: ProcessSeen, folder: Path, kept: Mapping[str, Mapping[str, Program]]
) -> list[Recording]:
    """A recording for each kind of steps that was timed, the one to report first; one that says
    why there is nothing, where none was."""
    former = seen.former
    if former is not None and _stands_in(former, seen):
        former.marker = former.marker or FORWARD
        former.rounds, former.notes = seen.rounds, list(dict.fromkeys([*former.notes, *seen.notes]))
        seen = former
    seen.described = [each for each in seen.described if _is_there(each[2], folder)]
    keys = seen.keys | {-1: KindKey()}
    steps = with_sizes(_with_first(seen), keys)
    is_busy = (waiting_share(seen.threads) or 0.0) >= LEAST_WAITING
    kinds = kinds_of(steps, keys, seen.later, is_busy=is_busy)
    for one in kinds:
        choose_size(one, {number for number, _, _ in seen.described})
        if seen.marker == WINDOW:
            one.name = one.name.replace("step", "window")
    slower_s = profiling_s(steps, kinds)
    around = around_steps(kinds, _before_s(seen), _take_tail(seen, steps, kinds, keys))
    by_kind = [(kind, _timed_of(kind, seen)) for kind in kinds]
    timed = [(kind, own) for kind, own in by_kind if own] or by_kind[:1]
    found = []
    listed: list[tuple[Kind | None, list[TimedStep]]] = [*timed] or [(None, [])]
    for kind, own in listed:
        recording = _common(seen)
        if kind is not None:
            recording.kinds, recording.kind = step_kinds(kinds, kind, around), kind.name
            recording.profiling_s = slower_s
            note_calls_after(recording, seen, around)
            _fill(recording, kind, own, seen, folder)
        found.append(recording)
        _read_block(recording, seen, folder)
        framework_of(recording.framework).settle(recording)
        stand_in(recording)
        cost = event_cost(seen.rounds, _kept(seen, kept), own or _blocks(recording))
        if cost is not None:
            recording.event_cost_ns, recording.event_cost_error_ns = cost
            recording.event_stretch = stretch_of(seen.rounds.get(CLOSE, ()))
    return found


def _stands_in(former: ProcessSeen, seen: ProcessSeen) -> bool:
    """Whether what was taken for steps before is to be reported: none of the real ones was timed.
    Windows of time from before the first step show a program's start, not its steps, unless they
    hold nearly all of the time."""
    if seen.timed:
        return False
    return former.marker != WINDOW or _span_ns(former) > MOST_OF_TIME * _span_ns(seen)


def _span_ns(seen: ProcessSeen) -> int:
    return sum(step.duration_ns for step in seen.steps)


def _before_s(seen: ProcessSeen) -> float:
    """Seconds between the framework's import and the first step: building, loading, reading."""
    if seen.arrived_ns is None or seen.first_ns is None or seen.marker == WINDOW:
        return 0.0
    return max(0, seen.first_ns - seen.arrived_ns) / 1e9


def _take_tail(
    seen: ProcessSeen, steps: Sequence[StepSeen], kinds: Sequence[Kind],
    keys: Mapping[int, KindKey],
) -> float:  # fmt: skip
    """Seconds after the last step. Where calls mark steps, the last one has nobody to end it: it is
    a step as long as others of its kind, and what follows is not."""
    if seen.over is None or not steps:
        return 0.0
    now_ns, items, sizes = seen.over
    last = steps[-1]
    left_ns = max(0, now_ns - last.end_ns)
    kind = tail_kind(kinds, keys, items) if seen.marker == FORWARD else None
    if kind is None or kind.median_s is None:
        return left_ns / 1e9
    took_ns = min(left_ns, round(kind.median_s * 1e9))
    number, end_ns = seen.steps_seen + 1, last.end_ns + took_ns
    step = StepSeen(number, Pass.UNSEEN, took_ns, 0, -1, False, None, end_ns, sizes=tuple(sizes))
    kind.steps.append(step)
    kind.forget()
    seen.steps_seen += 1
    return (left_ns - took_ns) / 1e9


# From this share of the run on, what an optimizer's last step was followed by is worth a word.
LEAST_LEFT = 0.25


def note_calls_after(found: Recording, seen: ProcessSeen, around: Sequence[StepKind]) -> None:
    """A word where a program trains and then samples or serves for long: that was not looked at."""
    after = next((kind for kind in around if kind.name == AFTER), None)
    if after is None or seen.over is None or seen.marker != OPTIMIZER:
        return
    left_s = after.total_s or 0.0
    share = left_s / sum(kind.total_s or 0.0 for kind in found.kinds if kind.name != BEFORE)
    called = {item[1]: item[-1] for item in seen.over[1] if item[0] == "forward"}
    often = [name for name, count in called.items() if count >= PATIENCE]
    if share >= LEAST_LEFT and often:
        words = (
            f"The program went on for {left_s:.3g} s after its last step ({100 * share:.0f} % of"
            f" the time), calling {', '.join(often)}. None of it was profiled. Use --step-marker"
            " forward to take calls for steps."
        )
        found.note(Note(words, "calls-after", "warning"))


def _kept(seen: ProcessSeen, kept: Mapping[str, Mapping[str, Program]]) -> Mapping[str, Program]:
    return kept.get(" ".join(seen.frameworks[0]), {}) if seen.frameworks else {}


def _blocks(recording: Recording) -> list[TimedStep]:
    return [] if recording.block is None else [recording.block]


def _with_first(seen: ProcessSeen) -> list[StepSeen]:
    """Steps with the time of the first: it began with the first call that was seen."""
    steps = list(seen.steps)
    if steps and steps[0].number == 1 and not steps[0].duration_ns and seen.first_ns is not None:
        steps[0] = steps[0]._replace(duration_ns=max(0, steps[0].end_ns - seen.first_ns))
    for place, (before, step) in enumerate(pairwise(steps), 1):
        if not step.duration_ns and step.number == before.number + 1:  # its begin was not seen
            steps[place] = step._replace(duration_ns=max(0, step.end_ns - before.end_ns))
    return steps


def _timed_of(kind: Kind, seen: ProcessSeen) -> list[TimedStep]:
    """Timed steps of a kind; where sizes vary, those of the size that stands for all."""
    numbers = {step.number for step in kind.steps}
    own = [step for step in seen.timed if step.number in numbers]
    return own if kind.volume is None else nearest_in_size(kind, own)


def _common(seen: ProcessSeen) -> Recording:
    """What is the same for all kinds of a process."""
    found = Recording(
        marker=seen.marker, mark=seen.mark, steps_seen=seen.steps_seen,
        frameworks=seen.frameworks, compiled=list(seen.kernels), rank=seen.rank,
        pace=[ns / 1e9 for ns in seen.pace_ns], waiting_share=waiting_share(seen.threads),
        own_waiting=own_waiting(seen.looks),
        threads=seen.around.get("threads"), uses_gpu="cuda" in seen.around.get("devices", ()),
        with_lines=bool(seen.around.get("with_lines")),
    )  # fmt: skip
    found.why_nothing = WORDS.get(seen.why or "")
    for code in dict.fromkeys(seen.notes):
        if code in ("compressed", "other-trace"):
            found.undescribed(WORDS[code])
        else:
            found.note(NOTES[code])
            if code == "own-profiler":
                found.why_nothing = WORDS[code]
    if seen.failed is not None:
        found.note(f"Watching stopped: {seen.failed}.")
    if seen.elsewhere:
        count, threads = sum(seen.elsewhere.values()), len(seen.elsewhere)
        more = "1 other thread" if threads == 1 else f"{threads} other threads"
        found.note(f"{count} more steps were taken in {more}: they are counted here, not timed.")
    missing = seen.around.get("missing_compiler")
    if missing:
        found.note(
            f"No C++ compiler was found ({', '.join(missing)}): torch.compile cannot make kernels"
            " for the CPU, and ops ran as they are."
        )
    return found


def _fill(
    found: Recording, kind: Kind, timed: list[TimedStep], seen: ProcessSeen, folder: Path
) -> None:
    """Steps of one kind: unprofiled ones, timed ones, and what describes them."""
    found.timed = timed
    take_unprofiled(found, kind.typical)
    numbers = {step.number for step in kind.steps}
    found.primitive_steps = [step for number, step in seen.primitives if number in numbers]
    found.device_traces = [folder / Path(path).name for _, path in seen.devices]
    own = [each for each in seen.described if each[0] in numbers]
    if kind.volume is not None:
        near = {step.number for step in kind.steps if step.volume == kind.volume}
        own = [each for each in own if each[0] in near][:1]
        found.note(varying_note(kind))
    _read_described(found, own or _nearest(seen, timed), seen, folder, is_own=bool(own))


def _is_there(payload: Payload, folder: Path) -> bool:
    """Whether a description was kept: of many the recorder drops files from the middle."""
    path = payload.get("file")
    return not isinstance(path, str) or (folder / Path(path).name).is_file()


def take_unprofiled(found: Recording, steps: Sequence[StepSeen]) -> None:
    """Steps without instruments; until one is settled, the last of the warm-up and the last one
    that came right after instruments."""
    found.clean = [_clean(s) for s in sample([s for s in steps if s.pass_ in UNTOUCHED])]
    if not found.clean:
        for pass_ in UNSETTLED:
            found.unsettled += [_clean(s) for s in steps if s.pass_ == pass_][-1:]


def _nearest(seen: ProcessSeen, timed: Sequence[TimedStep]) -> list[tuple[int, int, Payload]]:
    """The description of another kind's step that is nearest to those that were timed."""
    if not seen.described or not timed:
        return []
    return [min(seen.described, key=lambda each: min(abs(each[0] - t.number) for t in timed))]


def _clean(step: StepSeen) -> CleanStep:
    waited = step.clocks[2] if step.clocks is not None else None
    return CleanStep(step.duration_ns, step.faults, step.is_foreign, waited)


def sample(steps: list[StepSeen]) -> list[StepSeen]:
    """At most so many of all steps, evenly over the run."""
    if len(steps) <= MOST_CLEAN:
        return steps
    return [steps[i * len(steps) // MOST_CLEAN] for i in range(MOST_CLEAN)]


def _read_described(
    found: Recording, described: Sequence[tuple[int, int, Payload]], seen: ProcessSeen,
    folder: Path, *, is_own: bool,
) -> None:  # fmt: skip
    """The described step that stands for the others. The first one that can be read; where sizes
    have changed since, the last one."""

    def readable(steps: Iterable[tuple[int, int, Payload]]) -> tuple[int, list[Described]] | None:
        for number, _, payload in steps:
            ops = _ops(found, payload, seen, folder)
            if ops:
                return number, _with_stated(ops, seen.stated.get(number, {}))
        return None

    first = readable(described)
    if first is None:
        return
    found.described = first[1]
    last = readable(each for each in reversed(described) if each[0] > first[0])
    if last is not None:
        mind_sizes(found, first, last)
    if not is_own:
        found.note(
            f"No step of this kind was described: amounts are those of step {first[0]}, as far as"
            " it ran the same ops."
        )


def _with_stated(ops: list[Described], stated: Mapping[int, Payload]) -> list[Described]:
    return [
        replace(op, stated=stated[place]) if place in stated else op for place, op in enumerate(ops)
    ]


def _ops(found: Recording, payload: Payload, seen: ProcessSeen, folder: Path) -> list[Described]:
    try:
        return framework_of(found.framework).described(payload, seen.kernels, folder)
    except FileNotFoundError:  # one between the first and the latest
        return []
    except Exception as error:
        trace_ignored("a described step was lost")
        found.undescribed(f"A described step cannot be read ({error}).")
        return []


def _read_block(found: Recording, seen: ProcessSeen, folder: Path) -> None:
    if seen.block is not None:
        found.block, payload = seen.block
        if payload is not None and not found.timed:
            found.described = _ops(found, payload, seen, folder)


def stand_in(found: Recording) -> None:
    """Where no clean step was seen, take the quickest unsettled one; warm-up only adds time. Its
    page faults may be those of the warm-up: at most as many count as in the timed steps."""
    if found.clean or not found.timed or not found.unsettled:
        return
    quickest = min(found.unsettled, key=lambda step: step.duration_ns)
    usual_ns = median(step.duration_ns for step in found.timed)
    if quickest.duration_ns > MOST_UNSETTLED * usual_ns:
        return
    fewest = min(quickest.faults, *(step.faults for step in found.timed))
    found.clean = [CleanStep(quickest.duration_ns, fewest, quickest.profiled)]
    found.note(
        "The only unprofiled step was still warming up, or came right after a profiled one. Its"
        " time is the step time here. Run more steps for a settled one."
    )
