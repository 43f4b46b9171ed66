"""Names of ours around a program's ops: the module that is called, the line that calls."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from timeroof_recorder.torch.module_calls import watch_calls
from timeroof_recorder.torch.names import MODULE, SOURCE

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.overrides import TorchFunctionMode


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

    def attach(self, entered: Module | None = None) -> None:
        """Name every module call from here on; `entered` is a module that is being called."""
        self._unwatch = watch_calls(self._told, self._leave)
        if entered is not None:
            self._enter(entered)

    def _told(self, module: Module, _args: object, _kwargs: object) -> None:
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
        if self._open:
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
