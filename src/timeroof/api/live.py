"""A recording judged: the report of a live run."""

from __future__ import annotations

import functools
import inspect
import os
import re
import shutil
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import msgspec

from timeroof.api.reports import analyze, machine as find_machine
from timeroof.core.children import Child
from timeroof.core.errors import TimeroofError, UsageError
from timeroof.core.machine import HUGE_PAGES, Machine
from timeroof.core.notes import Note
from timeroof.core.report import Report
from timeroof.live.accounting import contention_note
from timeroof.live.building import build_profile
from timeroof.live.calibration import keep_calibration, kept_calibrations
from timeroof.live.device import device_profile
from timeroof.live.reading import WORDS, ProcessSeen, read_folder, recordings_of
from timeroof.live.recording import Recording
from timeroof.model.judge import scope_for
from timeroof.read.ranks import merged_ranks
from timeroof_recorder import activate, active, deactivate
from timeroof_recorder.instruments import FRAMEWORKS, instruments_of
from timeroof_recorder.log import Log
from timeroof_recorder.process import is_loaded, mind_forks
from timeroof_recorder.session import Session

if TYPE_CHECKING:
    from types import TracebackType

    from timeroof.live.running import Ended

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
        contended = contention_note(recording.waiting_share)
        if contended is not None:
            notes.append(contended)
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


# What the recorders of a run wrote, as recordings.


def recordings_in(folder: Path) -> list[list[Recording]]:
    """The recordings of each process that took steps, kinds with most time first; one that says
    why there is nothing, where no process did."""
    processes = read_folder(folder)
    kept = kept_calibrations()
    for seen in processes:
        if seen.frameworks:
            keep_calibration(" ".join(seen.frameworks[0]), seen.rounds)
    stepping = [seen for seen in processes if seen.has_steps] or _most_telling(processes)
    return [recordings_of(seen, folder, kept) for seen in stepping] or [[Recording()]]


def _most_telling(processes: list[ProcessSeen]) -> list[ProcessSeen]:
    """Of processes without steps the first that had a framework, or the first."""
    return [seen for seen in processes if seen.frameworks][:1] or processes[:1]


def ended_of(folder: Path, ended: Ended) -> Ended:
    """How the program ended, with what its recorder knows of the reason."""
    processes = read_folder(folder)
    first = processes[0] if processes else None
    if first is None:
        return ended
    early, error = ended.early, first.ended
    if early is None and first.ended is None:
        early = f"it ended by os._exit or an exec, with code {ended.code}"
    elif early is None and error and ended.code and error != "SystemExit":
        early = f"it raised {error}"
    return replace(ended, early=early, complaint=first.refused)


def report_of_run(
    folder: Path,
    machine: Machine | str | None = None,
    command: str | None = None,
    told: Callable[[str], None] | None = None,
    *,
    ended: Ended | None = None,
    step_kind: str | None = None,
) -> tuple[Report, Recording]:
    """The report of a recorded run, and the recording it is of: one kind of steps, and of several
    processes all that are ranks of one program."""
    by_process = recordings_in(folder)
    for recordings in by_process:
        for recording in recordings:
            _say_end(recording, ended)
    chosen = [_of_kind(recordings, step_kind) for recordings in by_process]
    ranks = {recording.rank for recording in chosen}
    if len(chosen) > 1 and len(ranks) == len(chosen) and None not in ranks:
        return _of_ranks(sorted(chosen, key=lambda r: r.rank or 0), machine, command, told)
    # Processes that know nothing of one another: the one with most time is reported.
    main = max(chosen, key=lambda r: sum(kind.total_s or 0.0 for kind in r.kinds))
    if len(chosen) > 1:
        others = len(chosen) - 1
        more = "1 other process" if others == 1 else f"{others} other processes"
        main.note(f"{more} of the program took steps too; this is the one with the most time")
    return report_of(main, machine, command, told), main


def _say_end(recording: Recording, ended: Ended | None) -> None:
    if ended is None:
        return
    recording.partial = ended.early
    if ended.code and ended.early is None:
        recording.note(f"the program exited with code {ended.code}")


