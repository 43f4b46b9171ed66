"""The described pass: torch's execution trace (tensors, storages, results) and modules by hooks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from timeroof.live.torch.contexts import ModuleNames, SourceLines
from timeroof.live.torch.inductor.calls import CompiledCalls
from timeroof.live.torch.inductor.hooks import CompiledGraph
from timeroof.live.torch.process import quiet_stderr, temporary_file
from timeroof.live.torch.recording import Described, TensorSeen
from timeroof.read.torch.execution_nodes import TENSOR, Node, Side, decoded, nodes_of

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.profiler import ExecutionTraceObserver

_NO_VALUE = "<None>"


# Whoever describes at the moment: at most one in a process.
_ON: list[Describing] = []


class Describing:
    """Switches torch's ExecutionTraceObserver and the module hooks on and off."""

    def __init__(
        self, graphs: list[CompiledGraph] | None = None, *, with_lines: bool = False
    ) -> None:
        self._graphs = graphs if graphs is not None else []
        self._compiled = CompiledCalls(self._graphs)
        self._with_lines, self._lines = with_lines, SourceLines()
        self._observer: ExecutionTraceObserver | None = None
        self._path: Path | None = None
        self._modules = ModuleNames()
        # Which of the program's steps is described, from 1 on.
        self.number = 0

    def start(self, entered: Module | None = None, number: int = 0) -> bool:
        """Begin to record, perhaps inside a module's call; False where another observer is on."""
        self.number = number
        from torch.profiler import ExecutionTraceObserver

        # Torch ends the program over a second observer that is started while one is on.
        if _ON:
            return False
        self._path = temporary_file(self)
        observer = ExecutionTraceObserver()
        observer.register_callback(str(self._path))
        if not observer._registered:
            self.forget()
            return False
        self._observer = observer
        _ON.append(self)
        with quiet_stderr():
            observer.start()
        self._modules.attach(entered)
        self._compiled.attach()
        # Compiled code would be compiled anew for the mode; it brings its lines itself.
        if self._with_lines and not self._graphs:
            self._lines.attach()
        return True

    def stop(self) -> None:
        """End the recording; `read` gives it."""
        self._lines.detach()
        self._compiled.detach()
        self._modules.detach()
        if self._observer is not None:
            with quiet_stderr():
                self._observer.stop()
                self._observer.unregister_callback()
            self._observer = None
            _ON.remove(self)

    def read(self) -> list[Described]:
        """The ops of the step in the order of their beginning."""
        if self._path is None:
            return []
        data = self._path.read_bytes()
        self.forget()
        return described_from_json(data) if data else []

    def forget(self) -> None:
        """Remove the file."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None


def first_and_latest(pending: Sequence[Describing]) -> list[Describing]:
    """Two described steps are held, however many there were; files of others are removed."""
    for between in pending[1:-1]:
        between.forget()
    return [*pending[:1], *pending[1:][-1:]]


def described_from_json(data: bytes) -> list[Described]:
    """The ops of an execution trace."""
    nodes = [n for n in nodes_of(decoded(data)) if not n.name.startswith("[pytorch|profiler|")]
    place = {node.id: i for i, node in enumerate(nodes)}
    return [_described(node, place) for node in nodes]


def _described(node: Node, place: dict[int, int]) -> Described:
    attrs = node.attributes
    return Described(
        name=node.name,
        parent=None if node.parent is None else place.get(node.parent),
        thread=int(attrs.get("tid") or 0),
        sequence=int(attrs.get("seq_id", -1)),
        scope=int(attrs.get("scope") or 0),
        schema=str(attrs.get("op_schema") or ""),
        inputs=_values(node.inputs),
        outputs=_values(node.outputs),
    )


def _values(side: Side) -> tuple[object, ...]:
    each = zip(side.values, side.shapes, side.types, side.strides, strict=False)
    return tuple(_value(value, shape, kind, strides) for value, shape, kind, strides in each)


def _value(value: object, shape: object, kind: str, strides: object) -> object:
    tensor = TENSOR.match(kind)
    if tensor is not None:
        return _tensor(value, shape, tensor[1], strides)
    if kind.startswith("GenericList[") and isinstance(value, list):
        inner = kind.removeprefix("GenericList[").removesuffix("]")
        kinds = inner.split(",") if inner else []
        if len(kinds) != len(value):
            return tuple(value)
        return tuple(
            _value(v, _at(shape, i), kinds[i], _at(strides, i)) for i, v in enumerate(value)
        )
    return None if kind == "None" or value == _NO_VALUE else value


def _at(values: object, place: int) -> object:
    return values[place] if isinstance(values, list) and place < len(values) else []


def _tensor(value: object, shape: object, dtype: str, strides: object) -> TensorSeen | None:
    if not isinstance(value, list) or len(value) < 6 or not isinstance(shape, list):
        return None
    sizes = tuple(s for s in shape if isinstance(s, int))
    steps = tuple(s for s in strides if isinstance(s, int)) if isinstance(strides, list) else ()
    if len(sizes) != len(shape):
        return None
    return TensorSeen(sizes, dtype, steps, value[1], value[2], value[4], str(value[5]))
