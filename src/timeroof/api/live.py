"""A recording judged: the report of a live run."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import msgspec

from timeroof.api.reports import analyze, machine as find_machine
from timeroof.core.children import Child
from timeroof.core.errors import TimeroofError, UsageError
from timeroof.core.machine import HUGE_PAGES, Machine
from timeroof.core.notes import Note
from timeroof.core.report import Report
from timeroof.live.accounting import contention_note, waiting_share
from timeroof.live.building import build_profile
from timeroof.live.device import device_profile
from timeroof.live.torch.finishing import INSIDE_ANOTHER, NEVER_ENTERED
from timeroof.live.torch.markers import MANUAL
from timeroof.live.torch.recording import Recording
from timeroof.live.torch.session import Session, activate, active, deactivate
from timeroof.model.judge import scope_for

if TYPE_CHECKING:
    from types import TracebackType

# The machine that a live run is judged on: the named one, or this one, measured once.

__all__ = ["HERE", "machine_for", "scope_for"]

HERE = "here"
LIMIT_S = 180
HUGE_PAGE_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def machine_for(
    name: str | Machine | None, told: Callable[[str], None] | None = None
) -> tuple[Machine | None, list[str]]:
    """A machine, and notes on how it came about; None where this one cannot be measured."""
    if isinstance(name, Machine):
        return name, []
    if name not in (None, HERE):
        return find_machine(str(name)), []
    try:
        found, notes = _this_machine(told)
        return with_page_setting(found), notes
    except Exception as error:  # a report without bounds is better than none
        words = f"this machine could not be measured ({error}): nothing is bounded"
        return None, [Note(words, "machine-not-measured", "warning")]


def with_page_setting(machine: Machine, setting: Path = HUGE_PAGE_SETTING) -> Machine:
    """The machine with a word on who gets huge pages, where the system says so."""
    try:
        chosen = re.search(r"\[(\w+)\]", setting.read_text())
    except OSError:
        return machine
    if chosen is None:
        return machine
    software = machine.software | {HUGE_PAGES: chosen[1]}
    return msgspec.structs.replace(machine, software=software)


def _this_machine(told: Callable[[str], None] | None) -> tuple[Machine, list[str]]:
    from timeroof.probe.measure import cached_machine

    found = cached_machine()
    if found is not None:
        return found, []
    if told is not None:
        told("measuring this machine once (a few seconds)")
    # In a process of its own: the program may hold memory, threads and settings of torch.
    done = Child("timeroof.probe.measure").run(capture_output=True, timeout=LIMIT_S)
    found = cached_machine()
    if found is None:
        reason = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason"])[-1]
        raise RuntimeError(reason)
    words = "the machine was measured quickly; `timeroof machine` measures it in full"
    return found, [Note(words, "machine-quick")]


def report_of(
    recording: Recording,
    machine: Machine | str | None = None,
    command: str | None = None,
    told: Callable[[str], None] | None = None,
) -> Report:
    """Build the profile of an average step and judge it on a machine, by default this one."""
    on_device = _device_report(recording, machine, command)
    if on_device is not None:
        return on_device
    found, notes = machine_for(machine, told)
    built = build_profile(recording, found, command)
    scope = scope_for(recording.threads, found)
    if len(built):  # where nothing was measured there is nothing to judge or to disturb
        if scope == "core":
            words = "the program uses one thread: judged on one core's ceilings"
            notes.append(Note(words, "one-thread"))
        contended = contention_note(waiting_share())
        if contended is not None:
            notes.append(Note(contended, "cpu-contended", "warning"))
    profile = replace(built, notes=(*built.notes, *notes))
    return analyze(profile, found, scope=scope)


def _device_report(
    recording: Recording, machine: Machine | str | None, command: str | None
) -> Report | None:
    """The report of a GPU's kernels; None where the steps had none."""
    if not recording.device_traces:
        return None
    named = machine_for(machine)[0] if machine not in (None, HERE) else None
    try:
        found = device_profile(recording, named, command)
    except TimeroofError as error:
        recording.note(f"the device's kernels could not be read ({error})")
        return None
    if found is None:
        return None
    return analyze(found[0], found[1])


# `timeroof.profile`: a block, a function or a loop of the program itself.

P = ParamSpec("P")
R = TypeVar("R")


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
