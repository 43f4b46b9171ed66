"""Programs without steps: plain loops over tensors are looked at in windows of time.

A thread that sleeps asks the interpreter now and then to call us between two instructions of the
main thread. It ends as soon as something marks steps, and is not there while the program forks.
"""

import _thread
import sys
import time

from timeroof_recorder.marks import WINDOW
from timeroof_recorder.process import Ignoring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from timeroof_recorder.session import Session

# How long nothing may mark a step before the first window, and how long windows last: quick
# programs are seen at all, long ones are not held up.
FIRST_S, WINDOW_S, LONGEST_S = 0.15, 0.05, 0.5
MOST_WINDOWS = 120
POLL_S = 0.02


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

    def _watch(self) -> None:
        try:
            while not self._is_over:
                time.sleep(POLL_S)
                if self._session.marks.found not in ("", WINDOW) or self._taken > MOST_WINDOWS:
                    self._is_over = True
                elif time.monotonic() >= self._next_s and not self._is_asked:
                    self._is_asked = True
                    self._ask(self._callback, None)
        finally:
            self._is_running = False

    def _called(self, _nothing: object) -> int:
        self._is_asked = False
        with Ignoring("a window was lost"):
            if not self._is_over and self._session.marks.found in ("", WINDOW):
                self._taken += 1
                self._session.marks.window()
                # A long program is looked at ever more rarely, one that runs no op hardly ever.
                if self._taken % 20 == 0 or self._session.is_empty:
                    self._length_s = min(LONGEST_S, 2 * self._length_s)
                self._next_s = time.monotonic() + self._length_s
        return 0
