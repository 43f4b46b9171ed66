"""TensorFlow as the neutral session sees it: marks, timed and described passes, its graphs, and its
profiler at the level at which every node of a graph is an event.

2.20 and 2.21 ignore the option for it, so the level is set where the profiler looks for it. That
symbol is private: without it only longer ops are seen, and a note says so.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from timeroof_recorder.instruments import EventFile, Instruments, sizes_of
from timeroof_recorder.process import Ignoring, QuietErrors, posix, step_aside, time, wrap
from timeroof_recorder.schedule import Pass
from timeroof_recorder.tensorflow_calls import KERAS_EVALUATES, Calls, Described, Told, alive
from timeroof_recorder.xspace import Waits, busy_ns, count_events

if TYPE_CHECKING:
    from timeroof_recorder.marks import Marks


BEGIN, FINISH = "timeroof#begin", "timeroof#finish"
_LEVEL = "_ZN3tsl8profiler8internal13g_trace_levelE"
_EVERY_NODE = 3
_SUFFIX = ".xplane.pb"


class Profiler:
    """One session of TensorFlow's profiler at a time."""

    def __init__(self) -> None:
        self._native: Any = None
        self._traces: Any = None
        with Ignoring("TensorFlow's profiler is not where it was"):
            home = "tensorflow.python.profiler.internal"
            self._native = import_module(f"{home}._pywrap_profiler")
            self._traces = import_module(f"{home}._pywrap_traceme")
        self._level = _level()
        self._session: Any = None
        self._folder = ""

    @property
    def can_time(self) -> bool:
        """Whether this version's profiler is one that is known."""
        return hasattr(self._native, "ProfilerSession") and hasattr(self._traces, "TraceMe")

    @property
    def sees_all(self) -> bool:
        """Whether every node can be seen."""
        return self._level is not None

    @property
    def is_on(self) -> bool:
        """Whether it records."""
        return self._session is not None

    def start(self, folder: str) -> bool:
        """Begin to record; False where somebody else does."""
        if not self.can_time or self._session is not None:
            return False
        session = self._native.ProfilerSession()
        try:
            with QuietErrors():
                session.start(folder, {})
        except Exception:  # another session is on
            return False
        self._session, self._folder = session, folder
        if self._level is not None:
            self._level.value = _EVERY_NODE
        return True

    def mark(self, name: str) -> None:
        """An event that lasts for a moment."""
        if self._session is not None:
            trace = self._traces.TraceMe(name)
            trace.__enter__() if hasattr(trace, "__enter__") else None
            _stop(trace)

    def stop(self) -> bytes | None:
        """End, and hand over the trace."""
        session, self._session = self._session, None
        if session is None:
            return None
        with QuietErrors(), Ignoring("a trace was not written"):
            session.export_to_tb()
        data = None
        for home, _, files in os.walk(self._folder):
            for name in files:
                if name.endswith(_SUFFIX):
                    with open(os.path.join(home, name), "rb") as file:  # noqa: PTH118, PTH123
                        data = file.read()
        shutil.rmtree(self._folder, ignore_errors=True)
        return data

    def abort(self) -> None:
        """End, and forget it."""
        self.stop()

    def forget(self) -> None:
        """In a forked child: it is the parent's."""
        self._session = None


def _stop(trace: Any) -> None:
    for name in ("Stop", "__exit__"):
        found = getattr(trace, name, None)
        if found is not None:
            found() if name == "Stop" else found(None, None, None)
            return


def _level() -> ctypes.c_int | None:
    """The level of the running profiler; None where this build hides it."""
    home = os.path.dirname(str(sys.modules["tensorflow"].__file__))  # noqa: PTH120
    for name in sorted(os.listdir(home)):  # noqa: PTH208
        if name.startswith("libtensorflow_framework.so"):
            with Ignoring("TensorFlow's profiler does not show its level"):
                library = ctypes.CDLL(os.path.join(home, name))  # noqa: PTH118
                return ctypes.c_int.in_dll(library, _LEVEL)
    return None


