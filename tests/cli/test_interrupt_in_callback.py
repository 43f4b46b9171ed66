"""A signal that meets a callback of Python's own: remembered, and no traceback."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, signal, weakref
from timeroof.cli import main
main.take_over()
class Thing: pass
thing = Thing()
held = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGTERM))
del thing
try:
    main.stop_if_pressed()
except KeyboardInterrupt:
    raise SystemExit(main.interrupt_code())
"""


def test_a_signal_within_a_callback_is_remembered_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (143, "")
