"""The process that is the program's too: clocks as they were, errors that stay with us, signals,
wrapped functions.

Only what is compiled into the interpreter is imported here: a file of the program's that bears
the name of a library module is never ours to run.
"""

import _signal  # type: ignore[import-not-found]
import _thread
import _weakref
import posix as _posix
import sys
import time as _time

# As they were: a program may patch its own, and errors that come of it are to stay with us.
from builtins import Exception, getattr, hasattr, isinstance, type  # noqa: A004, UP029

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    Call = Callable[..., object]
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import NoReturn

    from timeroof_recorder.log import Log


if TYPE_CHECKING:
    import posix
    import time
else:
    _Copy = type(sys.implementation)
    posix, time = _Copy(**vars(_posix)), _Copy(**vars(_time))

__all__ = ["posix", "time"]


# The process that is the program's too: errors that stay with us, signals, wrapped functions.
#
# Only what is compiled into the interpreter is imported here: a file of the program's that bears
# the name of a library module is never ours to run.


_SIGNALS = (_signal.SIGINT, _signal.SIGTERM)
# Python's own code in which threads wait for others.
WAITS = ("threading.py", "queue.py", "_base.py", "selectors.py")


def trace_ignored(what: str) -> None:
    """With TIMEROOF_DEBUG=1, show the error at hand that goes no further, and what it cost."""
    if posix.environ.get(b"TIMEROOF_DEBUG") and sys.stderr is not None:
        sys.stderr.write(f"timeroof: {what}\n")
        sys.__excepthook__(*sys.exc_info())


class Ignoring:
    """Lets no error out of its block; with TIMEROOF_DEBUG=1 it is shown, with what it cost."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> bool:
        """An error that is none of a signal's goes no further."""
        if error is None or not isinstance(error, Exception) or is_from_handler(error):
            return False
        trace_ignored(self._what)
        return True


# Signals wait while instruments are switched on or off: a signal's exception between a framework's
# switching and our noting it would leave a profiler on, and the program would crash at its end.


def is_from_handler(error: BaseException) -> bool:
    """Whether a handler of the program's raised it: a signal (an alarm, say) came while we ran."""
    codes = {_code_of(_signal.getsignal(number)) for number in _signal.valid_signals()} - {None}
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler: object) -> object:
    while type(handler).__name__ == "partial" and hasattr(handler, "func"):
        handler = handler.func
    for found in (handler, getattr(handler, "__call__", None)):  # noqa: B004
        code = getattr(getattr(found, "__func__", found), "__code__", None)
        if code is not None:
            return code
    return None


class Uninterrupted:
    """Ctrl-C and SIGTERM reach the program's handlers when the block has ended. Nothing happens in
    other threads than the main one: handlers never run there."""

    def __init__(self) -> None:
        self._before: dict[int, object] = {}
        self._came: list[int] = []

    def __enter__(self) -> None:
        """Hold signals that Python handles back."""
        if not is_main_thread():
            return
        for number in _SIGNALS:
            handler = _signal.getsignal(number)
            # Default actions and handlers that Python does not know cannot leave us half done.
            if callable(handler):
                self._before[number] = handler
                _signal.signal(number, lambda number, _frame: self._came.append(number))

    def __exit__(self, *_error: object) -> None:
        """Hand them on, each once."""
        for number, handler in self._before.items():
            _signal.signal(number, handler)
        self._before = {}
        came, self._came = dict.fromkeys(self._came), []
        for number in came:
            _signal.raise_signal(number)


def is_main_thread() -> bool:
    """Whether this is the thread that Python started with."""
    threading = sys.modules.get("threading")
    main = getattr(threading, "main_thread", None)
    return True if main is None else bool(main().ident == _thread.get_ident())


def is_main_interpreter() -> bool:
    """Whether this is the interpreter that the process started with; asked before the program's
    first line. Others end within its end: what is registered in them costs the exit code."""
    try:
        _signal.set_wakeup_fd(-1)  # as it is; others must not set it
    except ValueError:
        return False
    return True


def is_running(thread: int) -> bool:
    """Whether a thread, by Python's number, has not ended."""
    return thread in sys._current_frames()


