"""What one execution used in TensorFlow, counted from what it ran: eager ops, nodes of a graph."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from timeroof.core.errors import trace_ignored
from timeroof.live.recording import Described, TensorSeen
from timeroof.live.tensorflow import graph as tf_graph
from timeroof.live.tensorflow.graph import Graph, NodeRun, described_graph, node_runs
from timeroof.live.tensorflow.ops import ALIASES, described_op, plain_op, tensor_seen
from timeroof.read.xla.space import planes

# What the profiler records; nodes of a graph come with the third level only. TensorFlow 2.20 and
# 2.21 ignore the option, so the level is set where the profiler looks for it.
_LEVEL = "_ZN3tsl8profiler8internal13g_trace_levelE"
_EVERY_NODE = 3


def traced(run: Callable[[], object], folder: str) -> None:
    """Run a function with TensorFlow's profiler writing into a folder."""
    with _profiling(folder):
        run()


@contextmanager
def _profiling(folder: str) -> Iterator[None]:
    profiler = import_module("tensorflow").profiler.experimental
    options = profiler.ProfilerOptions(python_tracer_level=0, device_tracer_level=0)
    profiler.start(folder, options=options)
    try:
        yield
    finally:
        profiler.stop()


def _level() -> ctypes.c_int | None:
    """The level of the running profiler; None where this build hides it."""
    home = Path(import_module("tensorflow").__file__ or "").parent
    for library in sorted(home.glob("libtensorflow_framework.so*")):
        try:
            return ctypes.c_int.in_dll(ctypes.CDLL(str(library)), _LEVEL)
        except (OSError, ValueError):
            trace_ignored("TensorFlow's profiler does not show its level")
    return None


def executed_nodes(run: Callable[[], object]) -> list[NodeRun] | None:
    """The nodes of graphs that one execution ran; None where the profiler cannot show them."""
    level = _level()
    if level is None:
        return None
    with TemporaryDirectory(prefix="timeroof-") as folder:
        with _profiling(folder):
            level.value = _EVERY_NODE
            run()
        files = sorted(Path(folder).rglob("*.xplane.pb"))
        return node_runs(planes(files[-1].read_bytes())) if files else None


def graph_ops(run: Callable[[], object], graphs: list[Graph]) -> list[Described] | None:
    """The ops of one execution of a graph, with tensors and attributes."""
    runs = executed_nodes(run)
    if not runs:
        return None
    names = {one.node for one in runs}
    graph = max(graphs, key=lambda g: len(names & g.keys()), default=None)
    return described_graph(runs, graph) if graph is not None else None


@contextmanager
def collected(graphs: list[Graph]) -> Iterator[None]:
    """Collect the graphs that functions become, as they run, while they are made."""
    context = import_module("tensorflow.python.eager.context")
    context.context().enable_graph_collection()
    try:
        yield
    finally:
        found = context.context().export_run_metadata()
        context.context().disable_graph_collection()
        graphs += [
            graph_of(graph) for function in found.function_graphs
            for graph in function.partition_graphs
        ]  # fmt: skip


def graph_of(definition: Any) -> Graph:
    """A graph as TensorFlow writes it (GraphDef), by the names of its nodes."""
    return tf_graph.graph_of(definition.SerializeToString())


class EagerOps:
    """Hears of every op that is run eagerly."""

    def __init__(self) -> None:
        self.found: list[Described] = []
        # Results that are an operand under another name lie where the operand lies.
        self._storage: dict[int, int] = {}

    def __call__(
        self, op_type: object, inputs: Any, attrs: Any, outputs: Any,
        op_name: object = None, graph: Any = None,
    ) -> None:  # fmt: skip
        """One op was run."""
        if graph is not None:
            return
        op = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
        pairs = list(attrs or ())
        named = {_text(k): _plain(v) for k, v in zip(pairs[::2], pairs[1::2], strict=False)}
        given = [self._seen(value) for value in inputs]
        if plain_op(op) in ALIASES and inputs and outputs:
            self._storage[_id(outputs[0])] = self._storage.get(_id(inputs[0]), _id(inputs[0]))
        self.found.append(described_op(op, given, [self._seen(v) for v in outputs], named))

    def _seen(self, value: object) -> TensorSeen | None:
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if shape is None or dtype is None or not shape.is_fully_defined():
            return None
        own = _id(value)
        return tensor_seen(tuple(shape.as_list()), dtype.name, self._storage.get(own, own))


def _id(value: object) -> int:
    return int(getattr(value, "_id", id(value)))


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def eager_ops(run: Callable[[], object]) -> list[Described]:
    """The ops of one eager execution, with tensors and attributes."""
    callbacks = import_module("tensorflow.python.framework.op_callbacks")
    heard = EagerOps()
    callbacks.add_op_callback(heard)
    try:
        run()
    finally:
        callbacks.remove_op_callback(heard)
    return heard.found
