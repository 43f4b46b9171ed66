"""Ctrl-C that is never lost: an exception may be swallowed in a callback, a flag is not."""

from __future__ import annotations

import signal
import threading
from types import FrameType

_pressed = threading.Event()


def _remember(number: int, frame: FrameType | None) -> None:
    _pressed.set()
    raise KeyboardInterrupt


def listen() -> None:
    """Remember Ctrl-C from now on."""
    _pressed.clear()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _remember)


def stop_if_pressed() -> None:
    """Raise the interrupt that a callback swallowed; call it between pieces of long work."""
    if _pressed.is_set():
        raise KeyboardInterrupt
