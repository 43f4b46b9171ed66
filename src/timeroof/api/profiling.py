"""`timeroof.profile`: a block, a function or a loop of the program itself."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from timeroof.core.errors import UsageError
from timeroof.live.torch.markers import MANUAL
from timeroof.live.torch.refusals import INSIDE_ANOTHER, NEVER_ENTERED
from timeroof.live.torch.session import Session, activate, active, deactivate

if TYPE_CHECKING:
    from types import TracebackType

    from timeroof.core.machine import Machine
    from timeroof.core.report import Report

P = ParamSpec("P")
R = TypeVar("R")


def step() -> None:
    """Say that a step of the program ended; does nothing where nobody profiles."""
    session = active()
    if session is not None:
        session.step()


class Profiler:
    """Profiles what runs inside it; `step()` after each step gives clean, timed, described ones.

    with timeroof.profile() as p:
        train()
    p.report().totals.by_limiter
    """

    def __init__(self, *, machine: Machine | str | None, warmup: int, steps: int) -> None:
        self._machine = machine
        self._session = Session(warmup=warmup, steps=steps, marker=MANUAL)
        self._report: Report | None = None
        self._open = False
        self._session.recording.why_nothing = NEVER_ENTERED

    def __enter__(self) -> Profiler:
        import torch  # noqa: F401

        self._session.recording.has_torch = True
        if active() is not None:
            # Whoever came first profiles: two at once would measure one another.
            self._session.recording.why_nothing = INSIDE_ANOTHER
            return self
        self._session.recording.why_nothing = None
        self._session.start()
        activate(self._session)
        self._open = True
        self._session.open_block()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(f"it raised {kind.__name__}" if kind is not None else None)

    def close(self, partial: str | None = None) -> None:
        """End the profiling."""
        if self._open:
            self._open = False
            deactivate(self._session)
            self._session.finish(partial)

    def step(self) -> None:
        """A step ended."""
        if self._open:
            self._session.close_block()
            self._session.step()

    def report(self) -> Report:
        """What was seen, judged."""
        self.close()
        if self._report is None:
            from timeroof.api.live import report_of

            self._session.recording.has_torch |= "torch" in sys.modules
            self._report = report_of(self._session.recording, self._machine)
        return self._report


@overload
def profile(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def profile(
    function: None = None,
    /,
    *,
    machine: Machine | str | None = None,
    warmup: int = 2,
    steps: int = 20,
) -> _Maker: ...
def profile(
    function: Callable[..., Any] | None = None,
    /,
    *,
    machine: Machine | str | None = None,
    warmup: int = 2,
    steps: int = 20,
) -> Any:
    """Profile a block (`with timeroof.profile() as p`) or a function (`@timeroof.profile`).

    A block that runs once is described and timed in one pass. With `p.step()` after every
    step, or a decorated function that is called again and again, there are warm-up, clean,
    timed and described steps as `timeroof run` has them. A decorated function has `report()`.
    """
    if steps < 1 or warmup < 0:
        raise UsageError(
            f"profile(warmup={warmup}, steps={steps}) leaves nothing to look at",
            advice="use warmup=0 or more and steps=1 or more",
        )
    maker = _Maker(machine=machine, warmup=warmup, steps=steps)
    return maker if function is None else maker(function)


def _runs_later(function: Callable[..., Any]) -> bool:
    kinds = (
        inspect.isgeneratorfunction,
        inspect.iscoroutinefunction,
        inspect.isasyncgenfunction,
    )
    return any(is_kind(function) for is_kind in kinds)


class _Maker(Profiler):
    """A profiler that is also a decorator."""

    _depth = 0
    _thread: threading.Thread | None = None

    def _is_other_thread(self) -> bool:
        """Calls in other threads than the first run as they are: steps would overlap."""
        if self._thread is None:
            self._thread = threading.current_thread()
        if self._thread is threading.current_thread():
            return False
        self._session.recording.note("calls in other threads than the first are not looked at")
        return True

    def _begin_call(self) -> None:
        # A call inside a call (recursion) is a part of the outer one's step.
        self._depth += 1
        if self._report is not None or self._depth > 1:
            return
        if not self._open:
            self.__enter__()
        elif active() is None:
            activate(self._session)
            self._session.open_step()

    def _end_call(self) -> None:
        self._depth -= 1
        if self._open and self._depth == 0 and active() is self._session:
            self._session.close_block()
            self._session.close_step()
            deactivate(self._session)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Every call of the function is a step."""
        if _runs_later(function):
            name = getattr(function, "__name__", "the function")
            raise UsageError(
                f"{name} is a generator or async: a call of it runs nothing yet",
                advice="put `with timeroof.profile() as p:` around its loop, with p.step() in it",
            )

        @functools.wraps(function)
        def watched(*args: P.args, **kwargs: P.kwargs) -> R:
            if self._is_other_thread():
                return function(*args, **kwargs)
            self._begin_call()
            try:
                return function(*args, **kwargs)
            finally:
                self._end_call()

        watched.report = self.report  # type: ignore[attr-defined]
        return watched
