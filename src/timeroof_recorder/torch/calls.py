"""Calls of a program's modules, watched without leaving anything in them, and names of ours around
its ops: the module that is called, the line that calls.

Hooks would not do. One in a module goes into its checkpoints and copies. Global ones triple the
cost of every module's call, shift the numbers of the program's own hooks, and make torch.compile
compile again whenever they come or go.

All modules are called through one function of torch. It gets other code for a while: the lines
that torch wrote, with a call of ours before and after. The function stays the same object, so
Dynamo and FX, who compare it, find the one that they know, and tracebacks show torch's lines.
"""

from __future__ import annotations

import _thread
import ast
import inspect
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, TypeAlias

from timeroof_recorder.process import is_from_handler, trace_ignored
from timeroof_recorder.torch import MODULE, SOURCE
from timeroof_recorder.torch.beside import beside_dynamo

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.overrides import TorchFunctionMode


Called: TypeAlias = "Callable[[Module, tuple[object, ...], dict[str, object]], None]"
# Constants in the compiled template that are exchanged for what they stand for.
_ENTERED, _LEFT, _WHICH = "timeroof entered", "timeroof left", "timeroof which"
_COUNTS, _GRAD, _THREAD = "timeroof counts", "timeroof grad", "timeroof thread"
# Dynamo replaces the question by its answer, so compiled code has nothing of ours in it.
_IN_PYTHON = "not torch.compiler.is_compiling()"
_TOLD = f"""
    timeroof_tell = {_ENTERED!r}
    timeroof_tell(self, args, kwargs)
    try:
        pass
    finally:
        timeroof_tell = {_LEFT!r}
        timeroof_tell(self, args, kwargs)
"""
_EVERY = f"""
if {_IN_PYTHON}:
    {_TOLD}
"""
# Nothing is called for a call that is only counted: some programs make hundreds in a step.
_SOME = f"""
if id(self) in {_WHICH!r} and {_IN_PYTHON}:
    timeroof_lot = {_COUNTS!r}.get(id(self))
    if timeroof_lot:
        timeroof_grad = {_GRAD!r}
        timeroof_thread = {_THREAD!r}
        timeroof_lot = timeroof_lot.get((self.training, timeroof_grad(), timeroof_thread()))
    if timeroof_lot:
        timeroof_lot.pop()
    else:
        {_TOLD.replace(chr(10), chr(10) + "    ")}
"""


@dataclass(frozen=True, eq=False)
class _Listener:
    entered: Called
    left: Called | None = None
    # The only modules whose calls are wanted; they may go when the program lets go of them.
    only: dict[int, weakref.ref[Module]] | None = None

    def wants(self, module: Module) -> bool:
        if self.only is None:
            return True
        found = self.only.get(id(module))
        return found is not None and found() is module


_LISTENERS: list[_Listener] = []


def watch_calls(
    entered: Called, left: Called | None = None, *, only: Iterable[Module] | None = None
) -> Callable[[], None]:
    """Be told of every module's call, or of those of some modules; returns a way to end that. What
    torch.compile compiles is not told. With `only`, calls of other modules cost a comparison."""
    some = None if only is None else {id(module): weakref.ref(module) for module in only}
    told = _Listener(entered, left, some)
    _LISTENERS.append(told)
    _fit_code()
    return lambda: _drop(told)


# Of a module, by whether it trains, whether gradients are kept, and the thread: an item less for
# every call that was counted.
_Lots: TypeAlias = "dict[tuple[bool, bool, int], list[None]]"
_LOTS: dict[int, _Lots] = {}
# Calls after which one is told again.
LOT = 256


class CallCounts:
    """Calls of modules that are only counted from now on, as `watch_calls` tells of them no more.

    Of calls with other flags or in other threads it does; so it does where all modules are watched.
    """

    def __init__(self) -> None:
        self._given: list[tuple[str, str, list[None]]] = []

    def count(self, module: Module, label: str, flags: str) -> None:
        """Count the calls of a module that are like the one which is being told."""
        import torch

        lot: list[None] = [None] * LOT
        like = module.training, torch.is_grad_enabled(), _thread.get_ident()
        _LOTS.setdefault(id(module), {})[like] = lot
        self._given.append((label, flags, lot))

    def take(self) -> list[tuple[str, str, int]]:
        """How many were counted; from now on all calls are told again."""
        if not self._given:
            return []
        _LOTS.clear()
        given, self._given = self._given, []
        return [(label, flags, LOT - len(lot)) for label, flags, lot in given]


def _drop(listener: _Listener) -> None:
    if listener in _LISTENERS:
        _LISTENERS.remove(listener)
        _fit_code()


