"""What steps and events are measured with besides a framework's own profiler: clocks, page faults,
pace, and rounds of small programs that tell what recording one event costs.
"""

import _imp
import _thread
import sys

from timeroof_recorder.process import posix, time

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from timeroof_recorder.instruments import Instruments
    from timeroof_recorder.log import Log


_SCHEDSTAT = "/proc/thread-self/schedstat"
_TASKS = "/proc/self/task"
# What is read of the system's statistics: a line per CPU comes first; and how long a tick is.
_MOST_STAT, _TICK_NS = 65_536, 10_000_000
# Any sleep that gives the CPU up, to see whether this system counts such sleeps.
_NAP_S = 1e-4


def library(name: str) -> "ModuleType | None":
    """An extension module of the standard library, past files of that name beside a script.

    One that the program has not imported itself is not put where it would find it.
    """
    if _imp.is_builtin(name):
        return __import__(name)
    external = sys.modules["_frozen_importlib_external"]
    for folder in sys.path:
        if folder.endswith("lib-dynload"):
            spec = external.PathFinder.find_spec(name, [folder])
            if spec is not None and spec.loader is not None:
                known = name in sys.modules
                made: ModuleType = spec.loader.create_module(spec)
                spec.loader.exec_module(made)
                if not known:
                    sys.modules.pop(name, None)
                return made
    return None


_RESOURCE = library("resource")
# Linux counts per thread; elsewhere the process's count is what there is.
_WHOSE = getattr(_RESOURCE, "RUSAGE_THREAD", getattr(_RESOURCE, "RUSAGE_SELF", 0))


def page_faults() -> int:
    """Pages that this process has touched first; 0 where nobody counts them."""
    if _RESOURCE is None:
        return 0
    return int(_RESOURCE.getrusage(_RESOURCE.RUSAGE_SELF).ru_minflt)


def _voluntary_switches() -> int:
    return int(_RESOURCE.getrusage(_WHOSE).ru_nvcsw) if _RESOURCE is not None else 0


def counts_sleeps() -> bool:
    """Whether this system counts voluntary context switches; some sandboxes always say 0."""
    before = _voluntary_switches()
    time.sleep(_NAP_S)
    return _voluntary_switches() > before


def queued_ns(path: str = _SCHEDSTAT) -> int:
    """What a thread has waited for a CPU; 0 where nobody counts it, or the thread has ended."""
    return _times(path)[1]


def _times(path: str) -> tuple[int, int]:
    """Nanoseconds that a thread ran and waited for a CPU."""
    try:
        file = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return 0, 0
    try:
        words = posix.read(file, 128).split()
        return int(words[0]), int(words[1])
    except (OSError, ValueError, IndexError):
        return 0, 0
    finally:
        posix.close(file)


def threads_times() -> dict[int, tuple[int, int]]:
    """Nanoseconds that each thread of this process ran, and waited for a CPU."""
    try:
        tasks = posix.listdir(_TASKS)
    except OSError:
        return {}
    return {int(task): _times(f"{_TASKS}/{task}/schedstat") for task in tasks}


