"""The nouns; here the version and where Python looks for modules, needed before all else.

Python looks never in the folder that the user happens to be in. `python -m timeroof` puts the
working folder first on `sys.path`, and an empty or `.` entry of PYTHONPATH puts it there too. In a
folder of downloaded traces a `polars.py` would then run in place of the library. Our own imports
leave that folder out; a program under `timeroof run` has a process of its own. This file imports
only what every interpreter has loaded.
"""

import os
import sys

VERSION = "0.1.0"


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


def leave_folder() -> None:
    """Take the working folder off the path, and look in places that PYTHONPATH names last: they are
    the program's. Call it before anything is imported."""
    given = [e for e in os.environ.get("PYTHONPATH", "").split(os.pathsep) if e]
    theirs = {os.path.abspath(entry) for entry in given} - {package_root()}  # noqa: PTH100
    path = [entry for entry in sys.path if not is_working_folder(entry)]
    sys.path[:] = sorted(path, key=lambda entry: entry in theirs)