def _fit_code() -> None:
    """Give torch's function the cheapest code that tells what somebody listens for."""
    calls, original = _function(), _original()
    listening = [each for each in _LISTENERS if each.only is None or each.only]
    if not listening:
        code = original
    elif any(each.only is None for each in listening):
        code = _filled(_template(_EVERY), None)
    else:
        wanted = frozenset(each for one in listening for each in one.only or ())
        code = _filled(_template(_SOME), wanted)
    calls.__code__ = code


def _tell_entered(module: Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    _tell([(each, each.entered) for each in _LISTENERS], module, args, kwargs)


def _tell_left(module: Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    _tell([(each, each.left) for each in _LISTENERS], module, args, kwargs)


def _tell(
    acts: list[tuple[_Listener, Called | None]],
    module: Module, args: tuple[object, ...], kwargs: dict[str, object],
) -> None:  # fmt: skip
    if _is_no_call():
        return
    for listener, act in acts:
        if act is not None and listener.wants(module):
            try:
                act(module, args, kwargs)
            except Exception as error:  # the program must not suffer from us
                if is_from_handler(error):
                    raise
                trace_ignored("calls of modules are watched no longer")
                _drop(listener)


@cache
def _has_graphs() -> bool:
    """Whether this torch was built for a device whose work can be captured."""
    import torch

    return bool(torch.backends.cuda.is_built())  # type: ignore[no-untyped-call]


def _is_no_call() -> bool:
    """Whether modules are only being traced or captured: ops of ours would be taken for theirs."""
    tracing_state, symbolic_trace = _tracers()
    if tracing_state() is not None or symbolic_trace._is_fx_tracing_flag:
        return True
    if not _has_graphs():
        return False
    import torch

    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    return torch.cuda.is_current_stream_capturing()


@cache
def _tracers() -> tuple[Callable[[], object], ModuleType]:
    """Who knows of tracing. Asked at every call of a module, where imports would cost most."""
    import torch
    from torch.fx import _symbolic_trace

    return torch._C._get_tracing_state, _symbolic_trace


def _function() -> FunctionType:
    """The function of torch through which all modules are called."""
    import torch

    found: FunctionType = torch.nn.Module._wrapped_call_impl  # type: ignore[assignment]
    return found


@cache
def _original() -> CodeType:
    return _function().__code__


@cache
def _template(around_source: str) -> CodeType:
    """Torch's function with our lines around its own, which keep their numbers."""
    original = _original()
    # In a class, as torch has it: columns stay right, too.
    tree = ast.parse("class Module:\n" + inspect.getsource(original))
    ast.increment_lineno(tree, original.co_firstlineno - 2)
    (function,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    (around,) = ast.parse(around_source).body
    for node in ast.walk(around):
        ast.copy_location(node, function)
        if isinstance(node, ast.Name) and node.id in ("args", "kwargs"):
            theirs = function.args.vararg if node.id == "args" else function.args.kwarg
            node.id = theirs.arg if theirs is not None else node.id
    (guarded,) = (node for node in ast.walk(around) if isinstance(node, ast.Try))
    guarded.body = function.body
    function.body = [around, *function.body]
    tree.body = [function]
    compiled = compile(tree, original.co_filename, "exec", dont_inherit=True)
    code = next(c for c in compiled.co_consts if isinstance(c, CodeType))
    return code.replace(co_qualname=original.co_qualname)


def _filled(template: CodeType, only: frozenset[int] | None) -> CodeType:
    import torch

    meant: dict[object, object] = {
        _ENTERED: beside_dynamo(_tell_entered),
        _LEFT: beside_dynamo(_tell_left),
        _WHICH: only,
        _COUNTS: _LOTS,
        _GRAD: torch.is_grad_enabled,
        _THREAD: _thread.get_ident,
    }
    constants = tuple(meant.get(c, c) if isinstance(c, str) else c for c in template.co_consts)
    return template.replace(co_consts=constants)


# Names of ours around a program's ops: the module that is called, the line that calls.


class Annotation:
    """A name around ops that the program's dispatch modes (FlopCounterMode, a logger) do not see. A
    mode would get to see an op of the profiler's that is none of the program's. What it does with
    it is an event around the opening of the name, which ends first and takes the name along."""

    def __init__(self, name: str) -> None:
        import torch

        self._hidden = torch._C._DisableTorchDispatch
        self._annotation = torch.autograd.profiler.record_function(name)

    def __enter__(self) -> None:
        with self._hidden():
            self._annotation.__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: object) -> None:
        with self._hidden():
            self._annotation.__exit__(None, None, None)


# Module paths of ops: an annotation around every module's call.


_FRAMES = 40
_NOT_THE_PROGRAM = ("torch.", "timeroof.", "timeroof_recorder.")


class ModuleNames:
    """Watches the calls of all modules, for one step only."""

    def __init__(self, root_called: Callable[[Module], None] = lambda module: None) -> None:
        self._root_called = root_called
        self._unwatch: Callable[[], None] = lambda: None
        self._open: list[Annotation] = []
        self._paths: dict[int, str] = {}
        self._roots: list[Module] = []
        self._thread = 0

    def attach(self, entered: Module | None = None) -> None:
        """Name every module call of this thread from here on; `entered` is being called."""
        self._thread = _thread.get_ident()
        self._unwatch = watch_calls(self._told, self._leave)
        if entered is not None:
            self._enter(entered)

    def _told(self, module: Module, _args: object, _kwargs: object) -> None:
        if _thread.get_ident() != self._thread:
            return
        if not self._open:
            self._root_called(module)
        self._enter(module)

    def detach(self) -> None:
        """Watch no more; annotations that are still open are closed."""
        self._unwatch()
        while self._open:
            self._open.pop().__exit__(None, None, None)
        self._paths, self._roots = {}, []

    def _enter(self, module: Module) -> None:
        if id(module) not in self._paths:
            self._name(module)
        annotation = Annotation(MODULE + self._paths[id(module)])
        annotation.__enter__()
        self._open.append(annotation)

    def _leave(self, _module: Module, _args: object, _kwargs: object) -> None:
        if self._open and _thread.get_ident() == self._thread:
            self._open.pop().__exit__(None, None, None)

    def _name(self, root: Module) -> None:
        """Paths of a module that is called from outside any named one, and of all below it."""
        head = variable_name(root, sys._getframe(3)) or type(root).__name__
        self._roots.append(root)  # alive, so that no other module gets its id
        for path, module in root.named_modules():
            self._paths.setdefault(id(module), f"{head}.{path}" if path else head)


def variable_name(value: object, frame: FrameType | None) -> str | None:
    """What the calling code calls a value: the nearest local or global name in its frames."""
    for _ in range(_FRAMES):
        if frame is None:
            return None
        if not str(frame.f_globals.get("__name__", "")).startswith(_NOT_THE_PROGRAM):
            for names in (frame.f_locals, frame.f_globals):
                found = next((k for k, v in list(names.items()) if v is value), None)
                if found is not None and found != "self":
                    return found
        frame = frame.f_back
    return None


# Source lines of ops, on demand: annotations that name the program's line around every call.
#
# A mode of torch's Python functions sees each call before it is dispatched, and leaves what the
# dispatcher does alone. It is there for the described step only.


# Of this package, and of timeroof beside it.
_OURS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120
_THEIRS = os.path.join(os.path.dirname(_OURS), "timeroof")  # noqa: PTH118, PTH120


class SourceLines:
    """Switches the mode on and off."""

    def __init__(self) -> None:
        self._mode: TorchFunctionMode | None = None

    def attach(self) -> None:
        """From now on every call of a torch function is below an annotation of its line."""
        self._mode = _mode()
        self._mode.__enter__()  # type: ignore[no-untyped-call]

    def detach(self) -> None:
        """No more annotations."""
        if self._mode is not None:
            mode, self._mode = self._mode, None
            mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]


def _mode() -> TorchFunctionMode:
    from torch.overrides import TorchFunctionMode

    skipped = libraries()

    class Lines(TorchFunctionMode):
        def __torch_function__(
            self, func: Callable[..., object], types: object, args: tuple[object, ...] = (),
            kwargs: dict[str, object] | None = None,
        ) -> object:  # fmt: skip
            line = None
            name = str(getattr(func, "__name__", ""))
            # One around the opening or closing of another would close first and take it along.
            if name != "__get__" and "_record_function_" not in name + str(func):
                line = program_line(sys._getframe(1), skipped)
            if line is None:
                return func(*args, **(kwargs or {}))
            with Annotation(SOURCE + line):
                return func(*args, **(kwargs or {}))

    return Lines()


def libraries() -> tuple[str, ...]:
    """Folders of torch and of ours: frames below them are not the program's."""
    import torch

    return os.path.dirname(torch.__file__) + os.sep, _OURS + os.sep, _THEIRS + os.sep  # noqa: PTH120


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

    >>> shown_path(os.path.join(os.getcwd(), "train.py"))
    'train.py'
    """
    try:
        here = os.getcwd()  # noqa: PTH109
    except OSError:  # the program has removed it
        return name
    return os.path.join(here, name).removeprefix(here + os.sep)  # noqa: PTH118
