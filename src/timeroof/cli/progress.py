"""Progress on stderr, for work that takes longer than a blink."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from timeroof.cli.interrupt import stop_if_pressed


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """A bar that the yielded function moves by one step and labels; silent in pipes."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from timeroof.views.terminal import console

    out = console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task(what, total=total)

        def advance(label: str) -> None:
            stop_if_pressed()
            bar.update(task, advance=1, description=f"{what} {label}"[:40])

        yield advance


@contextmanager
def share_bar(what: str) -> Iterator[Callable[[str, float], None]]:
    """A bar for work that tells its own share done, from 0 to 1."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from timeroof.views.terminal import console

    out = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task(what, total=1.0)

        def tell(label: str, share: float) -> None:
            stop_if_pressed()
            bar.update(task, completed=min(share, 1.0), description=f"{what}: {label}"[:48])

        yield tell
