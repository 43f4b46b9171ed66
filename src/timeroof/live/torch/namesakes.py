"""Modules of the program's folder that bear the name of a module that we use.

Python looks for `import statistics` in the program's folder first, unless it was imported before:
by us, in a process that is to be the program's. And once the program has ended, its `plotly.py`
must not be taken for the library.
"""

from __future__ import annotations

import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from types import ModuleType

from timeroof.core.import_path import set_for_program

# Python itself has these before any program, and `timeroof` is what a program means by that.
_STAY = {"__main__", "encodings", "sitecustomize", "usercustomize", "timeroof"}
# A recording is made of what these gave: there can be no second one.
_OF_THE_RECORDING = {"torch", "numpy"}
_ASIDE: dict[str, ModuleType] = {}
# The folder of the program, and what is searched for libraries.
_PLACES: list[tuple[str, list[str]]] = []


def give_way(folder: str) -> None:
    """Before the program: its folder is searched first, for names that we have loaded, too."""
    set_for_program(folder)
    if sys.path[:1] != [folder]:  # the user does not want that folder searched
        return
    _PLACES[:] = [(folder, sys.path[1:])]
    for name in _top_level_names() - _STAY:
        if _origin(name, [folder]) and not _is_built_in(name):
            _ASIDE.update(_taken_out(name))


def come_back() -> None:
    """After the program: our own modules again, and its folder is searched last.

    Not never: what it leaves running, or does at exit, may still import from there.
    """
    for folder, libraries in _PLACES:
        for name in _top_level_names() - _STAY - _OF_THE_RECORDING:
            origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None) or ""
            if origin.startswith(folder) and _origin(name, libraries) not in (None, origin):
                _taken_out(name)
        sys.path[:] = [*libraries, *[place for place in sys.path if place not in libraries]]
    _PLACES.clear()
    sys.modules.update(_ASIDE)
    _ASIDE.clear()


def _top_level_names() -> set[str]:
    return {name for name in sys.modules if "." not in name}


def _is_built_in(name: str) -> bool:
    return any(f.find_spec(name) is not None for f in (BuiltinImporter, FrozenImporter))


def _origin(name: str, places: list[str]) -> str | None:
    """Where such a module is; a folder without code is none where others have the name."""
    spec = PathFinder.find_spec(name, places)
    return None if spec is None else spec.origin


def _taken_out(name: str) -> dict[str, ModuleType]:
    names = [each for each in sys.modules if each == name or each.startswith(name + ".")]
    return {each: sys.modules.pop(each) for each in names}
