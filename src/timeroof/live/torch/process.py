"""A forked child must inherit nothing that is switched on, and nothing that watches."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import tempfile
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol

from timeroof.live.torch.schedule import UNTOUCHED, Pass


class Forked(Protocol):
    """Something that has to know of forks."""

    def before_fork(self) -> None:
        """The process is about to fork."""
        ...

    def after_fork(self) -> None:
        """The process has forked, and this is still the same one."""
        ...

    def leave_child(self) -> None:
        """This is the child."""
        ...


def mind_forks(watched: Forked) -> None:
    """Tell an object of forks for as long as it lives; none of its errors reach the program."""
    watcher = weakref.ref(watched)

    def tell(what: str) -> Callable[[], None]:
        def told() -> None:
            alive = watcher()
            if alive is not None:
                with contextlib.suppress(Exception):
                    getattr(alive, what)()

        return told

    os.register_at_fork(
        before=tell("before_fork"),
        after_in_parent=tell("after_fork"),
        after_in_child=tell("leave_child"),
    )


# Signals wait while instruments are switched on or off.
#
# A signal's exception between torch's switching and our noting it would leave the profiler on:
# the
# program would then crash at its end, in place of a partial report.


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def is_from_handler(error: BaseException) -> bool:
    """Whether a handler of the program's raised it: a signal (an alarm, say) came while we ran."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {_code_of(handler) for handler in handlers} - {None}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def _code_of(handler: Any) -> CodeType | None:
    """The code of a function, a method, or an object that can be called."""
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
    """Ctrl-C and SIGTERM reach the program's handlers when the block has ended.

    Nothing happens in other threads than the main one: handlers never run there.
    """
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
    group: Any = sys.modules.get("torch.distributed")
    if group is not None and group.is_available() and group.is_initialized():
        return int(group.get_rank())
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
    with suppress(Exception):
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
_STARTS = ("_prepare_trace", "_start_trace")
_END = "__exit__"


def step_aside(starts: Callable[[], None], ends: Callable[[], None]) -> Callable[[], None]:
    """Call us before a profiler of the program starts and after it ends; returns a way back."""
    import torch

    owner: Any = torch.autograd.profiler.profile
    kept = {name: getattr(owner, name) for name in (*_STARTS, _END)}
    for name in _STARTS:
        setattr(owner, name, _before(kept[name], starts))
    setattr(owner, _END, _after(kept[_END], ends))

    ours = {name: getattr(owner, name) for name in kept}

    def back() -> None:
        for name, original in kept.items():
            # What somebody else has put in place of ours stays.
            if getattr(owner, name) is ours[name]:
                setattr(owner, name, original)

    return back


def _before(original: Callable[..., Any], action: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            action()
        return original(*args, **kwargs)

    return call


def _after(original: Callable[..., Any], action: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            with contextlib.suppress(Exception):
                action()

    return call


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
