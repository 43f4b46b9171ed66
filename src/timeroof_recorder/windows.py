"""Programs without steps: plain loops over tensors are looked at in windows of time.

A thread that sleeps asks the interpreter now and then to call us between two instructions of the
thread that works: the main thread, or another one that uses far more of the CPU. It ends as soon as
something marks steps, and is not there while the program forks.
A window begins and ends only where the program's own code runs: not inside an import, a compiler
or any other work of a framework's, which a profiler that comes and goes would disturb.
"""

import _signal  # type: ignore[import-not-found]
import _thread
import sys

from timeroof_recorder.clocks import threads_times
from timeroof_recorder.marks import WINDOW
from timeroof_recorder.process import WAITS, AtEnd, Ignoring, posix, time, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from timeroof_recorder.session import Session

# How long nothing may mark a step before the first window, and how long windows last: quick
# programs are seen at all, long ones are not held up.
FIRST_S, WINDOW_S, LONGEST_S = 0.05, 0.01, 0.5
# Windows of one length; the next are twice as long.
OF_A_LENGTH = 20
MOST_WINDOWS = 120
POLL_S = 0.02
# Asked again so soon where the program was inside a library.
AGAIN_S = 0.002
# How long a thread that marks a step waits for the main thread to end its window, and how often it
# looks; a main thread that is waiting itself, in Python's own code for that, is woken.
PATIENCE_S, LOOK_S = 0.25, 0.001
# A thread is left for another one that uses so many times its CPU time.
BUSIER_TIMES = 3
_IMPORTS = "<frozen importlib"
_OUTERMOST = 200
# Folders of Python's own code and of ours.
_LIBRARY = str(getattr(sys.modules.get("os"), "__file__", "")).rpartition("/")[0] + "/"
_OURS = __file__.rpartition("/")[0] + "/"


def is_own_code(frame: "FrameType | None", libraries: tuple[str, ...]) -> bool:
    """Whether a frame is code of the program's that nothing of a framework's or the import system
    has called. `libraries` are folders of the framework."""
    for _ in range(_OUTERMOST):
        if frame is None:
            return True
        name = frame.f_code.co_filename
        if name.startswith((_IMPORTS, *libraries)):
            return False
        frame = frame.f_back
    return True


