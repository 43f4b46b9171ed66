"""Who watches this program, for `timeroof.step()` and `timeroof.profile()`; and where the program
has a module of this package's name, which of the two is in place."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from timeroof_recorder.counted import Watcher
    from timeroof_recorder.session import Session
    from timeroof_recorder.several import Several

_ACTIVE: "list[Session | Several | Watcher]" = []


def active() -> "Session | Several | Watcher | None":
    """Who watches this program, if anybody: of several the latest whose framework is in use."""
    if len(_ACTIVE) < 2:
        return _ACTIVE[-1] if _ACTIVE else None
    sessions = [(each, getattr(each, "instruments", None)) for each in _ACTIVE]
    used = [each for each, own in sessions if own is None or own.is_used()]
    return (used or _ACTIVE)[-1]


def activate(session: "Session | Several | Watcher") -> None:
    """Make it the one that `timeroof.step()` speaks to."""
    _ACTIVE.append(session)


def deactivate(session: "Session | Several") -> None:
    """The session is over."""
    if session in _ACTIVE:
        _ACTIVE.remove(session)


def step() -> None:
    """Say that a step of the program ended; does nothing where nobody profiles."""
    watching = active()
    if watching is not None:
        watching.step()


class Namesake:
    """A program with a module of this package's name gets its own: ours are in their places only
    while one of them is imported, in a block of this. Elsewhere it does nothing."""

    def __init__(self, *, is_there: bool) -> None:
        self._is_there = is_there
        self._ours: dict[str, ModuleType] = {}
        self._theirs: dict[str, ModuleType] = {}

    def hide(self) -> None:
        """Leave the name to the program."""
        if self._is_there:
            self._ours |= taken_out()

    def __enter__(self) -> None:
        """Put ours in place."""
        if self._is_there:
            self._theirs = taken_out()
            sys.modules.update(self._ours)

    def __exit__(self, *_error: object) -> None:
        """As it was."""
        self.hide()
        sys.modules.update(self._theirs)


def taken_out() -> "dict[str, ModuleType]":
    """Take the modules of this package's name off the list of those that are imported."""
    own = __name__.partition(".")[0]
    names = [name for name in sys.modules if name == own or name.startswith(f"{own}.")]
    return {name: sys.modules.pop(name) for name in names}
