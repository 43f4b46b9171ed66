"""Ops in threads that the profiler does not follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from timeroof.live.torch.recording import Described, TimedStep

NAMED = 3
OP_SCOPE = 0


def other_threads_note(ops: Iterable[Described], steps: Sequence[TimedStep]) -> str | None:
    """A word where a described step has ops in threads in which no timed step has any.

    torch's profiler is switched on for the thread that steps, and autograd's. To switch it on for
    all would end programs whose ops run on while it is switched off.
    """
    followed = {int(thread) for step in steps for thread in set(step.thread.tolist())}
    names = Counter(
        op.name
        for op in ops
        if op.thread not in followed and op.scope == OP_SCOPE and op.parent is None
    )
    if not names or not followed:
        return None
    shown = ", ".join(name for name, _ in names.most_common(NAMED))
    more = ", …" if len(names) > NAMED else ""
    return (
        f"other threads of the program ran ops during a step ({names.total()} of them: {shown}"
        f"{more}): their time and work are in no row, as only the thread that steps is timed"
    )