class Windows:
    """Ends a window of the session now and then, until steps are found."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._is_over = False
        self._is_running = False
        self._taken = 0
        self._length_s = WINDOW_S
        self._next_s = time.monotonic() + FIRST_S
        # The thread that is asked to end a window, and until when nobody else is.
        self._asked: int | None = None
        self._patient_s = 0.0
        self._callback: object = None
        self._threads = Threads(self._answered, self._refused)
        self._make()
        self.resume()

    def _make(self) -> None:
        """The function that the interpreter is to call; without ctypes there are no windows."""
        ctypes = sys.modules.get("ctypes")
        if ctypes is None or not hasattr(ctypes, "pythonapi"):
            self._is_over = True
            return
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
        self._callback = kind(self._called)
        self._ask = ctypes.pythonapi.Py_AddPendingCall
        self._c_library = ctypes.CDLL(None)
        self._session.marks.end_windows = self.end_now

    def resume(self) -> None:
        """Go on after a fork, or begin."""
        if not self._is_over and not self._is_running:
            self._is_running = True
            _thread.start_new_thread(self._watch, ())

    def pause(self) -> None:
        """Have no thread while the program forks."""
        over, self._is_over = self._is_over, True
        patience = 50
        while self._is_running and patience:
            time.sleep(POLL_S / 10)
            patience -= 1
        self._is_over = over

    def stop(self) -> None:
        """No more windows."""
        self._is_over = True
        self._threads.leave()

    def end_now(self) -> None:
        """Another thread has steps: have the one that is looked at end its window, which nobody
        else can."""
        if self._is_over:
            return
        if not self._threads.ask(self._session.marks.thread):
            self._ask(self._callback, None)
            with Ignoring("a waiting main thread was not woken"):
                self._wake_main()
        left_s = PATIENCE_S
        while self._session.marks.found == WINDOW and left_s > 0:
            time.sleep(LOOK_S)
            left_s -= LOOK_S

    def _wake_main(self) -> None:
        """Interrupt the main thread's waiting for a lock (a thread's end, a queue), so that Python
        calls us there: by a signal that does nothing, where the program has no use for it."""
        threading = sys.modules.get("threading")
        main = threading.main_thread().ident if threading is not None else None
        frame = sys._current_frames().get(main or 0)
        library, number = self._c_library, _signal.SIGURG
        if frame is None or not frame.f_code.co_filename.endswith(WAITS):
            return
        if _signal.getsignal(number) != _signal.SIG_DFL:
            return
        library.signal(number, library.abs)  # any function of a number that does nothing else
        try:
            library.siginterrupt(number, 1)
            _signal.pthread_kill(main, number)
            time.sleep(LOOK_S)
        finally:
            library.signal(number, None)

    def _watch(self) -> None:
        try:
            while not self._is_over:
                time.sleep(min(POLL_S, max(AGAIN_S, self._next_s - time.monotonic())))
                if self._is_done():
                    self.stop()
                elif time.monotonic() >= self._next_s:
                    self._ask_one()
        finally:
            self._is_running = False

    def _ask_one(self) -> None:
        """Have a thread end its window. While something is switched on in it nobody else can
        switch that off; otherwise another one is asked where this one sleeps."""
        marks = self._session.marks
        current = marks.thread if marks.found == WINDOW else None
        if self._asked is not None:
            if self._session.is_instrumented or time.monotonic() < self._patient_s:
                return
            current = self._asked
        chosen = current if self._session.is_instrumented else self._threads.busiest(current)
        if chosen == self._asked:
            return
        self._asked, self._patient_s = chosen, time.monotonic() + PATIENCE_S
        if not self._threads.ask(chosen):
            self._ask(self._callback, None)

    def _is_done(self) -> bool:
        marks = self._session.marks
        if marks.found == "" and marks.has_steps_elsewhere:
            return True
        return marks.found not in ("", WINDOW) or self._taken > MOST_WINDOWS

    def _called(self, _nothing: object) -> int:
        self._answered()
        return 0

    def _answered(self) -> None:
        """In a thread that was asked, perhaps too late."""
        if self._asked not in (None, _thread.get_ident()):
            return
        with Ignoring("a window was lost"):
            if not self._is_over and self._session.marks.found in ("", WINDOW):
                self._end_one()
        self._asked = None

    def _refused(self) -> None:
        """A thread that was asked is not in the program's own code."""
        if self._asked == _thread.get_ident():
            self._asked, self._next_s = None, time.monotonic() + AGAIN_S

    def _end_one(self) -> None:
        """End a window and begin the next, unless the program is inside something else."""
        if self._session.marks.thread not in (None, _thread.get_ident()):
            if self._session.is_instrumented:
                return
            self._session.moved()
        if not self._session.instruments.is_used():
            self._next_s = time.monotonic() + FIRST_S
            return
        libraries = self._session.instruments.libraries
        if not is_own_code(sys._getframe(3), libraries):
            self._next_s = time.monotonic() + AGAIN_S
            return
        self._taken += 1
        self._session.marks.window()
        # A long program is looked at ever more rarely, one that runs no op hardly ever.
        if self._taken % OF_A_LENGTH == 0 or self._session.is_empty:
            self._length_s = min(LONGEST_S, 2 * self._length_s)
            self._session.is_empty = False
        self._next_s = time.monotonic() + self._length_s


