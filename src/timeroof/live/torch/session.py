"""One profiled program: at every step's end the running pass is closed and the next opened."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from timeroof.core.errors import ignoring, trace_ignored
from timeroof.live.torch import finishing, process
from timeroof.live.torch.calibration import Calibration
from timeroof.live.torch.describing import Describing, first_and_latest
from timeroof.live.torch.inductor.hooks import Workshop
from timeroof.live.torch.markers import AUTO, FORWARD, MANUAL, Markers
from timeroof.live.torch.pace import Asleep, Pace, Slept
from timeroof.live.torch.primitives import PrimitivePass
from timeroof.live.torch.process import after_import, is_from_handler, mind_forks
from timeroof.live.torch.recording import CleanStep, Recording, TimedStep
from timeroof.live.torch.schedule import UNSETTLED, UNTOUCHED, CleanSample, Pass, Schedule
from timeroof.live.torch.timing import DevicePass, Timing, device_activities, is_profiling

Told = Callable[[int, str], None]

# Timed steps are kept until they have so many events together, about 50 bytes each.
MOST_EVENTS = 4_000_000
# Passes that have torch's profiler on.
RECORDING = (Pass.TIMED, Pass.PRIMITIVES, Pass.DEVICE)


class Session:
    """Watches a program from torch's import to its end; never lets an error of ours into it."""

    def __init__(
        self, *, warmup: int = 2, steps: int = 20, marker: str = AUTO, told: Told | None = None,
        source: bool = False,
    ) -> None:  # fmt: skip
        self.recording = Recording(marker=marker, with_lines=source)
        # The first step is over when the first mark comes: it is one of the warm-up.
        self._plan = (max(0, warmup - 1), steps)
        self.schedule = Schedule(*self._plan)
        self.markers = Markers(marker, self.boundary, self.restart)
        self._sample, self._pace = CleanSample(), Pace()
        self._told = told
        self._pid, self._thread = os.getpid(), threading.current_thread()
        self._pass = Pass.UNSEEN
        self._workshop = Workshop()
        self._timing, self._describing = Timing(), self._describer()
        self._primitives = PrimitivePass(self._timing)
        self._device = DevicePass()
        self._calibration = Calibration()
        self._begin_ns, self._begin_faults = 0, 0
        self._asleep = Asleep()
        self._pending: list[Describing] = []
        self._former: tuple[dict[str, object], list[Describing]] | None = None
        self._unpatch: Callable[[], None] = lambda: None
        self._unhook: Callable[[], None] = lambda: None
        self._block: Describing | None = None
        self._in_block = self._forked_in_block = False
        self._foreign = self._over = False
        self._events = 0

    def _describer(self) -> Describing:
        return Describing(self._workshop.graphs, with_lines=self.recording.with_lines)

    def start(self) -> None:
        """Wait for torch, or attach at once where it is there."""
        self._thread = threading.current_thread()
        mind_forks(self)
        self._unhook = after_import("torch", self._attach)

    def _attach(self) -> None:
        with self._guard():
            import torch

            self.recording.has_torch = True
            self.recording.torch_version = str(torch.__version__)
            self._unpatch = process.step_aside(self._yield_profiler, self._profiler_is_back)
            self._workshop.attach()
            self.markers.attach()

    def boundary(self) -> None:
        """A step ended: close its pass and open the next one's."""
        self.close_step()
        self.open_step()

    def restart(self) -> None:
        """What was taken for steps were parts of steps: look at whole ones from the beginning. The
        parts stand in where the program ends before a whole step was timed."""
        if not self._is_ours():
            return
        with self._guard():
            self._drop_pass()
            self._former = (self.recording.set_aside(), self._pending)
            self._pending, self._events = [], 0
            self.schedule, self._sample = Schedule(*self._plan), CleanSample()

    def close_step(self) -> None:
        """A step ended; what follows until the next one opens is not looked at."""
        end_ns = time.perf_counter_ns()
        if self._is_ours():
            with process.switching(self._pass), self._guard():
                self._close(end_ns)
                self.recording.steps_seen += 1

    def open_step(self) -> None:
        """A step begins."""
        if self._is_ours():
            chosen = self.schedule.next()
            with process.switching(chosen), self._guard():
                self._open(chosen)

    def _is_ours(self) -> bool:
        if self._over or os.getpid() != self._pid:
            return False
        if threading.current_thread() != self._thread:
            self.recording.note("steps in other threads than the first are not looked at")
            return False
        return True

    def _close(self, end_ns: int) -> None:
        done, self._pass = self._pass, Pass.UNSEEN
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - self._begin_faults
        if done in UNTOUCHED or done in UNSETTLED:
            step = CleanStep(end_ns - self._begin_ns, faults, self._foreign or is_profiling())
            self._sample.take(self.recording, step, settled=done in UNTOUCHED)
        elif done is Pass.TIMED:
            self._asleep.end()
            self._keep(self._timing.stop(), faults, self._asleep.slept())
        elif done is Pass.DESCRIBED:
            self._describing.stop()
            self._pending = first_and_latest([*self._pending, self._describing])
            self._describing = self._describer()
        elif done is Pass.PRIMITIVES:
            seen = self._primitives.stop()
            if seen is not None:
                self.recording.primitive_steps.append(seen)
        elif done is Pass.DEVICE:
            trace = self._device.stop(self.recording)
            if trace is not None:
                self.recording.device_traces.append(trace)

    def _keep(self, step: TimedStep | None, faults: int, slept: Slept) -> None:
        if step is None or not len(step):
            return
        at = self.recording.steps_seen + 1
        step = replace(step, faults=faults, asleep_ns=slept.ns, sleeps=slept.times, number=at)
        self.recording.timed.append(step)
        self._events += len(step)
        if not self._foreign:
            self._calibration.after_step(len(step))

    def _open(self, chosen: Pass) -> None:
        if self._told is not None:
            self._told(self.recording.steps_seen, str(chosen))
        if chosen in (Pass.TIMED, Pass.PRIMITIVES) and (self._foreign or is_profiling()):
            self.recording.note(
                "the program's own torch.profiler was on: steps under it are not timed by op"
            )
            self.recording.why_nothing = finishing.OWN_PROFILER
            chosen = Pass.FREE
        if chosen is Pass.PRIMITIVES and self._device.start(device_activities()):
            chosen = Pass.DEVICE
        if chosen is Pass.TIMED and self._events > MOST_EVENTS:
            chosen = Pass.CLEAN
        if chosen is Pass.WARMUP and not self._foreign:
            self._calibration.after_step(0)
        elif chosen is Pass.TIMED:
            self._calibration.before_step()
            self._asleep.watch_others()
            self._timing.start()
        elif chosen is Pass.PRIMITIVES:
            chosen = chosen if self._primitives.start() else Pass.CLEAN
        elif chosen is Pass.DESCRIBED:
            chosen = chosen if self._describe() else Pass.CLEAN
        if chosen in UNTOUCHED:
            self._pace.take(self.recording.pace)
        self._pass = chosen
        self._begin_faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self._asleep.begin()
        self._begin_ns = time.perf_counter_ns()

    def _describe(self) -> bool:
        self.recording.rank = process.rank_of_process()
        if self._refuses():
            return False
        if not self._describing.start(self.markers.entered, self.recording.steps_seen + 1):
            self.recording.undescribed(finishing.OTHER_TRACE)
            return False
        return True

    def _refuses(self) -> bool:
        timed = self.recording.timed
        refused = finishing.cannot_describe(timed[-1].names if timed else ())
        if refused:
            self.recording.undescribed(finishing.COMPRESSED)
        return refused

    def open_block(self) -> None:
        """Time and describe what follows in one pass, for blocks that may run only once."""
        if not self.recording.has_torch:
            return
        if self._foreign or is_profiling():
            self.recording.why_nothing = finishing.INSIDE_ANOTHER
            return
        self.recording.why_nothing = finishing.EMPTY_BLOCK
        block = self._describer()
        self._block = block if not self._refuses() and block.start() else None
        self._timing.start()
        self._in_block = True

    def close_block(self) -> None:
        """End the block's pass; of a block in pieces (it forked) the largest is kept."""
        if not self._in_block:
            return
        self._in_block = False
        timed, described, self._block = self._timing.stop(), self._block, None
        if described is not None:
            described.stop()
        if len(timed or ()) >= len(self.recording.block or ()):
            self.recording.block = timed
            self._pending = [described] if described is not None else []

    def step(self) -> None:
        """The program says that a step ended."""
        self.recording.marker = MANUAL
        if self.recording.why_nothing == finishing.EMPTY_BLOCK:
            self.recording.why_nothing = None
        self.markers.step()

    def _yield_profiler(self) -> None:
        """The program starts a profiler of its own: ours gives way."""
        self._foreign = True
        if self._pass in RECORDING:
            self.abort_pass()
            self.recording.note("the program started its own torch.profiler: a timed step was lost")

    def abort_pass(self) -> None:
        """Give up a pass that records times, so that nothing of it is left switched on."""
        if os.getpid() == self._pid and self._pass in RECORDING:
            self._device.abort()
            self._primitives.abort()
            self._timing.abort()
            self._pass = Pass.UNSEEN

    def _drop_pass(self) -> None:
        self.abort_pass()
        if self._pass is Pass.DESCRIBED:
            self._describing.stop()
            self._describing.forget()
            self._describing = self._describer()
        self._pass = Pass.UNSEEN

    def before_fork(self) -> None:
        """Leave nothing switched on that a child would inherit; a lost pass comes again."""
        if self._over or os.getpid() != self._pid:
            return
        if self._pass is Pass.DESCRIBED or self._pass in RECORDING:
            self.schedule.repeat(self._pass)
            self._drop_pass()
        self._forked_in_block = self._in_block
        self.close_block()
        self.recording.note(
            "the program forked (workers of a data loader, or others): only the first process is"
            " looked at"
        )

    def after_fork(self) -> None:
        """Go on with a block that the fork cut."""
        if self._forked_in_block:
            self._forked_in_block = False
            self.open_block()

    def leave_child(self) -> None:
        """In a forked child: look at nothing, touch nothing."""
        self._over = True
        _ACTIVE.clear()
        self._unhook()
        self._workshop.detach()
        if self.recording.has_torch:
            self._shut()

    def _profiler_is_back(self) -> None:
        self._foreign = False

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """An error of ours ends the watching; one that a signal brought is the program's."""
        try:
            yield
        except Exception as error:
            if is_from_handler(error):
                with ignoring("a pass was not given up"):
                    self._drop_pass()
                raise
            self._over = True
            trace_ignored("watching stopped")
            self.recording.note(f"watching stopped: {error or type(error).__name__}")
            with ignoring("instruments were not all taken away"):
                self._shut()

    def _shut(self) -> None:
        self._device.abort()
        self._primitives.abort()
        self._timing.abort()
        self._describing.stop()
        self.markers.detach()
        self._unpatch()

    def finish(self, partial: str | None = None) -> Recording:
        """Take everything away from torch and hand the recording over."""
        if os.getpid() != self._pid:  # a forked child that leaves its parent's block
            return self.recording
        self._unhook()
        self._workshop.detach()
        self._over = True
        found = self.recording
        found.partial = partial
        if found.has_torch:
            with ignoring("a block was lost"):
                self.close_block()
            with ignoring("instruments were not all taken away"):
                self._shut()
            finishing.read_surroundings(found)
            found.marker = self.markers.found or found.marker
            self._recall_former()
            finishing.read_event_cost(found, self._calibration)
            finishing.read_described(found, self._pending, self._workshop)
            self._describing.forget()
        return found

    def _recall_former(self) -> None:
        if self._former is not None and self._former[0]["timed"] and not self.recording.timed:
            self.recording.put_back(self._former[0])
            self._pending = self._former[1]
            self.recording.marker = FORWARD
        self._former = None


class Watching(Protocol):
    """Whoever wants to know of the program's steps."""

    def step(self) -> None:
        """The program says that a step ended."""


_ACTIVE: list[Watching] = []


def active() -> Watching | None:
    """Who watches this program, if anybody."""
    return _ACTIVE[-1] if _ACTIVE else None


def activate(session: Watching) -> None:
    """Make it the one that `timeroof.step()` speaks to."""
    _ACTIVE.append(session)


def deactivate(session: Watching) -> None:
    """The session is over."""
    if session in _ACTIVE:
        _ACTIVE.remove(session)


def step() -> None:
    """Say that a step of the program ended; does nothing where nobody profiles."""
    watching = active()
    if watching is not None:
        watching.step()
