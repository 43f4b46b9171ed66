"""The process that is the program's too: forks, signals, imports, and what is put around torch."""

from __future__ import annotations

import functools
import os
import signal
import sys
import tempfile
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Protocol

from timeroof.core.errors import ignoring
from timeroof.live.torch.schedule import UNTOUCHED, Pass

# A forked child must inherit nothing that is switched on, and nothing that watches.


class Forked(Protocol):
    """Something that has to know of forks."""

    def before_fork(self) -> None:
        """The process is about to fork."""

    def after_fork(self) -> None:
        """The process has forked, and this is still the same one."""

    def leave_child(self) -> None:
        """This is the child."""


def mind_forks(watched: Forked) -> None:
    """Tell an object of forks for as long as it lives; none of its errors reach the program."""
    watcher = weakref.ref(watched)

    def tell(what: Callable[[Forked], None]) -> None:
        alive = watcher()
        if alive is not None:
            with ignoring("a fork was not minded"):
                what(alive)

    os.register_at_fork(
        before=lambda: tell(lambda each: each.before_fork()),
        after_in_parent=lambda: tell(lambda each: each.after_fork()),
        after_in_child=lambda: tell(lambda each: each.leave_child()),
    )


# Signals wait while instruments are switched on or off.
#
# A signal's exception between torch's switching and our noting it would leave the profiler on: the
# program would then crash at its end, in place of a partial report.


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def is_from_handler(error: BaseException) -> bool:
    """Whether a handler of the program's raised it: a signal (an alarm, say) came while we ran."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {_code_of(handler) for handler in handlers} - {None}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def _code_of(handler: object) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    for found in (handler, getattr(handler, "__call__", None)):  # noqa: B004
        code = getattr(getattr(found, "__func__", found), "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None


def switching(pass_: Pass) -> AbstractContextManager[None]:
    """Signals wait where instruments are switched; steps without any are not held up."""
    return nullcontext() if pass_ in UNTOUCHED else uninterrupted()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM reach the program's handlers when the block has ended. Nothing happens in
    other threads than the main one: handlers never run there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def hold(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    # Default actions and handlers that Python does not know cannot leave us half done.
    before = {s: h for s in _SIGNALS if callable(h := signal.getsignal(s))}
    for number in before:
        signal.signal(number, hold)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in dict.fromkeys(came):
            signal.raise_signal(each)


# Which of several processes this one is.


def rank_of_process() -> int | None:
    """The rank in the program's process group, or as a launcher has set it."""
    if "torch.distributed" in sys.modules:
        from torch import distributed

        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank()
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdigit() else None


# Temporary files that go when their owner does, in the process that made them only.


def temporary_file(owner: object) -> Path:
    """An empty file that is removed with its owner, or when the interpreter ends."""
    handle, name = tempfile.mkstemp(prefix="timeroof-", suffix=".json")
    os.close(handle)
    path = Path(name)
    weakref.finalize(owner, _remove, path, os.getpid())
    return path


def _remove(path: Path, maker: int) -> None:
    """A forked child has the finalizers of its parent; the files are not its own."""
    if os.getpid() == maker:
        path.unlink(missing_ok=True)


# Silence for torch's own chatter on file descriptor 2 while a profiler is switched.


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Send file descriptor 2 nowhere for the block; Python's own stderr is flushed before."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # there is none
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


# The program's own torch.profiler goes first: ours gives way from its warm-up to its end.


# Both of torch's profilers go through these.
_STARTS, _END = ("_prepare_trace", "_start_trace"), "__exit__"


def step_aside(starts: Callable[[], None], ends: Callable[[], None]) -> Callable[[], None]:
    """Call us before a profiler of the program starts and after it ends; returns a way back."""
    from torch.autograd.profiler import profile

    def before(original: Callable[..., object], *args: object, **kwargs: object) -> object:
        with ignoring("the program's profiler starts beside ours"):
            starts()
        return original(*args, **kwargs)

    def after(original: Callable[..., object], *args: object, **kwargs: object) -> object:
        try:
            return original(*args, **kwargs)
        finally:
            with ignoring("the end of the program's profiler was missed"):
                ends()

    backs = [*(wrap(profile, name, before) for name in _STARTS), wrap(profile, _END, after)]

    def back() -> None:
        for each in backs:
            each()

    return back


def wrap(owner: object, name: str, wrapper: Callable[..., object]) -> Callable[[], None]:
    """Put a function around a method, which it gets with the arguments; returns a way back."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def call(*args: object, **kwargs: object) -> object:
        return wrapper(original, *args, **kwargs)

    def back() -> None:
        # What somebody else has put in place of ours stays.
        if getattr(owner, name) is call:
            setattr(owner, name, original)

    setattr(owner, name, call)
    return back


# Ops of our own that the program's modes and hooks must not see.


@contextmanager
def unseen() -> Iterator[None]:
    """Ordinary tensors with gradients, out of sight of function and dispatch modes.

    A program may run under a mode that counts or changes ops (`FlopCounterMode`, a logger), inside
    a transform (`torch.func.grad`), or with gradients off: none of it concerns what we run
    between its steps.
    """
    import torch

    with (
        _outside_transforms(),
        torch._C.DisableTorchFunction(),
        torch._C._DisableTorchDispatch(),
        torch.inference_mode(mode=False),
        torch.enable_grad(),
    ):
        yield


def _outside_transforms() -> AbstractContextManager[object]:
    from torch._C._functorch import maybe_current_level
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    return nullcontext() if maybe_current_level() is None else temporarily_clear_interpreter_stack()


# Something to do as soon as a module has been imported, and never if it is not.


def after_import(name: str, action: Callable[[], None]) -> Callable[[], None]:
    """Call `action` once the module is imported, now if it is; returns a way to take it back."""
    if name in sys.modules:
        action()
        return lambda: None
    finder = _Finder(name, action)
    sys.meta_path.insert(0, finder)
    return finder.remove


class _Finder(MetaPathFinder):
    """Finds one module through the others, and has it loaded by a loader that tells. Looking is not
    loading: a program may ask for the spec first (`importlib.util.find_spec`), as often as it
    likes, and an import may fail and be tried again. So it stays until the module is there."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._name, self._action = name, action
        self._looking = threading.local()
        self._is_over = threading.Lock()

    def remove(self) -> None:
        """Await the module no longer, whoever loads it with a spec of ours."""
        self._is_over.acquire(blocking=False)
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the awaited module, with a loader that acts after loading."""
        # Other finders of this kind ask all finders, and so this one again.
        if fullname != self._name or getattr(self._looking, "now", False):
            return None
        self._looking.now = True
        try:
            spec = self._found(path, target)
        finally:
            self._looking.now = False
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            self._tell_after(spec.loader)
        return spec

    def _tell_after(self, loader: Loader) -> None:
        """Have a loader tell when it has executed the module; it then is as it was."""

        own = vars(loader)
        before = own.get("exec_module")

        def execute(module: ModuleType) -> None:
            own.pop("exec_module", None)
            if before is not None:  # somebody else waits as well
                own["exec_module"] = before
            loader.exec_module(module)
            self.loaded()

        own["exec_module"] = execute

    def _found(self, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(self._name, path, target) if find is not None else None
            if isinstance(spec, ModuleSpec):
                return spec
        return None

    def loaded(self) -> None:
        """Act, once, unless somebody loaded a module of that name for himself alone."""
        if self._name in sys.modules and self._is_over.acquire(blocking=False):
            self.remove()
            self._action()