def _of_kind(recordings: list[Recording], name: str | None) -> Recording:
    """The recording of the kind that was asked for, else that with most time."""
    if name is None:
        return recordings[0]
    for recording in recordings:
        if recording.kind == name:
            return recording
    known = ", ".join(recording.kind for recording in recordings)
    raise UsageError(f"no steps of the kind {name!r} were timed", advice=f"there are: {known}")


def _of_ranks(
    chosen: list[Recording],
    machine: Machine | str | None,
    command: str | None,
    told: Callable[[str], None] | None,
) -> tuple[Report, Recording]:
    found, notes = machine_for(machine, told)
    built = [build_profile(recording, found, command) for recording in chosen]
    merged = merged_ranks(built, [f"rank {recording.rank}" for recording in chosen])
    steps = merged.steps or built[0].steps
    profile = replace(merged, steps=steps, notes=(*merged.notes, *notes))
    return analyze(profile, found, scope=scope_for(chosen[0].threads, found)), chosen[0]


# `timeroof.profile`: a block, a function or a loop of the program itself.

P = ParamSpec("P")
R = TypeVar("R")
FRAMEWORK = "torch"


def framework_in_use() -> str:
    """The framework that a block is about: the one that the program has imported. Of several the
    one that it has computed with, PyTorch first; torch where none is there yet."""
    loaded = [name for name in FRAMEWORKS if is_loaded(name)]
    if len(loaded) < 2:
        return loaded[0] if loaded else FRAMEWORK
    used = [name for name in loaded if name != FRAMEWORK and instruments_of(name).is_used()]
    return FRAMEWORK if FRAMEWORK in loaded and not used else (used or loaded)[0]


class Profiler:
    """Profiles what runs inside it; `step()` after each step gives clean, timed, described ones.

    with timeroof.profile() as p:
        train()
    p.report().totals.by_limiter
    """

    def __init__(self, *, machine: Machine | str | None, warmup: int, steps: int) -> None:
        self._machine, self._framework = machine, FRAMEWORK
        self._plan: dict[str, object] = {"warmup": warmup, "steps": steps, "marker": "manual"}
        self._folder: Path | None = None
        self._session: Session | None = None
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
        self._session = self._begun()
        activate(self._session)
        self._open = True
        self._session.open_block()
        return self

    def _begun(self) -> Session:
        if self._session is not None:
            return self._session
        self._framework = framework_in_use()
        import_module(self._framework)
        self._folder = Path(mkdtemp(prefix="timeroof-"))
        weakref.finalize(self, _remove, self._folder, os.getpid())
        plan = self._plan | {"calibrated": list(kept_calibrations())}
        session = Session(Log(str(self._folder)), plan, instruments_of(self._framework))
        mind_forks(session)
        session.start()
        return session

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(f"it raised {kind.__name__}" if kind is not None else None)

    def close(self, partial: str | None = None) -> None:
        """End the profiling."""
        if self._open and self._session is not None:
            self._open = False
            deactivate(self._session)
            self._session.finish()
            self._partial = partial

    def step(self) -> None:
        """A step ended."""
        if self._open and self._session is not None:
            self._session.step()

    def report(self) -> Report:
        """What was seen, judged."""
        self.close()
        if self._report is None:
            self._report = report_of(self._recorded(), self._machine)
        return self._report

    def _recorded(self) -> Recording:
        """What the session wrote, or why it wrote nothing."""
        if self._folder is None:
            version = str(getattr(sys.modules.get(self._framework), "__version__", ""))
            loaded = [(self._framework, version)]
            return Recording(why_nothing=WORDS[self._why], frameworks=loaded)
        found = recordings_in(self._folder)[0][0]
        found.partial = self._partial
        if self._elsewhere:
            found.note("calls in other threads than the first are not looked at")
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
        self._elsewhere = True
        return True

    def _begin_call(self) -> None:
        # A call inside a call (recursion) is a part of the outer one's step.
        self._depth += 1
        if self._report is not None or self._depth > 1:
            return
        if not self._open:
            self.__enter__()
        elif active() is None and self._session is not None:
            activate(self._session)
            self._session.open_step()

    def _end_call(self) -> None:
        self._depth -= 1
        session = self._session
        if self._open and self._depth == 0 and session is not None and active() is session:
            session.close_block()
            session.close_step()
            deactivate(session)

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
