"""The steps of a run in a sentence: what ends one, which kinds there are, and whose time it was."""

from __future__ import annotations

from collections.abc import Sequence

from timeroof.core.profile import WINDOWS, StepKind, Steps
from timeroof.core.units import format_seconds

# Seconds that profiling added are told from this share of the steps' own on.
ADDED = 0.02


def account(steps: Steps | None) -> str:
    """What marks a step, and whose the time of all of them was.

    >>> kinds = [StepKind(name="training", count=56, total_s=0.06),
    ...          StepKind(name="training with evaluation", count=8, total_s=51.7)]
    >>> account(Steps(count=64, mark="SGD.step", kinds=kinds))
    '64 steps (SGD.step) took 51.8 s: 56 training steps 60.0 ms, 8 with evaluation 51.7 s.'
    >>> account(Steps(count=1, mark="SGD.step", kinds=kinds[:1], profiling_s=0.4))
    '1 step (SGD.step) took 60.0 ms. Profiling added 400 ms.'
    >>> account(Steps(count=9)), account(None)
    ('', '')
    """
    # Files of profilers have steps too, but nobody says there what ends one.
    if steps is None or not steps.count or steps.mark is None:
        return ""
    unit = "window" if steps.mark == WINDOWS else "step"
    mark = "of time; nothing marks a step" if unit == "window" else steps.mark
    number = f"{many(steps.count, unit)} ({mark})"
    known = [kind for kind in steps.kinds if kind.total_s is not None]
    if not known:
        return f"{number}."
    took_s = sum(kind.total_s or 0.0 for kind in known)
    parts = [
        f"{words} {format_seconds(kind.total_s)}"
        for kind, words in zip(known, kinds_in_words(known, unit), strict=True)
    ]
    parted = f": {', '.join(parts)}" if len(parts) > 1 else ""
    slower_s = steps.profiling_s or 0.0
    added = f" Profiling added {format_seconds(slower_s)}." if slower_s > ADDED * took_s else ""
    return f"{number} took {format_seconds(took_s)}{parted}.{added}"


def many(count: int, unit: str) -> str:
    """A number of things.

    >>> many(1, "step"), many(1200, "training step")
    ('1 step', '1,200 training steps')
    """
    return f"1 {unit}" if count == 1 else f"{count:,} {unit}s"


def kinds_in_words(kinds: Sequence[StepKind], unit: str) -> list[str]:
    """Each kind as part of a sentence; what the first one does is not said again.

    >>> names = ("training, 8x16", "training, 64x16", "after the last step")
    >>> kinds = [StepKind(name=name, count=3 * (k < 2)) for k, name in enumerate(names)]
    >>> kinds_in_words(kinds, "step")
    ['3 training steps, 8x16', '3 training, 64x16', 'after the last step']
    """
    found: list[str] = []
    first = ""
    for kind in kinds:
        name = kind.name
        if not kind.count:
            found.append(name)
        elif first and name.startswith(f"{first} with "):
            found.append(f"{kind.count:,} {name.removeprefix(first).strip()}")
        elif first:
            found.append(f"{kind.count:,} {'other' if name == unit else name}")
        else:
            first = name
            found.append(_first(kind, unit))
    return found


def _first(kind: StepKind, unit: str) -> str:
    """The kind with most time, by the name of what it is.

    >>> _first(StepKind(name="training with evaluation", count=8), "step")
    '8 training steps with evaluation'
    """
    if kind.name in (unit, "other steps"):
        return many(kind.count, "other step" if kind.name != unit else unit)
    head, comma, sizes = kind.name.partition(",")
    does, besides, more = head.partition(" with ")
    return f"{many(kind.count, f'{does} {unit}')}{besides}{more}{comma}{sizes}"


def of_kind(steps: Steps | None) -> str:
    """Which kind of steps a report is of, where there are several.

    >>> kinds = [StepKind(name="training", count=8), StepKind(name="x", count=1, reported=False)]
    >>> of_kind(Steps(count=9, kinds=kinds)), of_kind(Steps(count=9, kinds=kinds[:1]))
    (' (training)', '')
    """
    if steps is None or sum(kind.count > 0 for kind in steps.kinds) < 2:
        return ""
    return next((f" ({kind.name})" for kind in steps.kinds if kind.reported), "")
