"""Where Python looks for modules: never in the folder that the user happens to be in.

`python -m timeroof` puts the working folder first on `sys.path`, and an empty or `.` entry of
PYTHONPATH puts it there too. In a folder of downloaded traces a `polars.py` would then run in
place of the library. Our own imports leave that folder out; a program under `timeroof run` gets
what plain Python would give it. This file imports only what every interpreter has loaded.
"""

import os
import sys

# What plain Python has on its path behind the entry of the program; None before `leave_folder`.
_given: list[str] | None = None
_own: list[str] | None = None

SAFE_VARIABLE = "PYTHONSAFEPATH"


def package_root() -> str:
    """The folder that this package lies in."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # noqa: PTH120


def is_working_folder(entry: str) -> bool:
    """Whether an entry of a path is the working folder, which is not where we live ourselves."""
    try:
        here = os.path.realpath(os.getcwd())  # noqa: PTH109
    except OSError:  # it was removed
        return entry in ("", ".")
    place = os.path.realpath(entry or ".")
    return place == here and place != package_root()


def leave_folder(entries: int | None = None) -> None:
    """Take the working folder off the path; call it before anything is imported.

    So many entries at its beginning are not a program's: by default the one that Python itself
    puts there for a script or a module, unless it was asked not to.
    """
    global _given, _own  # noqa: PLW0603
    first = (0 if sys.flags.safe_path else 1) if entries is None else entries
    _given = sys.path[first:]
    _own = [entry for entry in sys.path if not is_working_folder(entry)]
    sys.path[:] = _own


def set_for_program(entry: str | None) -> None:
    """The path of a program whose own entry is this one, as plain Python would make it.

    Where the user asked Python for a safe path, a program has no entry of its own.
    """
    behind = sys.path[1:] if _given is None else _given
    unsafe = entry is not None and not os.environ.get(SAFE_VARIABLE)
    sys.path[:] = [str(entry), *behind] if unsafe else list(behind)


class OwnImports:
    """While this is open, modules are looked for on our own path and not on a program's."""

    def __enter__(self) -> None:
        """Put our own path in place, if there is one."""
        self._before = list(sys.path)
        if _own is not None:
            sys.path[:] = _own

    def __exit__(self, *_error: object) -> None:
        """What the program leaves behind finds its modules again."""
        sys.path[:] = self._before
