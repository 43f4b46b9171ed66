"""One recorded program: at every step's end the running pass is closed and the next one opened.

Nothing here knows a framework: instruments switch profilers, this decides when, and writes down
what they give.
"""

import _thread
import sys

from timeroof_recorder.clocks import (
    Calibration,
    Clocks,
    Pace,
    cpus_ns,
    page_faults,
    queued_ns,
    threads_times,
)
from timeroof_recorder.instruments import EventFile, Events, Instruments
from timeroof_recorder.log import VARYING, Log, StepLog
from timeroof_recorder.marks import MANUAL, WINDOW, Marks
from timeroof_recorder.process import (
    AtEnd,
    Ignoring,
    Uninterrupted,
    is_from_handler,
    posix,
    time,
    trace_ignored,
)
from timeroof_recorder.schedule import INSTRUMENTED, RECORDING, UNTOUCHED, Kinds, Pass, Schedule
from timeroof_recorder.watching import deactivate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Timed steps are kept until they have so many events together.
MOST_EVENTS = 4_000_000
# Of steps that take longer it is asked what they waited for a CPU, which takes a few microseconds.
SLOW_NS = 1_000_000
# So are steps that took so many times their own CPU time, or the step before them: they slept, or
# waited.
IDLE_TIMES = 2
# Files of described steps that are kept of a kind.
MOST_TRACES = 6
# What the reader takes for the kind that follows.
UNKNOWN_KIND = -1

# Reasons that the reader makes sentences of.
OWN_PROFILER, OTHER_TRACE, COMPRESSED = "own-profiler", "other-trace", "compressed"
INSIDE_ANOTHER, EMPTY_BLOCK = "inside-another", "empty-block"