def places() -> list[object]:
    """Where the program's own profiler starts and stops."""
    owners: list[object] = [import_module("tensorflow.python.profiler.profiler_v2")]
    with Ignoring("tf.profiler.experimental is not watched"):
        owners.append(sys.modules["tensorflow"].profiler.experimental)
    return owners


# Two small graphs whose events are counted, to know what recording one costs.

# Turns of the loops, and sides of their matrices: a kernel of about a microsecond, and of ten.
TURNS, CLOSE, APART = 60, 8, 96


def chain(side: int) -> Callable[[], None]:
    """Nodes one after the other."""
    tf = sys.modules["tensorflow"]
    given = tf.fill((side, side), 1.0 / side)

    def products(x: Any) -> Any:
        for _ in range(TURNS):
            x = tf.tanh(tf.linalg.matmul(x, given))
        return x

    made = tf.function(products, autograph=False).get_concrete_function(given)

    # Not as a call of the program's.
    call = type(made).__call__
    call = getattr(call, "__wrapped__", call)

    def run() -> None:
        call(made, given)

    return run


# TensorFlow as the neutral session sees it: marks, timed and described passes, its graphs.


_MOST_FUNCTION_BYTES = 50_000_000
# What fit() runs eagerly between its batches.
_FITS_OWN = ("Optional", "__", "Iterator")
UNSEEN_NODES, GRAPHS = "tf-level", "graphs"


