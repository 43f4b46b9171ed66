"""Where a described op belongs: its module and its phase, from annotations and autograd."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from timeroof.live.torch.module_calls import watch_calls
from timeroof.live.torch.recording import BACKWARD_SCOPE, OP_SCOPE, Described

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.overrides import TorchFunctionMode

# Names of ours around a program's ops.


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


MODULE = "timeroof#module#"
_FRAMES = 40
_NOT_THE_PROGRAM = ("torch.", "timeroof.")


class ModuleNames:
    """Watches the calls of all modules, for one step only."""

    def __init__(self) -> None:
        self._unwatch: Callable[[], None] = lambda: None
        self._open: list[Annotation] = []
        self._paths: dict[int, str] = {}
        self._roots: list[Module] = []

    def attach(self, entered: Module | None = None) -> None:
        """Name every module call from here on; `entered` is a module that is being called."""
        self._unwatch = watch_calls(self._enter, self._leave)
        if entered is not None:
            self._enter(entered)

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

    def _leave(self, _module: Module) -> None:
        if self._open:
            self._open.pop().__exit__(None, None, None)

    def _name(self, root: Module) -> None:
        """Paths of a module that is called from outside any named one, and of all below it."""
        head = variable_name(root, sys._getframe(2)) or type(root).__name__
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


SOURCE = "timeroof#source#"
_OURS = str(Path(__file__).resolve().parents[2])


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

    return str(Path(torch.__file__).parent) + os.sep, _OURS + os.sep


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

    >>> shown_path(str(Path.cwd() / "train.py"))
    'train.py'
    """
    try:
        here = str(Path.cwd())
    except OSError:  # the program has removed it
        return name
    return str(Path(here, name)).removeprefix(here + os.sep)


ENGINE = "autograd::engine::evaluate_function"
OPTIMIZER = ("Optimizer.step#", "Optimizer.zero_grad#")
DATA = "enumerate(DataLoader)"


@dataclass(frozen=True)
class Context:
    """The phase and, where they are known, the module and the line of an op."""

    phase: str
    module: str | None
    source: str | None = None
    # Known from a module around it or an autograd node, not from an annotation of the program's.
    is_firm: bool = False


def phase_of_name(name: str) -> str | None:
    """The phase that an event's name opens for everything below it.

    >>> phase_of_name("Optimizer.step#SGD.step"), phase_of_name("aten::mm")
    ('optimizer', None)
    """
    if name.startswith(ENGINE):
        return "backward"
    if name.startswith(OPTIMIZER):
        return "optimizer"
    return "data" if name.startswith(DATA) else None


def contexts(ops: list[Described]) -> list[Context]:
    """Phase and module of every op: below an annotation, by autograd's sequence numbers, or other.

    A backward node bears the number of the forward op that made it. Forward ops outside any
    module (a loss) are known by having made a node that was evaluated. The same holds below an
    optimizer's step, which may call a closure; its own updates are in no module and make no node.
    """
    inside = _inside(ops)
    evaluated = {op.sequence for op in ops if op.scope == BACKWARD_SCOPE and op.sequence >= 0}
    maker = _makers(ops, inside, evaluated)
    making = _with_ancestors(ops, set(maker.values()))
    found: list[Context] = []
    sequence: list[int] = []
    # The engine's own work for a node (adding gradients up) belongs to that node's maker too.
    nodes = {op.parent: op.sequence for op in ops if op.scope == BACKWARD_SCOPE}
    for place, op in enumerate(ops):
        above = None if op.parent is None or op.parent >= place else op.parent
        number = nodes.get(place, -1 if above is None else sequence[above])
        if op.scope == BACKWARD_SCOPE and op.sequence >= 0:
            number = op.sequence
        sequence.append(number)
        here = inside[place]
        if here.phase == "backward":
            made_by = maker.get(number)
            made = inside[made_by] if made_by is not None else _Inside()
            module, source = here.module or made.module, made.source or here.source
            found.append(Context("backward", module, source))
        else:
            caller, makes = (found[above] if above is not None else None), place in making
            is_firm = _is_forward(op, here, makes, caller)
            # In no module, a program's annotation around a forward op is forward.
            forward = makes or (caller is not None and caller.phase == "forward")
            other = here.phase or op.phase or ("forward" if forward else "other")
            phase = "forward" if is_firm else other
            found.append(Context(phase, here.module, here.source, is_firm))
    return found


def _is_forward(op: Described, here: _Inside, makes: bool, above: Context | None) -> bool:
    """Whether an op is in a module, made a node, or was called by one that did."""
    if here.phase == "data":
        return False
    if here.phase is None and here.module is not None:
        return True
    by_caller = above is not None and above.is_firm and op.phase is None
    return op.scope == OP_SCOPE and (makes or op.phase == "forward" or by_caller)


@dataclass(frozen=True)
class _Inside:
    phase: str | None = None
    module: str | None = None
    source: str | None = None


def _inside(ops: list[Described]) -> list[_Inside]:
    found: list[_Inside] = []
    for place, op in enumerate(ops):
        above = found[op.parent] if op.parent is not None and op.parent < place else _Inside()
        module = _after(MODULE, op.name) or op.module
        # A module that is called below an optimizer's step is called by its closure.
        is_closure = module is not None and above.phase == "optimizer"
        phase = phase_of_name(op.name) or (None if is_closure else above.phase)
        source = _after(SOURCE, op.name) or op.source or above.source
        found.append(_Inside(phase, module or above.module, source))
    return found


def _after(head: str, name: str) -> str | None:
    return name.removeprefix(head) if name.startswith(head) else None


def _makers(ops: list[Described], inside: list[_Inside], evaluated: set[int]) -> dict[int, int]:
    return {
        op.sequence: place
        for place, op in enumerate(ops)
        if op.sequence in evaluated
        and op.scope == OP_SCOPE
        and inside[place].phase in (None, "optimizer")
    }


def _with_ancestors(ops: list[Described], places: set[int]) -> set[int]:
    found: set[int] = set()
    for place in places:
        at: int | None = place
        while at is not None and at not in found:
            found.add(at)
            at = ops[at].parent
    return found
