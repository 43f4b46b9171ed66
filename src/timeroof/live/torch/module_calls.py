"""Calls of a program's modules, watched without leaving anything in them.

Hooks would not do. One in a module goes into its checkpoints and copies. Global ones triple the
cost of every module's call, shift the numbers of the program's own hooks, and make torch.compile
compile again whenever they come or go.

All modules are called through one function of torch. It gets other code for a while: the lines
that torch wrote, with a call of ours before and after. The function stays the same object, so
Dynamo and FX, who compare it, find the one that they know, and tracebacks show torch's lines.
"""

from __future__ import annotations

import ast
import inspect
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, TypeAlias

from timeroof.core.errors import trace_ignored
from timeroof.live.torch.compiling import beside_dynamo
from timeroof.live.torch.process import is_from_handler

if TYPE_CHECKING:
    from torch.nn import Module

Called: TypeAlias = "Callable[[Module], None]"
# Constants in the compiled template that are exchanged for what they stand for.
_ENTERED, _LEFT, _WHICH = "timeroof entered", "timeroof left", 0x74696D65_726F6F66
# Dynamo replaces the question by its answer, so compiled code has nothing of ours in it.
_EVERY = "not torch.compiler.is_compiling()"
_ONE = f"id(self) == {_WHICH} and {_EVERY}"
_AROUND = f"""
if {{condition}}:
    timeroof_tell = {_ENTERED!r}
    timeroof_tell(self)
    try:
        pass
    finally:
        timeroof_tell = {_LEFT!r}
        timeroof_tell(self)
"""


@dataclass(frozen=True, eq=False)
class _Listener:
    entered: Called
    left: Called | None = None
    # The only module whose calls are wanted; it may go when the program lets go of it.
    only: weakref.ref[Module] | None = None

    def wants(self, module: Module) -> bool:
        return self.only is None or self.only() is module


_LISTENERS: list[_Listener] = []


def watch_calls(
    entered: Called, left: Called | None = None, *, only: Module | None = None
) -> Callable[[], None]:
    """Be told of every module's call, or of those of one module; returns a way to end that. What
    torch.compile compiles is not told. With `only`, calls of other modules cost a comparison."""
    told = _Listener(entered, left, None if only is None else weakref.ref(only))
    _LISTENERS.append(told)
    _fit_code()
    return lambda: _drop(told)


def _drop(listener: _Listener) -> None:
    if listener in _LISTENERS:
        _LISTENERS.remove(listener)
        _fit_code()


def _fit_code() -> None:
    """Give torch's function the cheapest code that tells what somebody listens for."""
    calls, original = _function(), _original()
    wanted = {None if each.only is None else id(each.only()) for each in _LISTENERS}
    if not wanted:
        code = original
    elif len(wanted) == 1 and None not in wanted:
        code = _filled(_template(_ONE), wanted.pop())
    else:
        code = _filled(_template(_EVERY), None)
    calls.__code__ = code


def _tell(module: Module, action: Callable[[_Listener], Called | None]) -> None:
    if _is_no_call():
        return
    for listener in tuple(_LISTENERS):
        act = action(listener)
        if act is not None and listener.wants(module):
            try:
                act(module)
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
    import torch
    from torch.fx import _symbolic_trace

    if torch._C._get_tracing_state() is not None or _symbolic_trace._is_fx_tracing_flag:
        return True
    if not _has_graphs() or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    return torch.cuda.is_current_stream_capturing()


def _function() -> FunctionType:
    """The function of torch through which all modules are called."""
    import torch

    found: FunctionType = torch.nn.Module._wrapped_call_impl  # type: ignore[assignment]
    return found


@cache
def _original() -> CodeType:
    return _function().__code__


@cache
def _template(condition: str) -> CodeType:
    """Torch's function with our lines around its own, which keep their numbers."""
    original = _original()
    # In a class, as torch has it: columns stay right, too.
    tree = ast.parse("class Module:\n" + inspect.getsource(original))
    ast.increment_lineno(tree, original.co_firstlineno - 2)
    (function,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    (around,) = ast.parse(_AROUND.format(condition=condition)).body
    for node in ast.walk(around):
        ast.copy_location(node, function)
    (guarded,) = (node for node in ast.walk(around) if isinstance(node, ast.Try))
    guarded.body = function.body
    function.body = [around, *function.body]
    tree.body = [function]
    compiled = compile(tree, original.co_filename, "exec", dont_inherit=True)
    code = next(c for c in compiled.co_consts if isinstance(c, CodeType))
    return code.replace(co_qualname=original.co_qualname)


def _filled(template: CodeType, only: int | None) -> CodeType:
    meant: dict[object, object] = {
        _ENTERED: beside_dynamo(lambda module: _tell(module, lambda each: each.entered)),
        _LEFT: beside_dynamo(lambda module: _tell(module, lambda each: each.left)),
        _WHICH: only,
    }
    constants = tuple(
        meant.get(c, c) if isinstance(c, (str, int)) else c for c in template.co_consts
    )
    return template.replace(co_consts=constants)
