"""Who watches this program, for `timeroof.step()` and `timeroof.profile()`; of several frameworks
the one that it is about; and where the program has a module of this package's name, which of the
two is in place.
"""

import sys

from timeroof_recorder.instruments import instruments_of
from timeroof_recorder.log import Log
from timeroof_recorder.process import Ignoring, posix

TYPE_CHECKING = False

if TYPE_CHECKING:
    from types import ModuleType

    from timeroof_recorder.counted import Watcher
    from timeroof_recorder.session import Session


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


# A block or a loop of a program that may use several frameworks: whose ops take most of the time
# of the first pass has the steps after it. What is imported, or was used before, decides nothing.


class Several:
    """A session per framework, each with a folder of its own, until one is chosen."""

    def __init__(self, folder: str, plan: dict[str, object]) -> None:
        self._folder, self._plan = folder, plan
        self._sessions: list[Session] = []
        self._chosen: Session | None = None
        self._in_block = self._is_over = False

    @property
    def folder(self) -> str | None:
        """Where the records of the chosen framework are; None where there was none."""
        return None if self._chosen is None else self._chosen.log.folder

    def join(self, name: str) -> None:
        """A framework is there: watch it too, unless it is known by now whose steps they are."""
        if self._chosen is not None or self._is_over:
            return
        # Here: nothing of a session is needed before a framework is there.
        from timeroof_recorder.session import Session

        with Ignoring(f"{name} is not watched"):
            folder = f"{self._folder}/{name}"
            posix.mkdir(folder, 0o700)
            session = Session(Log(folder), self._plan, instruments_of(name))
            session.start()
            self._sessions.append(session)
            if self._in_block:
                session.open_block()

    # A block, and steps after it.

    def open_block(self) -> None:
        """Time and describe what follows in one pass, of every framework that is there."""
        self._in_block = True
        if self._chosen is not None:
            self._chosen.open_block()
            return
        for session in self._sessions:
            session.open_block()
        self._bound(begins=True)

    def _close_block(self) -> "Session | None":
        """End the pass; the framework that it was about."""
        if self._chosen is None:
            self._bound(begins=False)
            for session in self._sessions:
                session.close_block()
            self._choose()
        else:
            self._chosen.close_block()
        self._in_block = False
        return self._chosen

    def _bound(self, *, begins: bool) -> None:
        """Switching one profiler on or off is no part of what another one sees."""
        if len(self._sessions) > 1:
            for session in self._sessions:
                session.instruments.bound(begins=begins)

    def _choose(self) -> None:
        if len(self._sessions) == 1:
            self._chosen = self._sessions[0]
        elif any(session.block is not None for session in self._sessions):
            by_time = {id(each): _busy_ns(each) for each in self._sessions}
            most = max(by_time.values())
            if most:
                self._settle(next(s for s in self._sessions if by_time[id(s)] == most))

    def _settle(self, chosen: "Session") -> None:
        self._chosen = chosen
        for other in self._sessions:
            if other is not chosen:
                other.retire()
        self._sessions = [chosen]

    def step(self) -> None:
        """The program says that a step ended."""
        chosen = self._close_block() if self._in_block else self._chosen
        if chosen is not None:
            chosen.step()
        else:  # nothing has run yet
            self.open_block()

    # Calls of a function: each is a step, and what is between them is not looked at.

    def open_step(self) -> None:
        """A call begins."""
        if self._chosen is None:
            self.open_block()
        else:
            self._chosen.open_step()

    def close_step(self) -> None:
        """A call ended."""
        chosen = self._close_block() if self._in_block else self._chosen
        if chosen is not None:
            chosen.close_step()

    def finish(self) -> None:
        """Take everything away from the frameworks; the record is whole then."""
        if self._is_over:
            return
        if self._in_block:
            self._close_block()
        self._is_over = True
        if self._chosen is None and self._sessions:
            self._settle(self._sessions[0])
        if self._chosen is not None:
            self._chosen.finish()

    # Forks.

    def before_fork(self) -> None:
        """Leave nothing switched on that a child would inherit."""
        for session in self._sessions:
            session.before_fork()

    def after_fork(self) -> None:
        """Go on with a block that the fork cut."""
        for session in self._sessions:
            session.after_fork()

    def leave_child(self) -> None:
        """In a forked child: all of this is its parent's."""
        self._is_over = True
        deactivate(self)
        for session in self._sessions:
            session.leave_child()


def _busy_ns(session: "Session") -> int:
    with Ignoring("how long ops ran is not known"):
        return session.block.busy_ns if session.block is not None else 0
    return 0
