"""`timeroof.profile`: a block, a function or a loop of the program itself."""

from __future__ import annotations

import functools
import inspect
import os
import shutil
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, ParamSpec, TypeVar, overload

from timeroof.api.live import recordings_in, report_of
from timeroof.core.errors import UsageError
from timeroof.core.machine import Machine
from timeroof.core.report import Report
from timeroof.live.calibration import kept_calibrations
from timeroof.live.reading import WORDS
from timeroof.live.recording import Recording
from timeroof_recorder import activate, active, deactivate
from timeroof_recorder.instruments import FRAMEWORKS
from timeroof_recorder.process import after_import, is_loaded, mind_forks
from timeroof_recorder.watching import Several

if TYPE_CHECKING:
    from types import TracebackType

P = ParamSpec("P")
R = TypeVar("R")


class Profiler:
    """Profiles what runs inside it; `step()` after each step gives clean, timed, described ones.

    with timeroof.profile() as p:
        train()
    p.report().totals.by_limiter

    Of several frameworks that the program has imported, it is about the one whose ops take most
    of the time of the block, or of the first step.
    """

    def __init__(self, *, machine: Machine | str | None, warmup: int, steps: int) -> None:
        self._machine = machine
        self._plan: dict[str, object] = {"warmup": warmup, "steps": steps, "marker": "manual"}
        self._watching: Several | None = None
        self._back: list[Callable[[], None]] = []
        self._report: Report | None = None
        self._open = False
        self._partial: str | None = None
        self._why = "never-entered"
        self._elsewhere = False

    def __enter__(self) -> Profiler:
        if active() is not None:
            # Whoever came first profiles: two at once would measure one another.
            self._why = "inside-another"
            return self
        watching = self._watching = self._watching or self._begun()
        activate(watching)
        self._open = True
        # What the block imports is watched from then on.
        self._back += [after_import(name, self._joining(name)) for name in FRAMEWORKS]
        watching.open_block()
        return self

    def _begun(self) -> Several:
        folder = Path(mkdtemp(prefix="timeroof-"))
        weakref.finalize(self, _remove, folder, os.getpid())
        plan = self._plan | {"calibrated": list(kept_calibrations())}
        watching = Several(str(folder), plan)
        mind_forks(watching)
        return watching

    def _joining(self, name: str) -> Callable[[], None]:
        watching = self._watching

        def join() -> None:
            if watching is not None:
                watching.join(name)

        return join

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(f"it raised {kind.__name__}" if kind is not None else None)

    def close(self, partial: str | None = None) -> None:
        """End the profiling."""
        while self._back:
            self._back.pop()()
        if self._open and self._watching is not None:
            self._open = False
            deactivate(self._watching)
            self._watching.finish()
            self._partial = partial

    def step(self) -> None:
        """A step ended."""
        if self._open and self._watching is not None:
            self._watching.step()

    def report(self) -> Report:
        """What was seen, judged."""
        self.close()
        if self._report is None:
            self._report = report_of(self._recorded(), self._machine)
        return self._report

    def _recorded(self) -> Recording:
        """What the session wrote, or why it wrote nothing."""
        folder = self._watching.folder if self._watching is not None else None
        if folder is None:
            why = "no-framework" if self._watching is not None else self._why
            loaded = [
                (name, str(getattr(sys.modules[name], "__version__", "")))
                for name in FRAMEWORKS if is_loaded(name)
            ]  # fmt: skip
            return Recording(why_nothing=WORDS[why], frameworks=loaded)
        found = recordings_in(Path(folder))[0][0]
        found.partial = self._partial
        if self._elsewhere:
            found.note("Calls in other threads than the first are not looked at.")
        return found


def _remove(folder: Path, maker: int) -> None:
    """A forked child has the finalizers of its parent; the files are not its own."""
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)


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
    function: Callable[..., object] | None = None,
    /,
    *,
    machine: Machine | str | None = None,
    warmup: int = 2,
    steps: int = 20,
) -> object:
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


def _runs_later(function: Callable[..., object]) -> bool:
    kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
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
        self._elsewhere = True
        return True

    def _begin_call(self) -> None:
        # A call inside a call (recursion) is a part of the outer one's step.
        self._depth += 1
        if self._report is not None or self._depth > 1:
            return
        if not self._open:
            self.__enter__()
        elif active() is None and self._watching is not None:
            activate(self._watching)
            self._watching.open_step()

    def _end_call(self) -> None:
        self._depth -= 1
        watching = self._watching
        if self._open and self._depth == 0 and watching is not None and active() is watching:
            watching.close_step()
            deactivate(watching)

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
