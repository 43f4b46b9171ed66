"""Programs without steps: plain loops over tensors are looked at in windows of time.

A thread that sleeps asks the interpreter now and then to call us between two instructions of the
main thread. It ends as soon as something marks steps, and is not there while the program forks.
A window begins and ends only where the program's own code runs: not inside an import, a compiler
or any other work of a framework's, which a profiler that comes and goes would disturb.
"""

import _signal  # type: ignore[import-not-found]
import _thread
import sys

from timeroof_recorder.marks import WINDOW
from timeroof_recorder.process import WAITS, Ignoring, time

TYPE_CHECKING = False
if TYPE_CHECKING:
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
_IMPORTS = "<frozen importlib"
_OUTERMOST = 200


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
        self._is_asked = False
        self._callback: object = None
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

    def end_now(self) -> None:
        """Another thread has steps: have the main thread end its window, which nobody else can."""
        if self._is_over:
            return
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
                    self._is_over = True
                elif time.monotonic() >= self._next_s and not self._is_asked:
                    self._is_asked = True
                    self._ask(self._callback, None)
        finally:
            self._is_running = False

    def _is_done(self) -> bool:
        marks = self._session.marks
        if marks.found == "" and marks.has_steps_elsewhere:
            return True
        return marks.found not in ("", WINDOW) or self._taken > MOST_WINDOWS

    def _called(self, _nothing: object) -> int:
        with Ignoring("a window was lost"):
            if not self._is_over and self._session.marks.found in ("", WINDOW):
                self._end_one()
        self._is_asked = False
        return 0

    def _end_one(self) -> None:
        """End a window and begin the next, unless the program is inside something else."""
        if not self._session.instruments.is_used():
            self._next_s = time.monotonic() + FIRST_S
            return
        if not is_own_code(sys._getframe(2), self._session.instruments.libraries):
            self._next_s = time.monotonic() + AGAIN_S
            return
        self._taken += 1
        self._session.marks.window()
        # A long program is looked at ever more rarely, one that runs no op hardly ever.
        if self._taken % OF_A_LENGTH == 0 or self._session.is_empty:
            self._length_s = min(LONGEST_S, 2 * self._length_s)
            self._session.is_empty = False
        self._next_s = time.monotonic() + self._length_s
