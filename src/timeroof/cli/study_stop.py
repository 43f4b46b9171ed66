"""Ctrl-C and SIGTERM at any time of a study: one line that says what is kept and how to go on."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from timeroof.cli.interrupt import stop_if_pressed
from timeroof.core.errors import EXIT_INTERRUPT, InputError, TimeroofError


class InterruptedStudyError(TimeroofError):
    """Ctrl-C or SIGTERM: what is finished is kept."""

    exit_code = EXIT_INTERRUPT


@dataclass
class Stage:
    """How far a study has come, as far as an interruption needs to know."""

    fresh: bool = False
    store: Path | None = None
    keys: Sequence[str] = field(default_factory=list)

    def error(self) -> InterruptedStudyError:
        """What to say when it is interrupted now."""
        if self.store is None:
            return InterruptedStudyError(
                "interrupted before any case was measured", advice="run the same command again"
            )
        kept, total = self._kept(), len(self.keys)
        again = "--resume in place of --fresh" if self.fresh else "--resume"
        if kept < total:
            return InterruptedStudyError(
                f"interrupted: {kept} of {total} cases are kept in {self.store}",
                advice=f"the same command with {again} measures the rest",
            )
        return InterruptedStudyError(
            f"interrupted: all {total} cases are kept in {self.store}",
            advice=f"the same command with {again} writes the report",
        )

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
    """Treat SIGTERM as Ctrl-C, and say of both what is kept."""

    def stop(number: int, frame: object) -> None:
        # The handler of Ctrl-C remembers it where a callback swallows the exception.
        signal.raise_signal(signal.SIGINT)

    pressed = signal.getsignal(signal.SIGINT)
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
        stop_if_pressed()
    except KeyboardInterrupt:
        # A second signal, or an impatient second Ctrl-C, must not break into the sentence.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise stage.error() from None
    finally:
        signal.signal(signal.SIGINT, pressed)
        signal.signal(signal.SIGTERM, before)