class Threads:
    """Threads of Python's that began under our eyes, and how to be called in one of them.

    The interpreter calls functions of ours between two instructions of the main thread only. In
    any other one a trace function is there until the next line of it, and calls us then.
    """

    def __init__(self, answered: "Callable[[], None]", refused: "Callable[[], None]") -> None:
        self._answered, self._refused = answered, refused
        # By Python's number of a thread: its place in the interpreter, and the system's number.
        self._known: dict[int, tuple[int, int]] = {}
        self._ran: dict[int, int] = {}
        self._ends = _thread._local()
        self._back: Callable[[], None] = lambda: None
        self._set_trace: Callable[[object, object, object], object] | None = None
        # Later ones have their own way of tracing, in which this was never tried.
        if sys.version_info[:2] == (3, 11):
            with Ignoring("windows are of the main thread only"):
                self._watch()

    def _watch(self) -> None:
        ctypes, threading = sys.modules["ctypes"], sys.modules["threading"]
        set_trace = ctypes.pythonapi._PyEval_SetTrace
        set_trace.argtypes = [ctypes.c_void_p] * 3
        self._here = ctypes.pythonapi.PyGILState_GetThisThreadState
        self._here.restype = ctypes.c_void_p
        pointer, number = ctypes.c_void_p, ctypes.c_int
        self._tracer = ctypes.PYFUNCTYPE(number, pointer, pointer, number, pointer)(self._traced)
        self._place = ctypes.cast(self._tracer, pointer).value
        # Called by every thread of Python's as it begins.
        self._back = wrap(threading.Thread, "_set_native_id", self._begins)
        self._set_trace = set_trace

    def leave(self) -> None:
        """Look at no more threads."""
        self._back()
        self._set_trace = None

    def _begins(self, original: "Callable[[object], None]", thread: object) -> None:
        original(thread)
        with Ignoring("a thread is not looked at"):
            me, known = _thread.get_ident(), self._known
            known[me] = self._here(), _thread.get_native_id()
            self._ends.then = AtEnd(lambda: known.__delitem__(me))

    def busiest(self, current: int | None) -> int:
        """Who has used the most CPU since this was last asked; the current one (first the main
        thread) unless it has used much less."""
        now = {task: ran for task, (ran, _) in threads_times().items()}
        used = {task: ran - self._ran.get(task, 0) for task, ran in now.items()}
        self._ran = now
        main: int = sys.modules["threading"].main_thread().ident or 0
        by_thread = {main: used.get(posix.getpid(), 0)}
        by_thread |= {t: used.get(task, 0) for t, (_, task) in list(self._known.items())}
        current = main if current not in by_thread else current
        most = max(by_thread, key=lambda thread: by_thread[thread])
        return most if by_thread[most] > BUSIER_TIMES * by_thread[current] else current

    def ask(self, thread: int | None) -> bool:
        """Have a thread call us at its next line; False of the main one, and of those that are
        traced by the program itself."""
        known = self._known.get(thread or 0)
        if known is None or self._set_trace is None or thread is None or _is_traced(thread):
            return False
        if thread in self._known:  # nothing of Python's runs between this and the call
            self._set_trace(self._known[thread][0], self._place, None)
        return True

    def _traced(self, *_event: object) -> int:
        if self._set_trace is not None:
            self._set_trace(self._here(), None, None)
        if not _is_at_work(sys._getframe(1)):
            self._refused()
        else:
            self._answered()
        return 0


def _is_at_work(frame: "FrameType") -> bool:
    """Whether a thread is in code of the program's. Those of a pool or a queue do nothing of their
    own. In one that ends, below nothing, whatever is switched on stays on and ends the process."""
    name = frame.f_code.co_filename
    if name.startswith(_OURS) or (name.startswith(_LIBRARY) and "site-packages" not in name):
        return False
    outermost = frame
    while outermost.f_back is not None:
        outermost = outermost.f_back
    return outermost.f_code.co_filename.endswith("threading.py")


def _is_traced(thread: int) -> bool:
    """Whether a debugger or something like it may be at work in a thread."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_trace is not None:
            return True
        frame = frame.f_back
    return bool(sys.modules["threading"].gettrace())