class Session:
    """Watches a program from its framework's import to its end; no error of ours gets into it."""

    def __init__(
        self, log: Log, plan: dict[str, object], instruments: Instruments,
        told: "Callable[[int, str], None] | None" = None,
        chosen: "Callable[[Session], bool] | None" = None,
    ) -> None:  # fmt: skip
        self.log, self.instruments, self._chosen = log, instruments, chosen
        instruments.with_lines = bool(plan.get("source", False))
        instruments.file_for, instruments.tell = log.file_for, self._told_by
        # The first step is over when the first mark comes: it is one of the warm-up.
        warmup, steps = int(str(plan.get("warmup", 2))), int(str(plan.get("steps", 20)))
        self._plan = (max(0, warmup - 1), steps)
        self.schedule, self.kinds = Schedule(*self._plan), Kinds()
        self.marks = Marks(
            str(plan.get("marker", "auto")), self.boundary, self.restart,
            watch=instruments.watch, will_train=instruments.will_train,
        )  # fmt: skip
        self._told = told
        self._guard = _Guard(self)
        self._pid = posix.getpid()
        self._pass = self._pass_before = Pass.UNSEEN
        self._pace, self._clocks = Pace(), Clocks()
        self._calibration = Calibration(
            instruments, log,
            is_known=f"{instruments.name} {instruments.version}" in _words(plan, "calibrated"),
        )  # fmt: skip
        self._begin_ns = self._begin_faults = self._begin_own_ns = 0
        # What this thread had waited for a CPU when somebody last looked, and the last step's time.
        self._queued_ns = self._last_ns = 0
        self.steps_seen = self._events = 0
        self._steps = StepLog(log)
        self._traces: dict[int, list[tuple[int, str]]] = {}
        self._in_block = self._forked_in_block = False
        # What ran in the last block: of several frameworks it decides whose steps they are.
        self.block: Events | EventFile | None = None
        self._is_begun = self._over = self._is_cut = False
        # Whether nothing ran in the last timed step.
        self.is_empty = False
        self._mark = ""
        self._notes: set[str] = set()
        # Of every thread that steps: what to do when it ends.
        self._ends = _thread._local()

    def start(self) -> None:
        """Put the instruments into their framework."""
        with self._guard:
            self.log.begin()
            now_ns = time.perf_counter_ns()
            self.log.write("framework", self.instruments.name, self.instruments.version, now_ns)
            self.instruments.attach(self.marks)

    def start_forked(self) -> None:
        """In a forked child the instruments are there: they tell this session from now on. The
        file comes with the first step."""
        with self._guard:
            self.instruments.attach(self.marks)

    # Steps.

    def boundary(self, end_ns: int) -> None:
        """A step ended: close its pass and open the next one's."""
        if self._chosen is not None and not self._over and not self._chosen(self):
            return
        self.close_step(self._synced(end_ns))
        self.open_step()

    def _synced(self, end_ns: int) -> int:
        """The end of the step with what it has launched. Steps after all that was to be looked at
        are left to overlap as the program has them."""
        asks = self.instruments.is_asynchronous and self._pass != Pass.UNSYNCED
        return time.perf_counter_ns() if asks and self.instruments.sync() else end_ns

    def close_step(self, end_ns: int | None = None) -> None:
        """A step ended; what follows until the next one opens is not looked at."""
        if end_ns is None and not self.marks.found:
            self.why_nothing(None)
            self.marks.found, self.marks.label = MANUAL, "a call of the profiled function"
        ended_ns = self._synced(time.perf_counter_ns()) if end_ns is None else end_ns
        if self._is_ours():
            with self._switching(self._pass), self._guard:
                self._begin()
                self.steps_seen += 1
                self._close(ended_ns)

    def open_step(self) -> None:
        """A step begins."""
        if self._is_ours():
            chosen = self._next()
            with self._switching(chosen), self._guard:
                self._open(chosen)

    def restart(self, times: list[int]) -> None:
        """What was taken for steps were parts of steps: look at whole ones from the beginning. The
        parts stand in where the program ends before a whole step was timed. `times` are those of
        the marks that were steps' ends, had anybody known."""
        if not self._is_ours() or (self._chosen is not None and not self._is_begun):
            return
        with self._guard:
            self._drop_pass()
            self._steps.flush(self.steps_seen)
            self.log.write("restart", times)
            self.steps_seen, self._mark = len(times), ""
            self._events = self._begin_ns = 0
            self._traces = {}
            self._steps.restart()
            self.schedule, self.kinds = Schedule(*self._plan), Kinds()
            self._is_cut = bool(times)

    def _next(self) -> str:
        chosen = self.schedule.next()
        wish = self.kinds.wish(chosen, self.instruments.offers)
        return chosen if wish is None else self.schedule.instead(chosen, wish)

    def _begin(self) -> None:
        """The first mark: who this process is among others."""
        if not self._is_begun:
            self._is_begun = True
            self.log.begin()
            self.log.write("watched", self.instruments.name, self.instruments.version)
            self._around()
        if self.marks.label != self._mark:
            self._mark = self.marks.label
            self.log.write("mark", self.marks.found, self._mark, self.marks.began_ns)

    def _is_ours(self) -> bool:
        if self._over or posix.getpid() != self._pid:
            return False
        if self.marks.thread is None:
            self.marks.thread = _thread.get_ident()
        return self.marks.thread == _thread.get_ident()

    def _close(self, end_ns: int) -> None:
        done, self._pass = self._pass, Pass.UNSEEN
        duration_ns = max(0, end_ns - self._begin_ns) if self._begin_ns else 0
        own_ns = faults = 0
        if done != Pass.UNSYNCED:
            own_ns = min(duration_ns, max(0, time.thread_time_ns() - self._begin_own_ns))
            faults = page_faults() - self._begin_faults
        is_foreign = self.instruments.is_foreign() if done not in INSTRUMENTED else False
        clocks = None
        if done in (Pass.TIMED, Pass.CLEAN):
            self._clocks.end()
            clocks = self._clocks.read() if done == Pass.TIMED else self._clocks.quick()
        events = self._switch_off(done) if done in INSTRUMENTED else None
        waited_ns = self._waited_ns(duration_ns, own_ns, clocks)
        kind, sizes = self._kind(max(0, duration_ns - waited_ns), done)
        self.kinds.came(kind, self.steps_seen, done, duration_ns)
        step = (
            self.steps_seen, done, duration_ns, faults, kind, is_foreign, clocks, end_ns, waited_ns,
            sizes, own_ns,
        )  # fmt: skip
        self._steps.write(step, kind, duration_ns, end_ns, is_kept=done in INSTRUMENTED)
        if done == Pass.TIMED:
            self._keep(events, faults, clocks)
        elif done == Pass.DESCRIBED:
            self._keep_described(kind)
        elif done in (Pass.PRIMITIVES, Pass.DEVICE):
            self._keep_more(done, events)

    def _kind(self, own_ns: int, done: str) -> tuple[int, object]:
        """The number of a step's kind: what happened in it, and whether it took far longer; and its
        sizes where there are too many different ones to tell kinds apart by them."""
        items, sizes = self.marks.tally()
        if self._is_cut:  # only the end of it was seen as a step
            self._is_cut = False
            return UNKNOWN_KIND, ()
        if self.marks.found == WINDOW:  # what a stretch of time holds is chance
            items, sizes = (), ()
        size = self._steps.size_of(items, sizes)
        if size == VARYING:
            self.schedule.describe_more()
        is_timed = done != Pass.UNSEEN and self.marks.found != WINDOW
        is_usual = is_timed and done not in (Pass.DESCRIBED, Pass.WARMUP)
        number = self._steps.kind_of((items, size), own_ns if is_timed else None, is_usual=is_usual)
        return number, sizes if size == VARYING else ()

    def _waited_ns(
        self, duration_ns: int, own_ns: int,
        clocks: "tuple[int, int, int, int | None, int] | None",
    ) -> int:  # fmt: skip
        """What the thread waited for a CPU in the step; 0 of steps that hardly can have waited."""
        if clocks is not None:
            return min(clocks[2], duration_ns)
        before_ns, self._last_ns = self._last_ns, duration_ns
        if duration_ns < SLOW_NS or duration_ns < IDLE_TIMES * (own_ns or before_ns):
            return 0
        before, self._queued_ns = self._queued_ns, queued_ns()
        # Steps since somebody last looked have waited too, but never longer than this one idled.
        return max(0, min(self._queued_ns - before, duration_ns - own_ns))

    def _keep(self, events: Events | EventFile | None, faults: int, clocks: object) -> None:
        self.is_empty = events is None or not len(events)
        if events is None or not len(events):
            return
        self.log.write("timed", self.steps_seen, self._plain(events), faults, clocks)
        self._events += len(events)
        if not self.instruments.is_foreign():
            self._calibration.after_step(len(events))

    def _plain(self, events: Events | EventFile) -> object:
        if isinstance(events, EventFile):
            return events.plain
        name = self.instruments
        names = [
            (n, name.cause(n, False), name.cause(n, True), name.phase(n)) for n in events.names
        ]
        return names, events.rows, events.begin_ns, events.finish_ns, events.thread

    def _keep_described(self, kind: int) -> None:
        """Write a description down; of every kind the first and the latest files are kept, and
        some between them."""
        described = self.instruments.describe()
        if described is None:
            return
        self.log.write("described", self.steps_seen, kind, described)
        path = described.get("file")
        if isinstance(path, str):
            kept = self._traces.setdefault(kind, [])
            kept.append((self.steps_seen, path))
            if len(kept) > MOST_TRACES:
                _, between = kept.pop(MOST_TRACES // 2)
                with Ignoring("a described step was not removed"):
                    posix.unlink(between)
        self._around()

    def _keep_more(self, done: str, events: Events | EventFile | None) -> None:
        more = self.instruments.describe()
        if more is not None:
            plain = None if events is None else self._plain(events)
            self.log.write(done, self.steps_seen, plain, more)

    def _around(self) -> None:
        with Ignoring("the surroundings are not known"):
            self.log.write("around", self.instruments.surroundings())
            self.log.write("threads", threads_times(), dict(self.marks.elsewhere), cpus_ns())

    def _open(self, chosen: str) -> None:
        if self._told is not None:
            self._told(self.steps_seen, chosen)
        chosen = self._possible(chosen)
        self._pass_before = chosen
        if chosen in UNTOUCHED:
            taken_ns = self._pace.take()
            if taken_ns is not None:
                self._waiting_pace(taken_ns)
        self._pass = chosen
        if chosen != Pass.UNSYNCED:  # nobody asks it of steps whose work runs on
            self._begin_faults = page_faults()
            if chosen in (Pass.TIMED, Pass.CLEAN):
                self._clocks.begin()
            self._begin_own_ns = time.thread_time_ns()
        self._begin_ns = time.perf_counter_ns()

    def _possible(self, chosen: str) -> str:
        """The pass that a step gets where the one that was chosen cannot be had now."""
        if chosen in (Pass.TIMED, Pass.PRIMITIVES) and self.instruments.is_foreign():
            self.note(OWN_PROFILER)
            chosen = Pass.FREE
        if chosen == Pass.PRIMITIVES and "device" in self.instruments.offers:
            chosen = Pass.DEVICE
        if chosen == Pass.TIMED and self._events > MOST_EVENTS:
            chosen = Pass.CLEAN
        if chosen == Pass.WARMUP and not self.instruments.is_foreign():
            self._calibration.after_step(0)
        before = self._pass_before
        if chosen in INSTRUMENTED and not self._switch_on(chosen):
            chosen = Pass.SETTLING if before in INSTRUMENTED else Pass.CLEAN
        if self.instruments.is_asynchronous:
            chosen = Pass.UNSYNCED if chosen == Pass.FREE else chosen
            if before == Pass.UNSYNCED != chosen:
                self.instruments.sync()
        return chosen

    def _switch_on(self, chosen: str) -> bool:
        if chosen not in self.instruments.offers:
            return False
        self._ends.then = AtEnd(self._thread_ends)
        if chosen == Pass.TIMED:
            self._calibration.before_step()
            self._clocks.watch_others()
        self.instruments.sync()
        return self.instruments.start(chosen)

    def _switch_off(self, done: str) -> Events | EventFile | None:
        self.instruments.sync()
        return self.instruments.stop(done)

    def _waiting_pace(self, taken_ns: int) -> None:
        self.log.write("pace", taken_ns)

    # A block that may run only once.

    def open_block(self) -> None:
        """Time and describe what follows in one pass."""
        if self.instruments.is_foreign():
            self.why_nothing(INSIDE_ANOTHER)
            return
        self.why_nothing(EMPTY_BLOCK)
        self._in_block = self.instruments.start("block")

    def close_block(self) -> None:
        """End the block's pass; a block in pieces (it forked) has several."""
        if not self._in_block:
            return
        self._in_block = False
        self.block = events = self.instruments.stop("block")
        if events is not None and len(events):
            self.log.write("block", self._plain(events), self.instruments.describe())
            self._around()

    def step(self) -> None:
        """The program says that a step ended."""
        self.why_nothing(None)
        self.close_block()
        self.marks.manual()

    # Whatever comes between.

    def _told_by(self, what: str, value: object) -> None:
        """The instruments have a word: why nothing is described, or that the program starts a
        profiler of its own, and ours gives way."""
        if what == "undescribed":
            self.note(str(value))
        elif self._pass in RECORDING and posix.getpid() == self._pid:
            self.abort_pass()
            self.note("lost-to-own-profiler")

    def abort_pass(self) -> None:
        """Give up a pass that records times, so that nothing of it is left switched on."""
        if posix.getpid() == self._pid and self._pass in RECORDING:
            self.instruments.abort()
            self._pass = Pass.UNSEEN

    def _drop_pass(self) -> None:
        if self._pass in INSTRUMENTED:
            self.instruments.abort()
        self._pass = Pass.UNSEEN

    def before_fork(self) -> None:
        """Leave nothing switched on that a child would inherit; a lost pass comes again."""
        if self._over or posix.getpid() != self._pid:
            return
        if self._pass in INSTRUMENTED:
            self.schedule.repeat(self._pass)
            self._drop_pass()
        self._forked_in_block = self._in_block
        self.close_block()
        self.note("forked")

    @property
    def is_instrumented(self) -> bool:
        """Whether something is switched on, which only the thread that steps can switch off."""
        return self._pass in INSTRUMENTED

    def moved(self) -> None:
        """Another thread is looked at from now on: what was seen of the last one's is no step.
        Where nothing ran there all begins anew."""
        if self._events:
            self._drop_pass()
        else:
            self.restart([])

    def _thread_ends(self) -> None:
        """The thread that steps ends, and with it what is switched on: only it can do that."""
        if self._over or posix.getpid() != self._pid or self._pass not in INSTRUMENTED:
            return
        if self.marks.thread == _thread.get_ident():
            self.schedule.repeat(self._pass)
            self._drop_pass()

    def after_fork(self) -> None:
        """Go on with a block that the fork cut."""
        if self._forked_in_block:
            self._forked_in_block = False
            self.open_block()

    def leave_child(self) -> None:
        """In a forked child: this session is its parent's."""
        self._over = True
        deactivate(self)
        self.instruments.forked()

    def note(self, code: str, **more: object) -> None:
        """Keep a remark once; the reader has the words."""
        if code not in self._notes:
            self._notes.add(code)
            self.log.write("note", code, more)

    def why_nothing(self, code: str | None) -> None:
        """Why no step may come, should none come."""
        self.log.write("why", code)

    def _switching(self, pass_: str) -> "Uninterrupted | Ignoring":
        """Signals wait where instruments are switched; steps without any are not held up."""
        return _NOTHING if pass_ in (*UNTOUCHED, Pass.UNSYNCED) else Uninterrupted()

    def failed(self, error: BaseException) -> None:
        """An error of ours ends the watching."""
        self._over = True
        trace_ignored("watching stopped")
        self.log.write("failed", str(error) or type(error).__name__)
        with Ignoring("instruments were not all taken away"):
            self.instruments.abort()
            self.instruments.detach()

    def overtaken(self) -> None:
        """Another framework's session has steps that tell more: what was seen here is no step's,
        until something comes here that tells more still."""
        with self._guard:
            self._drop_pass()
            self._steps.flush(self.steps_seen)
            self.log.write("overtaken")
            self._is_begun, self._mark = False, ""
            self.steps_seen = self._events = self._begin_ns = 0
            self._steps, self._traces = StepLog(self.log), {}
            self.schedule, self.kinds = Schedule(*self._plan), Kinds()

    def retire(self) -> None:
        """Another framework's session has found the program's steps: watch no longer."""
        self._over = True
        with Ignoring("instruments were not all taken away"):
            if self._in_block or self._pass in INSTRUMENTED:
                self.instruments.abort()
            self._in_block, self._pass = False, Pass.UNSEEN
            self.instruments.detach()

    def finish(self, *, calibrate: bool = True) -> None:
        """Take everything away from the framework; the record is whole then."""
        if posix.getpid() != self._pid or self._over:
            return
        with Ignoring("a block was lost"):
            self.close_block()
        self._over = True
        self._steps.flush(self.steps_seen)
        self.log.write("over", time.perf_counter_ns(), *self.marks.tally())
        with Ignoring("instruments were not all taken away"):
            if self._pass in INSTRUMENTED:
                self.instruments.abort()
            self._pass = Pass.UNSEEN
        if self.instruments.name not in sys.modules:
            return  # its modules were removed: to import it again would break it at its end
        with Ignoring("instruments were not all taken away"):
            self.instruments.detach()
        self._around()
        with Ignoring("costs that the program states are not known"):
            self._write_stated()
        if calibrate and (self._events or self.marks.found == MANUAL):
            with Ignoring("the cost of an event was not measured"):
                self._calibration.at_end()

    def _write_stated(self) -> None:
        """Costs that the program states of ops (`timeroof.cost_of`): only it has the formulas."""
        if not getattr(sys.modules.get("timeroof.work.counting"), "_STATED", None):
            return
        from timeroof.live.torch.describing import stated_costs  # the program uses timeroof itself

        for number, path in [each for kept in self._traces.values() for each in kept]:
            self.log.write("stated", number, stated_costs(path))


class _Guard:
    """An error of ours ends the watching; one that a signal brought is the program's."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Whether the error goes no further."""
        if error is None or not isinstance(error, Exception):
            return False
        if is_from_handler(error):
            with Ignoring("a pass was not given up"):
                self._session._drop_pass()
            return False
        self._session.failed(error)
        return True


_NOTHING = Ignoring("signals are not held up")


def _words(plan: dict[str, object], name: str) -> list[object]:
    found = plan.get(name, [])
    return found if isinstance(found, list) else []
