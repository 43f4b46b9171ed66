"""Calls of a program's modules, watched without leaving anything in them.

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
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, TypeAlias

from timeroof_recorder.process import is_from_handler, trace_ignored
from timeroof_recorder.torch.compiled_code import beside_dynamo

if TYPE_CHECKING:
    from torch.nn import Module

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
