"""The command's process: streams that may be closed or full, Ctrl-C, progress on a terminal."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from timeroof.core.ending import SIGNALS, allow_words
from timeroof.core.errors import EXIT_INTERRUPT, InputError, TimeroofError
from timeroof.views.plain import plain_text

if TYPE_CHECKING:
    from rich.progress import Progress


def prepare_streams() -> None:
    """Make stdout and stderr usable: characters they cannot print become question marks."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def stdout_goes_nowhere() -> bool:
    """Whether stdout was closed when we started, so that `prepare_streams` put another there."""
    return sys.stdout is None or getattr(sys.stdout, "name", None) == os.devnull


def abandon_stdout() -> None:
    """Send what is left of stdout nowhere, so that the interpreter does not stumble over it."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return


def flush_streams() -> None:
    """Write out what is held, before an end that does not; a stream that is gone is let be."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def say(message: str) -> None:
    """One line on stderr, without characters that could steer a terminal."""
    try:
        sys.stderr.write(f"timeroof: {plain_text(message)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


# Ctrl-C that is never lost: an exception may be swallowed in a callback, a flag is not. SIGTERM and
# SIGHUP (a terminal that closed) end a command in the same way.

_pressed: list[int] = []


def _remember(number: int, frame: FrameType | None) -> None:
    _pressed.append(number)
    raise KeyboardInterrupt


def _told(unraisable: sys.UnraisableHookArgs) -> None:
    """A signal that came within a callback of Python's own (an import's lock) is remembered: no
    traceback tells of it."""
    if not (_pressed and issubclass(unraisable.exc_type, KeyboardInterrupt)):
        sys.__unraisablehook__(unraisable)


def listen() -> None:
    """Remember signals that end a command from now on; those that the process was started to
    ignore (`nohup`) stay ignored."""
    _pressed.clear()
    if threading.current_thread() is not threading.main_thread():
        return
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _told
    signal.signal(signal.SIGINT, _remember)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _remember)


def stop_if_pressed() -> None:
    """Raise the interrupt that a callback swallowed; call it between pieces of long work."""
    if _pressed:
        raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Whether a signal asked the command to end."""
    return bool(_pressed)


def interrupt_code() -> int:
    """What a command that a signal ended exits with: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + (_pressed[0] if _pressed else signal.SIGINT)


_FOUND: list[object] = []


def take_over() -> None:
    """Set the process up for a command of ours; its answer to Ctrl-C is remembered."""
    _FOUND[:] = [signal.getsignal(signal.SIGINT)]
    prepare_streams()
    listen()


def ignored_before() -> list[int]:
    """Signals that this process was started to ignore (`nohup`): a program of ours is, too."""
    ignored = [signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]
    found = [int(n) for n in ignored if signal.getsignal(n) is signal.SIG_IGN]
    if signal.SIG_IGN in _FOUND:
        found.append(int(signal.SIGINT))
    return found


def without_reader(action: Callable[[], None]) -> None:
    """Print something; a reader that has left (`| head`) must not cost more than that."""
    try:
        action()
        sys.stderr.flush()
    # A console may end the program over a broken pipe.
    except (OSError, ValueError, SystemExit):
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


# Progress on stderr, for work that takes longer than a blink.

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


# A signal at any time of a study: one line that says what is kept and how to go on.


class InterruptedStudyError(TimeroofError):
    """A signal: what is finished is kept."""

    exit_code = EXIT_INTERRUPT


@dataclass
class Stage:
    """How far a study has come, as far as an interruption needs to know."""

    fresh: bool = False
    store: Path | None = None
    keys: Sequence[str] = field(default_factory=list)

    def error(self) -> InterruptedStudyError:
        """What to say when it is interrupted now."""
        kept, total = 0 if self.store is None else self._kept(), len(self.keys)
        if not kept:
            of = f"of {total} cases" if total > 1 else "case"
            what = f"interrupted before any {of} was measured"
            return InterruptedStudyError(what, advice="run the same command again")
        again = "--resume in place of --fresh" if self.fresh else "--resume"
        part, does = (f"{kept} of {total}", "measures the rest")
        if kept >= total:
            part, does = (f"all {total}", "writes the report")
        what = f"interrupted: {part} cases are kept in {self.store}"
        return InterruptedStudyError(what, advice=f"the same command with {again} {does}")

    def _kept(self) -> int:
        from timeroof.study.store import Store

        assert self.store is not None
        with suppress(InputError):
            if self.store.exists():
                with Store(self.store) as store:
                    return len(set(self.keys) & set(store.finished()))
        return 0


@contextmanager
def stoppable(stage: Stage) -> Iterator[None]:
    """Say what is kept where Ctrl-C, SIGTERM or SIGHUP ends the block."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
        stop_if_pressed()
    except KeyboardInterrupt:
        # A second signal, or an impatient second Ctrl-C, must not break into the sentence.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        allow_words()
        raise stage.error() from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
