"""What runs in the user's process: nothing else of timeroof does, and it needs no package.

A line in a `.pth` file calls `start` where `timeroof run` has set one variable, before the
program's first line. Until a framework is imported only modules that are compiled into the
interpreter are used: files of the user's cannot shadow them. No descriptor, signal handler, trace
function or excepthook is kept.
"""

import atexit
import sys

from timeroof_recorder.instruments import FRAMEWORKS, instruments_of
from timeroof_recorder.log import Log, read_plan
from timeroof_recorder.process import (
    WAITING,
    Ignoring,
    after_import,
    is_main_interpreter,
    posix,
    time,
)
from timeroof_recorder.watching import Namesake, activate, active, deactivate, step, taken_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from timeroof_recorder.session import Session
    from timeroof_recorder.windows import Windows

__all__ = ["Recorder", "activate", "active", "deactivate", "start", "step"]

# Holds the pid of the parent, a colon, and the folder.
VARIABLE = b"TIMEROOF_RECORD"


class Recorder:
    """The recording of one process, from its start to its end."""

    def __init__(self, folder: str, plan: dict[str, object], *, forked: bool = False) -> None:
        self.plan, self.log = plan, Log(folder, forked=forked)
        self.namesake = Namesake(is_there=bool(plan.get("namesake")))
        self.sessions: list[Session] = []
        # The session whose steps are looked at.
        self._leader: Session | None = None
        self._windows: list[Windows] = []

    def arrived(self, name: str) -> None:
        """The import of a framework is complete: put its instruments in place."""
        with Ignoring(f"{name} is not watched"), self.namesake:
            self.watch(name)

    def watch(self, name: str) -> None:
        """Begin a session with a framework that was imported. A program may import several, and
        some import others themselves: whose steps come decides which is watched."""
        if self._leader is not None and self._leader.marks.is_sure:
            return
        # Here: they may use what the framework has loaded.
        from timeroof_recorder.session import Session

        instruments = instruments_of(name, self.frameworks)
        session = Session(self.log, self.plan, instruments, _teller(self.plan), self.chosen)
        self.sessions.append(session)
        session.start()
        activate(session)
        if self.plan.get("marker", "auto") == "auto":
            from timeroof_recorder.windows import Windows

            self._windows.append(Windows(session))

    @property
    def frameworks(self) -> dict[str, str]:
        """Where the instruments of frameworks are, by the module whose import brings them in."""
        more = self.plan.get("frameworks")
        return FRAMEWORKS | more if isinstance(more, dict) else FRAMEWORKS

    def chosen(self, session: "Session") -> bool:
        """A step of a session ended: whether it is looked at. The first framework that has any
        leads, until another one trains: calls that prepare batches come before a step ends."""
        leader = self._leader
        if leader is session:
            if session.marks.is_sure:
                self._retire_others(session)
            return True
        if leader is not None and leader.marks.strength >= session.marks.strength:
            return False
        self._leader = session
        if leader is not None:
            leader.overtaken()
        if session.marks.is_sure:
            self._retire_others(session)
        return True

    def _retire_others(self, session: "Session") -> None:
        for other in [each for each in self.sessions if each is not session]:
            self.sessions.remove(other)
            deactivate(other)
            other.retire()

    def before_fork(self) -> None:
        """The process is about to fork."""
        for windows in self._windows:
            windows.pause()
        for session in self.sessions:
            session.before_fork()

    def after_fork(self) -> None:
        """The process has forked, and this is still the same one."""
        for windows in self._windows:
            windows.resume()
        for session in self.sessions:
            session.after_fork()

    def left(self) -> "Recorder":
        """In a forked child: a recorder with a file of its own, which comes with its first step."""
        fresh = Recorder(self.log.folder, self.plan, forked=True)
        fresh.namesake = self.namesake
        for windows in self._windows:
            windows.stop()
        for session in self.sessions:
            deactivate(session)
            session.leave_child()
            with Ignoring("a forked child is not watched"), self.namesake:
                from timeroof_recorder.session import Session

                own = Session(fresh.log, fresh.plan, session.instruments, None, fresh.chosen)
                fresh.sessions.append(own)
                own.start_forked()
                activate(own)
        return fresh

    def ended(self) -> None:
        """The interpreter ends: the record is made whole."""
        if self.log.path is None and not self.sessions:
            return
        kind = getattr(sys, "last_type", None)  # set when a traceback has been shown
        for windows in self._windows:
            windows.stop()
        if self._leader is not None:
            self._retire_others(self._leader)
        for session in self.sessions:
            session.finish(calibrate=not self.log.forked)
        if self.log.path is not None:
            self.log.write("ended", kind and kind.__name__, time.process_time_ns())


_RECORDER: list[Recorder] = []


def start() -> None:
    """Record this process, where the variable says so; called before the program's first line."""
    value = posix.environ.get(VARIABLE)
    if _RECORDER or value is None:  # in a venv, site goes through the .pth files twice
        return
    if any(_kind(finder) == _kind(WAITING) for finder in sys.meta_path):
        taken_out()  # twice, and the first time was hidden
        return
    parent, _, folder = value.decode("utf-8", "surrogateescape").partition(":")
    plan = read_plan(folder) if is_main_interpreter() else None
    if plan is None:
        return
    recorder = Recorder(folder, plan)
    _RECORDER.append(recorder)
    if "counted" in plan:
        from timeroof_recorder.counted import watch_counted

        watcher = watch_counted(recorder.log, plan["counted"])  # type: ignore[arg-type]
        if watcher is not None:
            activate(watcher)
        return
    if str(posix.getppid()) == parent:
        recorder.log.begin()
        if plan.get("listens"):
            from timeroof_recorder.process import listen

            listen(recorder.log)
    for name in recorder.frameworks:
        after_import(name, lambda name=name: _RECORDER[0].arrived(name))  # type: ignore[misc]
    posix.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_left)
    atexit.register(_ended)  # registered first: called last
    recorder.namesake.hide()


def _kind(finder: object) -> tuple[str, str]:
    """The name of its class: a second import of this package has classes of its own."""
    return type(finder).__module__, type(finder).__name__


def _before_fork() -> None:
    with Ignoring("a fork was not minded"):
        _RECORDER[0].before_fork()


def _after_fork() -> None:
    with Ignoring("a fork was not minded"):
        _RECORDER[0].after_fork()


def _left() -> None:
    with Ignoring("a fork was not minded"):
        _RECORDER[0] = _RECORDER[0].left()


def _ended() -> None:
    try:
        with Ignoring("the end was not recorded"):
            _RECORDER[0].ended()
    except:  # noqa: E722  a program may have emptied builtins: no name of an error is sure
        pass


def _teller(plan: dict[str, object]):  # type: ignore[no-untyped-def]
    """Progress on a terminal's stderr, where that was asked for."""
    if not plan.get("tells"):
        return None

    def told(step: int, what: str) -> None:
        if what not in ("free", "settling"):
            try:  # noqa: SIM105
                posix.write(2, f"\r\x1b[Ktimeroof: step {step}, {what}\r".encode())
            except OSError:
                pass

    return told