class AtEnd:
    """A value of a thread's own: it goes when the thread ends, there."""

    def __init__(self, act: "Callable[[], None]") -> None:
        self._act = act

    def __del__(self) -> None:
        with Ignoring("a thread's end was not minded"):
            self._act()


def wrap(owner: object, name: str, wrapper: "Call") -> "Callable[[], None]":
    """Put a function around a method, which it gets with the arguments; returns a way back."""
    original = getattr(owner, name)

    def call(*args: object, **kwargs: object) -> object:
        return wrapper(original, *args, **kwargs)

    for kept in ("__module__", "__name__", "__qualname__", "__doc__"):
        # Methods of extensions may have other things there.
        if isinstance(getattr(original, kept, None), str):
            setattr(call, kept, getattr(original, kept))
    call.__wrapped__ = original  # type: ignore[attr-defined]

    def back() -> None:
        # What somebody else has put in place of ours stays.
        if getattr(owner, name) is call:
            setattr(owner, name, original)

    setattr(owner, name, call)
    return back


def step_aside(
    owners: "Iterable[object]", begin: str, end: str,
    starts: "Callable[[], None]", ends: "Callable[[], None]",
) -> "list[Callable[[], None]]":  # fmt: skip
    """Call us before methods that start the program's own profiler, and after those that end it;
    returns ways back. The program's profiler goes first: ours gives way until it has ended."""

    def before(original: "Call", *args: object, **kwargs: object) -> object:
        with Ignoring("the program's profiler starts beside ours"):
            starts()
        return original(*args, **kwargs)

    def after(original: "Call", *args: object, **kwargs: object) -> object:
        try:
            return original(*args, **kwargs)
        finally:
            with Ignoring("the end of the program's profiler was missed"):
                ends()

    return [
        wrap(owner, name, around)
        for owner in owners
        for names, around in ((begin, before), (end, after))
        for name in names.split()
    ]


KERAS = "keras.src.optimizers.base_optimizer"


def keras_backend() -> object:
    """The framework that Keras computes with; None where Keras is not there."""
    return getattr(sys.modules.get("keras.src.backend.config"), "backend", lambda: None)()


class QuietErrors:
    """Sends file descriptor 2 nowhere for a block; Python's own stderr is flushed before."""

    def __enter__(self) -> None:
        """Begin."""
        self._kept: int | None = None
        try:  # noqa: SIM105
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            pass
        try:
            self._kept = posix.dup(2)
        except OSError:  # there is none
            return
        nowhere = posix.open("/dev/null", posix.O_WRONLY | posix.O_CLOEXEC)
        posix.dup2(nowhere, 2)
        posix.close(nowhere)

    def __exit__(self, *_error: object) -> None:
        """As it was."""
        if self._kept is not None:
            posix.dup2(self._kept, 2)
            posix.close(self._kept)
            self._kept = None


# A forked child must inherit nothing that is switched on, and nothing that watches.


def mind_forks(watched: object) -> None:
    """Tell a session of forks for as long as it lives; none of its errors reach the program."""
    alive = _weakref.ref(watched)

    def tell(what: str) -> "Callable[[], None]":
        def act() -> None:
            session = alive()
            if session is not None:
                with Ignoring("a fork was not minded"):
                    getattr(session, what)()

        return act

    posix.register_at_fork(
        before=tell("before_fork"), after_in_parent=tell("after_fork"),
        after_in_child=tell("leave_child"),
    )  # fmt: skip


# Something to do as soon as a module has been imported, and never if it is not.


