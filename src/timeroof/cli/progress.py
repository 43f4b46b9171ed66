"""Progress on stderr, for work that takes longer than a blink."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from timeroof.cli.process import stop_if_pressed

if TYPE_CHECKING:
    from rich.progress import Progress

# Reading a small file needs no bar.
PATIENCE_S = 2.0


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """A bar that the yielded function moves by one step and labels; silent in pipes."""
    with share_bar(what) as tell:
        done = 0

        def advance(label: str) -> None:
            nonlocal done
            done += 1
            tell(f"{label} ({done}/{total})", done / total)

        yield advance


@contextmanager
def share_bar(what: str, *, after_s: float = 0.0) -> Iterator[Callable[[str, float], None]]:
    """A bar for work that tells its own share done, from 0 to 1; silent in pipes.

    It shows itself once the work has taken `after_s`, and raises a Ctrl-C that was swallowed.
    """
    from timeroof.views.plain import plain_text

    start_s = time.monotonic()
    bar: Progress | None = None

    def tell(label: str, share: float) -> None:
        nonlocal bar
        stop_if_pressed()
        if bar is None and time.monotonic() - start_s >= after_s:
            bar = _started(what)
        if bar is not None:
            text = f"{what}: {plain_text(label)}"[:48]
            bar.update(bar.task_ids[0], completed=min(share, 1.0), description=text)

    if not after_s:
        bar = _started(what)
    try:
        yield tell
    finally:
        if bar is not None:
            bar.stop()


def _started(what: str) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from timeroof.views.terminal import console

    out = console(stderr=True)
    # File names are no markup.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=out, transient=True, disable=not out.is_terminal)
    bar.add_task(what, total=1.0)
    bar.start()
    return bar
