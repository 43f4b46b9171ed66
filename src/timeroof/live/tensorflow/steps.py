"""A timed step of TensorFlow's profiler: nodes of graphs, eager ops, instructions of XLA's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from timeroof.live.frameworks import FilePass
from timeroof.live.recording import Ints, TimedStep
from timeroof.live.tensorflow.graph import Graph, NodeRun, graphs_in, parse_shapes
from timeroof.live.tensorflow.ops import is_exchange, plain_op
from timeroof.live.xla.steps import Kernel, Level, XlaStep, read_steps
from timeroof.read.xla.space import Event, Line

# Nodes that only contain others, or hand work to XLA's runtime.
_CONTAINERS = re.compile(
    r"^(?:__inference|__forward|__backward|(?:Stateful)?PartitionedCall$|RemoteCall$|SymbolicGradient$"
    r"|(?:Stateless)?(?:While|If|Case)$|XlaLaunch|_XlaRun|XlaLocalLaunch|MapDefun$|_FusedXla)"
)
_COMPILES = re.compile(
    r"^(?:tf\.function-graph_building|_XlaCompile|XlaCompile|Grappler|FunctionOptim|GraphOptimiz|XlaBuild)"
)
# Fetching batches, and making the pipelines that prepare them.
_DATA = re.compile(
    r"^(?:IteratorGetNext|OneShotIterator|OptionalFromValue|MultiDeviceIterator|MakeIterator"
    r"|AnonymousIterator|AnonymousMultiDeviceIterator|DeleteIterator|DeleteMultiDeviceIterator"
    r"|\w+Dataset(?:V\d+)?$)"
)
_RUNTIME = (
    "ExecutorState::", "ExecutorPropagate", "ExecutorDone", "FunctionRun", "Rendezvous", "XlaRun",
    "XlaLaunch", "SessionRun", "TfrtSession", "DirectSession",
)  # fmt: skip
_DISPATCH = (
    "Eager",
    "TFE_",
    "tf.constant",
    "EagerTensor",
    "TensorHandle",
    "TF_Session",
    "Validate",
)
_DATA_LINE = re.compile(r"(?i)tf_data|iterator")
# A node is four events: as many nodes are read as there are kernels of XLA's.
MOST_EVENTS = 250_000
_EAGER, _RUN = "EagerExecute", "KernelAndDeviceFunc::Run"


class GraphOp(NamedTuple):
    """A node that ran, and the shapes of its inputs."""

    node: str
    op: str
    shapes: tuple[tuple[str, tuple[int, ...]] | None, ...]
    # Ran by the pipeline that prepares batches.
    is_data: bool = False


class EagerOp(NamedTuple):
    """An op that ran by itself."""

    op: str


@dataclass(frozen=True)
class TensorflowStep(XlaStep):
    """A timed step, the graphs of the process, and eager ops that were described in the step."""

    graphs: Sequence[Graph] = ()
    eager: Sequence[Any] = ()

    def runs(self, places: Sequence[int]) -> list[NodeRun]:
        """Executed nodes at these places."""
        found = []
        for place in places:
            op = self.kernels[place].op
            assert isinstance(op, GraphOp)
            found.append(NodeRun(int(self.start_ns[place]), op.node, op.op, op.shapes))
        return found


@dataclass
class _Teller:
    """Tells what an event is; events of a line come in the order in which they began."""

    last: dict[int, Event] = field(default_factory=dict)

    def __call__(self, line: Line, event: Event) -> Level | Kernel | None:
        """What it is; None: as XLA has it."""
        name = event.name
        if name == _EAGER:
            self.last[id(line)] = event
            return Level.DISPATCH
        if name == _RUN:
            return self._eager_run(line, event)
        node, colon, op = event.full_name.rpartition(":")
        if colon and node and op == name and not node.endswith(":"):
            return _node(line, event, node, op)
        return _level_of(event)

    def _eager_run(self, line: Line, event: Event) -> Level | Kernel:
        around = self.last.get(id(line))
        if around is None or around.stats.get("is_func") not in (0, "0", False, None):
            return Level.RUNTIME
        if not around.offset_ps <= event.offset_ps < around.offset_ps + around.duration_ps:
            return Level.RUNTIME
        op = str(around.stats.get("eager_op", ""))
        if _DATA.match(op):
            return Level.DATA
        return _kernel(op, EagerOp(op))


def _level_of(event: Event) -> Level | None:
    """What an event of the runtime's own is."""
    if event.name.startswith(_RUNTIME):
        return Level.RUNTIME
    # A call that traces has its function built, optimised and handed over anew, too.
    traces = str(event.stats.get("tf_function_call", "")).startswith("traced")
    if traces or _COMPILES.match(event.name):
        return Level.COMPILE
    is_call = event.name.startswith(_DISPATCH) or "tf_function_call" in event.stats
    return Level.DISPATCH if is_call else None


def _node(line: Line, event: Event, node: str, op: str) -> Level | Kernel | None:
    if event.name.startswith(("EagerLocalExecute", "ThreadpoolListener", "ThunkExecutor")):
        return None
    if _CONTAINERS.match(op):
        return Level.RUNTIME
    if _COMPILES.match(op):
        return Level.COMPILE
    if _DATA.match(op):
        return Level.DATA
    is_data = bool(_DATA_LINE.search(line.name))
    shapes = parse_shapes(event.stats.get("shape"))
    return _kernel(op, GraphOp(node, op, shapes, is_data))


def _kernel(op: str, ran: EagerOp | GraphOp) -> Kernel:
    return Kernel(
        f"tf::{plain_op(op)}",
        op=ran,
        is_collective=is_exchange(plain_op(op)),
        is_eager=isinstance(ran, EagerOp),
    )


def tensorflow_steps(passes: Sequence[FilePass], folder: Path) -> list[TimedStep | None]:
    """The steps of a process's traces, with its graphs."""
    found = read_steps(passes, folder, _Teller(), MOST_EVENTS)
    known: dict[str, list[Graph]] = {}
    steps: list[TimedStep | None] = []
    for one, step in zip(passes, found, strict=True):
        process = Path(str(one.payload["file"])).name.partition("-")[0]
        if process not in known:
            known[process] = graphs_in(folder, process)
        if not isinstance(step, XlaStep):
            steps.append(step)
            continue
        own: Mapping[str, Any] = {f.name: getattr(step, f.name) for f in fields(step)}
        kernels, level = exchanges(step)
        own = {**own, "kernels": kernels, "level": level}
        eager = one.payload.get("eager", ())
        steps.append(TensorflowStep(**own, graphs=known[process], eager=eager))
    return steps


def exchanges(step: XlaStep) -> tuple[dict[int, Kernel], Ints]:
    """Kernels and levels where a collective is two events: its node hands the message over, and has
    its sizes; a thread of the runtime exchanges it, without any. The second is the collective."""
    kernels, level = dict(step.kernels), step.level.copy()
    own = {p: k.op for p, k in kernels.items() if k.is_collective and isinstance(k.op, GraphOp)}
    ran = {op.node for op in own.values() if not op.shapes}
    handed = {op.node: op for op in own.values() if op.shapes and op.node in ran}
    for place, op in own.items():
        if op.node in handed and op.shapes:
            level[place] = Level.RUNTIME
            del kernels[place]
        elif op.node in handed:
            kernels[place] = replace(kernels[place], op=handed[op.node])
    return kernels, level