class Waiting:
    """First on `sys.meta_path`; specs and loaders are the real ones. Looking is not loading: a
    program may ask for a spec first, as often as it likes, and an import may fail and be tried
    again. So a name is awaited until its module is there."""

    def __init__(self) -> None:
        self._actions: dict[str, list[Callable[[], None]]] = {}
        # Threads that are asking: other finders of this kind ask all finders, and so this one.
        self._asking: set[int] = set()

    def add(self, name: str, action: "Callable[[], None]") -> "Callable[[], None]":
        """Call `action` once the module is imported, now if it is; returns a way to take it back.

        Whoever is added last is called first: it stands around what came before.
        """
        if is_loaded(name):
            action()
            return lambda: None
        self._actions.setdefault(name, []).append(action)
        finders: list[object] = sys.meta_path  # type: ignore[assignment]
        if self not in finders:
            finders.insert(0, self)

        def back() -> None:
            if action in self._actions.get(name, ()):
                self._actions[name].remove(action)
                if not self._actions[name]:
                    del self._actions[name]
                self._rest()

        return back

    def _rest(self) -> None:
        """Nothing is awaited: imports are as quick as they were."""
        if not self._actions:
            self.remove()

    def remove(self) -> None:
        """Await nothing any more."""
        self._actions = {}
        finders: list[object] = sys.meta_path  # type: ignore[assignment]
        if self in finders:
            finders.remove(self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """The spec of an awaited module as others give it, with a loader that tells."""
        me = _thread.get_ident()
        if name not in self._actions or me in self._asking:
            return None
        self._asking.add(me)
        try:
            finders: list[object] = sys.meta_path  # type: ignore[assignment]
            for finder in list(finders):
                find = getattr(finder, "find_spec", None) if finder is not self else None
                spec = find(name, path, target) if find is not None else None
                if spec is not None:
                    self._tell_after(getattr(spec, "loader", None), name)
                    return spec
        finally:
            self._asking.discard(me)
        return None

    def _tell_after(self, loader: object, name: str) -> None:
        """Have this one loader tell when it has executed the module; it then is as it was."""
        execute = getattr(loader, "exec_module", None)
        own = getattr(loader, "__dict__", None)
        if execute is None or isinstance(loader, type) or own is None:
            return
        before = own.get("exec_module")

        def exec_module(module: object) -> None:
            own.pop("exec_module", None)
            if before is not None:  # somebody else waits as well
                own["exec_module"] = before
            try:
                execute(module)
            except BaseException as error:
                # The program's traceback is its own: a bare `raise` does not add this frame again.
                if error.__traceback__ is not None:
                    error.__traceback__ = error.__traceback__.tb_next
                raise
            self._arrived(name)

        own["exec_module"] = exec_module

    def _arrived(self, name: str) -> None:
        """Act, once, unless somebody loaded a module of that name for himself alone."""
        if name in sys.modules:
            for action in self._actions.pop(name, ()):
                action()
            self._rest()


def is_loaded(name: str) -> bool:
    """Whether a module is there and complete."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return name in sys.modules and not getattr(spec, "_initializing", False)


WAITING = Waiting()


def after_import(name: str, action: "Callable[[], None]") -> "Callable[[], None]":
    """Call `action` once a module is imported, now if it is; returns a way to take it back."""
    return WAITING.add(name, action)


# What parsers call the sentence that they print before they exit.
_SENTENCES = ("message", "msg", "err", "error")
_LONGEST_CHAIN = 10
_MOST_CHARACTERS = 2000


def listen(log: "Log") -> None:
    """Write the words behind an exit down."""
    original = sys.exit

    def exit(status: object = None, /) -> "NoReturn":  # noqa: A001
        texts = dict.fromkeys(
            [*_own(status), *_chained(sys.exc_info()[1]), *_left_in(sys._getframe(1))]
        )
        words = "\n".join(text for text in texts if text)
        log.write("refused", words[:_MOST_CHARACTERS])
        sys.exit = original
        original(status)  # type: ignore[arg-type]

    sys.exit = exit


def _own(status: object) -> "Iterator[str]":
    if isinstance(status, str):
        yield status


def _chained(error: BaseException | None) -> "Iterator[str]":
    for _ in range(_LONGEST_CHAIN):
        if error is None:
            return
        yield _text(error)
        error = error.__cause__ or error.__context__


def _left_in(frame: "FrameType | None") -> "Iterator[str]":
    while frame is not None:
        # A module's frame holds its globals, which are no parser's.
        if frame.f_code.co_name != "<module>":
            held = frame.f_locals
            yield from (v for k in _SENTENCES if isinstance(v := held.get(k), str))
        frame = frame.f_back


def _text(error: BaseException) -> str:
    said = getattr(error, "format_message", None)
    try:
        return str(said() if callable(said) else error)
    except Exception:  # the program's own class
        return ""
