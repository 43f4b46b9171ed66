"""Source lines of ops, on demand: annotations that name the program's line around every call.

A mode of torch's Python functions sees each call before it is dispatched, and leaves what the
dispatcher does alone. It is there for the described step only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from timeroof.live.torch.annotations import Annotation

SOURCE = "timeroof#source#"
_OURS = str(Path(__file__).resolve().parents[2])


class SourceLines:
    """Switches the mode on and off."""

    def __init__(self) -> None:
        self._mode: Any = None

    def attach(self) -> None:
        """From now on every call of a torch function is below an annotation of its line."""
        self._mode = _mode()
        self._mode.__enter__()

    def detach(self) -> None:
        """No more annotations."""
        if self._mode is not None:
            mode, self._mode = self._mode, None
            mode.__exit__(None, None, None)


def _mode() -> Any:
    from torch.overrides import TorchFunctionMode

    skipped = libraries()

    class Lines(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            line = None
            if getattr(func, "__name__", "") != "__get__" and not _is_annotation(func):
                line = program_line(sys._getframe(1), skipped)
            if line is None:
                return func(*args, **(kwargs or {}))
            with Annotation(SOURCE + line):
                return func(*args, **(kwargs or {}))

    return Lines()


def _is_annotation(func: Any) -> bool:
    """Whether a call opens or closes an annotation (a module's): one around it would close first
    and take it along."""
    return "_record_function_" in str(getattr(func, "__name__", "")) + str(func)


def libraries() -> tuple[str, ...]:
    """Folders of torch and of ours: frames below them are not the program's."""
    import torch

    return str(Path(torch.__file__).parent) + os.sep, _OURS + os.sep


def program_line(frame: FrameType | None, skipped: tuple[str, ...]) -> str | None:
    """File and line of the innermost frame that is the program's, not a library's of ours."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(("<", *skipped)):
            return f"{shown_path(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def shown_path(name: str) -> str:
    """A path as the reader would write it: seen from the working folder where it is below that.

    >>> shown_path(str(Path.cwd() / "train.py"))
    'train.py'
    """
    try:
        here = str(Path.cwd())
    except OSError:  # the program has removed it
        return name
    return str(Path(here, name)).removeprefix(here + os.sep)


def line_of(name: str) -> str | None:
    """The line in the name of an annotation of ours.

    >>> line_of("timeroof#source#train.py:7"), line_of("aten::mm")
    ('train.py:7', None)
    """
    return name.removeprefix(SOURCE) if name.startswith(SOURCE) else None