def is_running_task(task: int) -> bool:
    """Whether a thread of this process runs or wants to; False where it has ended."""
    try:
        file = posix.open(f"{_TASKS}/{task}/stat", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return False
    try:
        return posix.read(file, 512).rpartition(b") ")[2][:1] in (b"R", b"D")
    except OSError:
        return False
    finally:
        posix.close(file)


def cpus_ns(path: str = "/proc/stat") -> tuple[int, int] | None:
    """Nanoseconds that the CPUs of this process have run anything, and that it has run itself;
    None where nobody counts them. The system counts in ticks of 10 ms."""
    try:
        file = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return None
    try:
        lines = [line.split() for line in posix.read(file, _MOST_STAT).splitlines()]
        own = {b"cpu%d" % cpu for cpu in posix.sched_getaffinity(0)}
        # User, nice, system, then idle, waiting for files, interrupts of two sorts.
        ticks = [sum(map(int, (*w[1:4], *w[6:8]))) for w in lines if w and w[0] in own]
        return sum(ticks) * _TICK_NS, time.process_time_ns()
    except (OSError, ValueError, AttributeError):
        return None
    finally:
        posix.close(file)


class Clocks:
    """Clocks of the stepping thread around a step.

    `begin` and `end` are cheap. `watch_others` looks at every thread: an op that waits for its
    other threads stands still although this thread wants no CPU.
    """

    def __init__(self) -> None:
        self._begin = self._end = (0, 0, 0, 0)
        self._others = 0
        self._counts: bool | None = None

    @property
    def _counts_sleeps(self) -> bool:
        if self._counts is None:
            self._counts = counts_sleeps()
        return self._counts

    def watch_others(self) -> None:
        """Look at the other threads; takes longer than the rest, so before a step begins."""
        self._others = _others_queued_ns()

    def begin(self) -> None:
        """A step of this thread begins."""
        self._begin = _clocks()

    def end(self) -> None:
        """The step ended."""
        self._end = _clocks()

    def quick(self) -> tuple[int, int, int, int | None, int]:
        """As `read`, without the other threads."""
        elapsed, own, queued, switches = (
            end - begin for end, begin in zip(self._end, self._begin, strict=True)
        )
        return elapsed, own, queued, switches if self._counts_sleeps else None, 0

    def read(self) -> tuple[int, int, int, int | None, int]:
        """Of the step: elapsed, the thread's own time, its waiting for a CPU (ns), voluntary
        switches (None: not counted here), and what other threads waited for a CPU (ns)."""
        # Counts of threads that have ended meanwhile are gone.
        return *self.quick()[:4], max(0, _others_queued_ns() - self._others)


def _clocks() -> tuple[int, int, int, int]:
    """Elapsed, the thread's own, what it waited for a CPU (ns), and its voluntary switches."""
    queued = queued_ns()
    return time.perf_counter_ns(), time.thread_time_ns(), queued, _voluntary_switches()


def _others_queued_ns() -> int:
    me = _thread.get_native_id()
    return sum(waited for task, (_, waited) in threads_times().items() if task != me)


# How fast the machine was while a program ran: a fixed piece of work, timed beside clean steps.
#
# A virtual machine may share its cores with a neighbour whom nobody here can see: for minutes all
# steps take a fifth longer, and no sample of the run shows that it was not the program. A product
# of two long integers uses the core's units as densely as a kernel does (it slows down about twice
# as much), needs no framework and no memory, and leaves the program's state alone.


# About 60 µs each: long for the clock, short for a program.
BITS = 12_000
_LEFT, _RIGHT = (1 << BITS) // 7, (1 << BITS) // 11
# At most so often and so many: a program of short steps must not spend its time on this. After the
# first ones so many times what one took passes before the next.
EVERY_NS = 10_000_000
FIRST_SAMPLES, REST_TIMES = 16, 500
MOST_SAMPLES = 200
TURNS = 3


class Pace:
    """Times the fixed work now and then.

    >>> now_ns = iter([20_000_000, 0, 500, 1_000, 1_200, 2_000, 2_300])
    >>> Pace(lambda: next(now_ns)).take()
    200
    """

    def __init__(self, clock_ns: "Callable[[], int]" = time.perf_counter_ns) -> None:
        self._clock_ns = clock_ns
        self._next_ns = 0
        self._taken = 0

    def take(self) -> int | None:
        """Nanoseconds of one more, if it is time."""
        now_ns = self._clock_ns()
        if self._taken >= MOST_SAMPLES or now_ns < self._next_ns:
            return None
        self._taken += 1
        # The best of a few: the first finds the program's data in the caches.
        best_ns = min(self._once_ns() for _ in range(TURNS))
        rest_ns = REST_TIMES * TURNS * best_ns if self._taken >= FIRST_SAMPLES else 0
        self._next_ns = now_ns + max(EVERY_NS, rest_ns)
        return best_ns

    def _once_ns(self) -> int:
        begin_ns = self._clock_ns()
        _LEFT * _RIGHT
        return self._clock_ns() - begin_ns


# What recording one event costs: rounds of small programs, with and without the profiler.
#
# Only the rounds are taken here; what they say together is worked out when the record is read.


CLOSE, FAR = "close", "far"
# Events of one turn of the small programs, and the most turns that a round may have.
TURN_EVENTS = 800
MOST_TURNS = 50
# Rounds of the second program at the end, where nobody knows it of this machine yet.
ROUNDS_AT_END = 12


class Rounds:
    """Turns of one small program, each round once without the profiler and once with it, in the
    thread's own time, which a busy machine does not change much."""

    def __init__(self, which: str, run: "Callable[[], None]", instruments: "Instruments") -> None:
        self._which, self._run, self._instruments = which, run, instruments
        self._bare: tuple[int, int, int] | None = None
        self.taken = 0

    def bare(self, turns: int) -> None:
        """The half of a round without the profiler."""
        self._bare = (*self._times(turns), turns)

    def watched(self, turns: int, log: "Log | None") -> None:
        """The other half; a round without its first, or without a log, is forgotten."""
        if not self._instruments.start("timed"):
            return
        try:
            own_ns, wall_ns = self._times(turns)
        finally:
            events = self._instruments.stop("timed")
        if events is not None and len(events) and self._bare is not None and log is not None:
            length_ns = events.finish_ns - events.begin_ns
            log.write(
                "round", self._which, self._bare, (own_ns, wall_ns, turns), len(events), length_ns
            )
            self.taken += 1
        self._bare = None

    def _times(self, turns: int) -> tuple[int, int]:
        own_time_ns = self._instruments.own_time_ns
        wall, own = time.perf_counter_ns(), own_time_ns()
        for _ in range(turns):
            self._run()
        return max(1, own_time_ns() - own), time.perf_counter_ns() - wall


class Calibration:
    """Rounds beside the program's own steps, and at its end.

    The first program has as many events as a step of the program, as their records leave the
    caches, too. Its round without the profiler comes right before a timed step, that with it right
    after: both find the caches as the program's ops do, full of something else.
    """

    def __init__(self, instruments: "Instruments", log: "Log", *, is_known: bool) -> None:
        self._instruments, self._log, self._is_known = instruments, log, is_known
        self._made: tuple[Rounds, Rounds] | None = None
        self._turns = 1

    @property
    def _both(self) -> tuple[Rounds, Rounds] | None:
        """Made when they are needed first: a process that takes no step runs no op of ours."""
        if self._made is None:
            programs = self._instruments.small_programs()
            if programs is not None:
                close, far = programs
                self._made = (
                    Rounds(CLOSE, close, self._instruments), Rounds(FAR, far, self._instruments)
                )  # fmt: skip
        return self._made

    def before_step(self) -> None:
        """A round without the profiler, before a timed step."""
        if self._both is not None and not self._instruments.is_foreign():
            self._both[0].bare(self._turns)

    def after_step(self, events: int) -> None:
        """A round with the profiler, after a timed step with so many events (0: to warm it up)."""
        if self._both is not None and not self._instruments.is_foreign():
            self._both[0].watched(self._turns, self._log)
        self._turns = max(1, min(MOST_TURNS, round(events / TURN_EVENTS)))

    def at_end(self) -> None:
        """Rounds of the second program, and of the first where steps gave too few."""
        if self._is_known or self._instruments.is_foreign() or self._both is None:
            return
        for rounds in self._both:
            if rounds.taken < ROUNDS_AT_END // 3:
                rounds.bare(1)
                rounds.watched(1, None)  # the first uses are slow
                for _ in range(ROUNDS_AT_END):
                    rounds.bare(1)
                    rounds.watched(1, self._log)