class TensorflowInstruments(Instruments, Told):
    """The instruments of TensorFlow."""

    name = "tensorflow"
    own_time_ns = staticmethod(time.process_time_ns)

    def __init__(self) -> None:
        self._tf = sys.modules["tensorflow"]
        self.version = str(self._tf.__version__)
        self._context = import_module("tensorflow.python.eager.context")
        self._marks: Marks | None = None
        self._back: list[Callable[[], None]] = []
        self._calls = Calls(self)
        self._profiler = Profiler()
        self._eager = Described(lambda: self._calls.phase)
        self._is_describing = self._is_foreign = self._trains = self._collects = False
        self._accumulates = False
        self._begin_ns = 0
        ops: Any = import_module("tensorflow.python.framework.ops")
        self._tensor = getattr(ops, "_EagerTensorBase", ())
        self._waits = Waits(self._tensor, self.libraries)
        # Whether ops were seen that a line of the program ran; nodes of a graph bear none.
        self._has_lines = False
        self._described: dict[str, object] | None = None
        self._session_graphs: list[bytes] = []

    @property
    def offers(self) -> frozenset[str]:
        """Graphs need one kind of pass; eager ops and sessions are described in another."""
        return frozenset({Pass.TIMED, Pass.DESCRIBED} if self._profiler.can_time else ())

    @property
    def libraries(self) -> tuple[str, ...]:
        """TensorFlow's and Keras' folders."""
        found = [getattr(sys.modules.get(n), "__file__", None) for n in ("tensorflow", "keras")]
        return tuple(path.rpartition("/")[0] for path in found if isinstance(path, str))

    def is_used(self) -> bool:
        """Whether its runtime was made."""
        context = getattr(self._context, "_context", None)
        return bool(getattr(context, "_initialized", False))

    # Marks.

    def attach(self, marks: Marks) -> None:
        """Follow calls from now on; in a forked child they are followed already."""
        is_there = self._marks is not None
        self._marks = marks
        self._calls.is_on = True
        if is_there:
            return
        self._back += [self._calls_back(self._calls.attach())]
        with Ignoring("graphs are not collected"):
            self._collect()
        with Ignoring("the program's own profiler is not seen"):
            self._back += step_aside(
                places(), "start", "stop", self._foreign_starts, self._foreign_ends
            )

    @staticmethod
    def _calls_back(backs: list[Callable[[], None]]) -> Callable[[], None]:
        def back() -> None:
            while backs:
                backs.pop()()

        return back

    def _collect(self) -> None:
        """Have the runtime keep the graphs that functions become; it is not made for our sake, as
        a program sets its threads and devices before."""

        def made(original: Callable[..., object], context: Any) -> object:
            found = original(context)
            if not self._collects:
                with Ignoring("graphs are not collected"):
                    self._begin_collecting(context._handle)
            return found

        if self.is_used():
            self._begin_collecting(self._context.context()._handle)
            self._keep_functions(self._context.context())
        else:
            self._back.append(wrap(self._context.Context, "ensure_initialized", made))

    def _keep_functions(self, context: Any) -> None:
        """What runs already is not collected any more: keep the functions as they were defined."""
        v1 = self._tf.compat.v1
        kept, size = v1.RunMetadata(), 0
        for name in context.list_function_names():
            definition = context.get_function_def(name)
            size += definition.ByteSize()
            if size > _MOST_FUNCTION_BYTES:
                break
            kept.partition_graphs.add().node.extend(definition.node_def)
        self._keep_graphs(kept.SerializeToString())

    def _begin_collecting(self, handle: Any) -> None:
        native = import_module("tensorflow.python.pywrap_tfe")
        self._collects = True
        native.TFE_ContextEnableGraphCollection(handle)

    def watch(self, roots: frozenset[int] | None) -> None:
        """Where the program marks its steps itself, no call is wanted."""
        self._calls.is_on = roots is None or bool(roots)

    def detach(self) -> None:
        """Leave TensorFlow as it was."""
        self._calls.is_on = False
        while self._back:
            self._back.pop()()
        if self._collects:
            self._collects = False
            with Ignoring("graphs are still collected"):
                self._context.context().disable_graph_collection()

    def called(
        self, key: int, label: str, args: object, *, trains: bool, of: object, every: int = 1,
        is_first: bool = True,
    ) -> None:  # fmt: skip
        """A function is called, or a session runs."""
        marks = self._marks
        if marks is None:
            return
        self._accumulates |= every > 1
        if trains and is_first:
            words = f"{every} calls of {label}" if every > 1 else f"a call of {label}"
            marks.stepped(key, label, alive(of), words)
            self._trains = True
        is_beside = self._trains and label not in KERAS_EVALUATES
        flags = "train grad" if trains else "" if is_beside else "eval"
        sizes = sizes_of(args) if isinstance(args, tuple) else ()
        marks.called(key, label, flags, sizes, alive(of))

    def will_train(self) -> bool:
        """Whether gradients are accumulated: the update comes later."""
        return self._accumulates and not self._trains

    def stepped(self, optimizer: object, words: str | None) -> None:
        """An optimizer has updated variables op by op."""
        if self._marks is not None:
            self._trains = True
            label = words or type(optimizer).__name__
            self._marks.stepped(id(optimizer), label, alive(optimizer), words or f"{label}.apply")

    # The program's own profiler goes first.

    def is_foreign(self) -> bool:
        """Whether the program's own profiler is on."""
        return self._is_foreign

    def _foreign_starts(self) -> None:
        self._is_foreign = True
        self.tell("foreign", None)

    def _foreign_ends(self) -> None:
        self._is_foreign = False

    # Passes.

    def start(self, pass_: str) -> bool:
        """Switch the profiler on, or hear of eager ops; of a block both."""
        if pass_ == Pass.DESCRIBED:
            self._start_describing()
            return True
        if not self._profiler.start(self.file_for("tensorflow", "")):
            return False
        if not self._profiler.sees_all:
            self.tell("undescribed", UNSEEN_NODES)
        if pass_ == "block":
            self._start_describing()
        self._calls.spans = []
        self._waits.start(((self._tensor, "numpy"), (self._tensor, "_numpy")))
        self._profiler.mark(BEGIN)
        self._begin_ns = time.perf_counter_ns()
        return True

    def _start_describing(self) -> None:
        self._is_describing = True
        self._session_graphs = []
        self._calls.metadata = self._session_ran
        self._eager.start()

    def _session_ran(self, metadata: Any) -> None:
        self._session_graphs.append(metadata.SerializeToString())

    def _stop_describing(self) -> list[tuple[object, ...]]:
        self._is_describing = False
        self._calls.metadata = None
        for data in self._session_graphs:
            self._keep_graphs(data)
        self._session_graphs = []
        ops = self._eager.stop()
        self._has_lines |= any(op[-1] and not str(op[0]).startswith(_FITS_OWN) for op in ops)
        return ops

    def bound(self, *, begins: bool) -> None:
        """Mark where the block begins or ends."""
        self._profiler.mark(BEGIN if begins else FINISH)
        self._begin_ns = time.perf_counter_ns() if begins else self._begin_ns

    def stop(self, pass_: str) -> EventFile | None:
        """Switch it off; a trace, with the graphs that are new."""
        if pass_ == Pass.DESCRIBED:
            ops = self._stop_describing()
            self._described = {"eager": ops}
            return None
        self._profiler.mark(FINISH)
        finish_ns = time.perf_counter_ns()
        more: dict[str, object] = {}
        if self._is_describing:
            more["eager"] = self._stop_describing()
        data = self._profiler.stop()
        waits = [(start - self._begin_ns, *told) for start, *told in self._waits.stop()]
        if data is None:
            return None
        spans = [(start - self._begin_ns, length) for start, length in self._calls.spans]

        def keep() -> dict[str, object]:
            path = self.file_for("xplane", ".pb")
            with open(path, "wb") as file:  # noqa: PTH123
                file.write(data)
            self._new_graphs()
            return {"file": path, "compile": spans, "waits": waits, **more}

        return EventFile(count_events(data), self._begin_ns, finish_ns, keep, lambda: busy_ns(data))

    def _new_graphs(self) -> None:
        """Keep the graphs that were made since the last time."""
        with Ignoring("graphs were not kept"):
            if self._collects:
                self._keep_graphs(_run_metadata(self._context.context()._handle))

    def _keep_graphs(self, data: bytes) -> None:
        if data:
            with open(self.file_for(GRAPHS, ".pb"), "wb") as file:  # noqa: PTH123
                file.write(data)

    def abort(self) -> None:
        """Switch off whatever is on, and forget it."""
        if self._is_describing:
            self._stop_describing()
        self._waits.stop()
        self._profiler.abort()
        self._described = None

    def describe(self) -> dict[str, object] | None:
        """The eager ops of the step, and graphs."""
        described, self._described = self._described, None
        return described

    def surroundings(self) -> dict[str, object]:
        """Threads and devices."""
        found: dict[str, object] = {"devices": [], "with_lines": self._has_lines}
        threads = self._tf.config.threading.get_intra_op_parallelism_threads()
        found["threads"] = threads or len(posix.sched_getaffinity(0))
        if self.is_used():
            devices = self._tf.config.list_logical_devices()
            kinds = {str(device.device_type).lower() for device in devices} - {"cpu", "xla_cpu"}
            found["devices"] = sorted("cuda" if kind == "gpu" else kind for kind in kinds)
        return found

    def small_programs(self) -> tuple[Callable[[], None], Callable[[], None]] | None:
        """Chains of small nodes; none in a program of TensorFlow 1, whose graph is its own."""
        if not self.is_used() or not self._tf.executing_eagerly():
            return None
        return chain(CLOSE), chain(APART)

    def forked(self) -> None:
        """TensorFlow's threads are the parent's: nothing of it is touched here."""
        self._profiler.forget()
        self._waits.stop()
        self._is_describing = False


def _run_metadata(handle: Any) -> bytes:
    """What the runtime has collected since the last time, as it is on the wire."""
    native = import_module("tensorflow.python.pywrap_tfe")
    buffers = import_module("tensorflow.python.framework.c_api_util")
    session = import_module("tensorflow.python.client.pywrap_tf_session")
    with buffers.tf_buffer() as buffer:
        native.TFE_ContextExportRunMetadata(handle, buffer)
        found: bytes = session.TF_GetBuffer(buffer)
    return found


def make() -> Instruments:
    """The instruments of TensorFlow, which has been imported."""
    return TensorflowInstruments()
