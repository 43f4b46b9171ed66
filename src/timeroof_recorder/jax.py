"""JAX as the neutral session sees it: marks, timed passes, waiting for what was dispatched."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from timeroof_recorder.instruments import EventFile, Instruments, sizes_of
from timeroof_recorder.jax_calls import Defined, Proxy, Watch, watch_functions
from timeroof_recorder.marks import Marks
from timeroof_recorder.process import Ignoring, after_import, posix, step_aside, time, wrap
from timeroof_recorder.schedule import Pass
from timeroof_recorder.xspace import Waits, busy_ns, count_events

if TYPE_CHECKING:
    from types import ModuleType


BEGIN, FINISH = "timeroof#begin", "timeroof#finish"
_COMPILING = "/jax/core/compile/"
_COMPILED = "/jax/core/compile/backend_compile_duration"
# Compilations of one pass that are kept one by one.
_MOST_SPANS = 10_000


class JaxInstruments(Instruments):
    """The instruments of JAX."""

    name = "jax"
    is_asynchronous = True
    own_time_ns = staticmethod(time.process_time_ns)

    def __init__(self) -> None:
        self._jax: ModuleType = sys.modules["jax"]
        self.version = str(self._jax.__version__)
        core = sys.modules["jax._src.core"]
        self._offers = frozenset({Pass.TIMED} if _profiler() is not None else ())
        self._watch = Watch(core.trace_state_clean)
        self._marks: Marks | None = None
        self._back: list[Callable[[], None]] = []
        self._session: Any = None
        self._result: object = None
        self._begin_ns = 0
        self._is_foreign = self._trains = self._accumulates = self._has_called = False
        # Compilations so far, when the pass began, and when a kept trace last had the programs.
        self._compiled, self._compiled_before, self._compiled_told = 1, 1, 0
        self._spans: list[tuple[int, int]] = []
        self._defined = Defined()
        self._block_until_ready = self._jax.block_until_ready
        self._array: Any = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", ())
        self._waits = Waits(self._array, self.libraries)

    @property
    def offers(self) -> frozenset[str]:
        """One kind of pass: what a program computes is known from the compiled program."""
        return self._offers

    @property
    def libraries(self) -> tuple[str, ...]:
        """JAX's folders: whoever is inside may hold the locks that waiting for arrays needs."""
        found = [getattr(sys.modules.get(n), "__file__", None) for n in ("jax", "jaxlib")]
        return tuple(path.rpartition("/")[0] for path in found if isinstance(path, str))

    def is_used(self) -> bool:
        """Whether a back end was made: TensorFlow imports JAX and computes nothing with it."""
        bridge: Any = sys.modules.get("jax._src.xla_bridge")
        return bool(getattr(bridge, "_backends", None))

    # Marks.

    def attach(self, marks: Marks) -> None:
        """Proxies for what is compiled from now on; in a forked child they are there already."""
        is_there = self._marks is not None
        self._marks = marks
        if is_there:
            return
        self._watch.called, self._watch.returned = self._called, self._returned
        self._watch.is_on = True
        self._back.append(watch_functions(self._jax, self._watch))
        with Ignoring("functions compiled ahead of time are not watched"):
            stages = sys.modules["jax._src.stages"]
            self._back.append(wrap(stages.Compiled, "__call__", self._compiled_call))
        with Ignoring("compilations are not counted"):
            self._back.append(_listen(self._has_compiled))
        with Ignoring("what functions define is not known"):
            lowering: Any = sys.modules["jax._src.interpreters.mlir"]
            self._back.append(wrap(lowering, "lower_jaxpr_to_module", self._lowered))
        self._back.append(after_import("optax", self._watch_updates))
        with Ignoring("the program's own profiler is not seen"):
            owners = (self._jax.profiler, sys.modules["jax._src.profiler"])
            self._back += step_aside(
                owners, "start_trace", "stop_trace", self._foreign_starts, self._foreign_ends
            )

    def _lowered(self, original: Callable[..., object], *args: Any, **kwargs: object) -> object:
        found = original(*args, **kwargs)
        with Ignoring("what a function defines is not known"):
            running = self._watch.running
            is_whole = running is not None and running.is_compiled
            self._defined.lowered(str(args[0]), args[1].jaxpr, is_whole=is_whole)
        return found

    def _watch_updates(self) -> None:
        """Whoever traces an update of parameters trains, without a gradient of its own."""

        def updated(original: Callable[..., object], *args: object, **kwargs: object) -> object:
            if self._watch.running is not None:
                self._watch.running.trains = True
            return original(*args, **kwargs)

        with Ignoring("updates of parameters are not watched"):
            for owner in (sys.modules["optax"], sys.modules.get("optax._src.update")):
                if owner is not None:
                    self._back.append(wrap(owner, "apply_updates", updated))
        with Ignoring("accumulated gradients are not watched"):
            self._back.append(wrap(sys.modules["optax"].MultiSteps, "update", self._accumulated))

    def _accumulated(
        self, original: Callable[..., object], steps: Any, *args: object, **kwargs: object
    ) -> object:
        """Whoever traces `optax.MultiSteps` updates parameters in one of so many calls."""
        if self._watch.running is not None:
            with Ignoring("how many gradients are accumulated is not known"):
                self._watch.running.every = _every(steps._every_k_schedule)
        return original(steps, *args, **kwargs)

    def will_train(self) -> bool:
        """Whether gradients are accumulated: the update comes later."""
        return self._accumulates and not self._trains

    def watch(self, roots: frozenset[int] | None) -> None:
        """From now on calls of these functions are wanted; others tell kinds of steps apart. Where
        the program marks its steps itself, none are."""
        self._watch.is_on = roots is None or bool(roots)

    def detach(self) -> None:
        """Leave JAX as it was; proxies that the program holds tell nobody any more."""
        self._watch.is_on = False
        self._result = None
        while self._back:
            self._back.pop()()

    def _called(self, proxy: Proxy, args: tuple[object, ...]) -> None:
        label = str(getattr(proxy, "__name__", "a function"))
        # The first of the calls that make one update begins a step.
        is_first = proxy.calls % proxy.every == 0
        proxy.calls += 1
        self._accumulates |= proxy.every > 1
        trains = proxy.trains and is_first
        words = f"{proxy.every} calls of {label}" if proxy.every > 1 else f"a call of {label}"
        flags = "train grad" if proxy.trains else None
        self._told(proxy.lines or proxy, proxy.key, label, args, words if trains else None, flags)
        # What it returned may be given away with this call.
        self._result = None

    def _told(
        self, function: object, key: int, label: str, args: tuple[object, ...],
        ends: str | None = None, flags: str | None = None,
    ) -> None:  # fmt: skip
        """A call of a function that differentiates or updates ends a step as an optimizer does;
        whether it does is known when it has been traced. `ends` are the words for what does."""
        marks = self._marks
        self._has_called = True
        if marks is None:
            return
        known = weakref.ref(function)
        if ends is not None:
            marks.stepped(key, label, lambda: known() is not None, ends)
            self._trains = True
        # Beside training it may evaluate, prepare data, or be a part of a step.
        flags = flags or ("" if self._trains else "eval")
        marks.called(key, label, flags, sizes_of(args), lambda: known() is not None)

    def _returned(self, result: object) -> None:
        self._result = result

    def _compiled_call(
        self, original: Callable[..., object], compiled: object, *args: object, **kwargs: object
    ) -> object:
        """A function compiled ahead of time is its own key."""
        watch = self._watch
        if not watch.is_on or watch.running is not None or not watch.is_clean():
            return original(compiled, *args, **kwargs)
        with Ignoring("a call was not seen"):
            self._told(compiled, id(compiled), "a compiled function", args)
        self._result = None
        self._result = result = original(compiled, *args, **kwargs)
        return result

    def sync(self) -> bool:
        """Wait for what was dispatched; an error of it is the program's to meet."""
        result, self._result = self._result, None
        if result is None:
            if self._watch.is_on and self._has_called:
                return False
            if not self.is_used():  # asking for arrays would make a back end
                return False
            # No function of the program's is known: whatever there is.
            result = self._jax.live_arrays()
        try:
            self._block_until_ready(result)
        except Exception:  # given away, or it failed
            return True
        return True

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
        """Switch JAX's profiler on, without its tracer of Python."""
        profiler = _profiler()
        if profiler is None or self._session is not None:
            return False
        self.sync()
        options = self._jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        options.host_tracer_level = 2
        # Every compiled program comes with every session: once is enough.
        options.enable_hlo_proto = self._compiled != self._compiled_told
        self._spans, self._compiled_before = [], self._compiled
        self._session = profiler.ProfilerSession(options)
        api = sys.modules["jax._src.api"]
        waits = (self._jax, "block_until_ready"), (api, "block_until_ready")
        arrays = (self._array, "_value"), (self._array, "block_until_ready")
        self._waits.start((*waits, *arrays))
        with profiler.TraceMe(BEGIN):
            self._begin_ns = time.perf_counter_ns()
        return True

    def stop(self, pass_: str) -> EventFile | None:
        """Switch it off, and put what it saw into a file."""
        session, self._session = self._session, None
        profiler = _profiler()
        if session is None or profiler is None:
            return None
        if pass_ == "block":
            self.sync()
        with profiler.TraceMe(FINISH):
            finish_ns = time.perf_counter_ns()
        data = session.stop()
        waits = [(start - self._begin_ns, *more) for start, *more in self._waits.stop()]
        compiled = self._compiled_before
        spans = [(start - self._begin_ns, length) for start, length in self._spans]

        def keep() -> dict[str, object]:
            path = self.file_for("xplane", ".pb")
            with open(path, "wb") as file:  # noqa: PTH123
                file.write(data)
            self._compiled_told = compiled
            defined = {"defined": self._defined.take(), "eager": self._defined.eager}
            return {"file": path, "compile": spans, "waits": waits, **defined}

        count = count_events(data)
        return EventFile(count, self._begin_ns, finish_ns, keep, lambda: busy_ns(data))

    def bound(self, *, begins: bool) -> None:
        """Mark where the block begins or ends."""
        profiler = _profiler()
        if self._session is not None and profiler is not None:
            self.sync()
            with profiler.TraceMe(BEGIN if begins else FINISH):
                self._begin_ns = time.perf_counter_ns() if begins else self._begin_ns

    def abort(self) -> None:
        """Switch it off, and forget it."""
        session, self._session = self._session, None
        self._waits.stop()
        if session is not None:
            session.stop()

    def _has_compiled(self, event: str, seconds: float, **_more: object) -> None:
        if not event.startswith(_COMPILING):
            return
        self._compiled += event == _COMPILED
        if self._session is not None and len(self._spans) < _MOST_SPANS:
            length = int(seconds * 1e9)
            self._spans.append((time.perf_counter_ns() - length, length))

    def surroundings(self) -> dict[str, object]:
        """Threads and devices, and this process's place among several."""
        found: dict[str, object] = {"threads": _threads(), "devices": [], "with_lines": True}
        if self.is_used():
            devices = self._jax.devices()
            found["devices"] = sorted({str(device.platform) for device in devices} - {"cpu"})
            if self._jax.process_count() > 1:
                found["rank"], found["world"] = self._jax.process_index(), self._jax.process_count()
        return found

    def small_programs(self) -> tuple[Callable[[], None], Callable[[], None]] | None:
        """Loops of small kernels, compiled once."""
        if not self._watch.is_clean():
            return None
        return _loop(self._jax, _CLOSE), _loop(self._jax, _APART)

    def forked(self) -> None:
        """JAX's threads are the parent's: nothing of it is touched here."""
        self._session = self._result = None
        self._waits.stop()


def _every(schedule: Any) -> int:
    """How many calls make an update, where that is a number that never changes."""
    if not str(getattr(schedule, "__module__", "")).startswith("optax"):
        return 1
    values = [cell.cell_contents for cell in schedule.__closure__ or ()]
    return next((value for value in values if isinstance(value, int) and value > 0), 1)


def _profiler() -> Any:
    """jaxlib's own profiler; None where a version has none that gives bytes."""
    found = sys.modules.get("jaxlib._profiler")
    has_all = all(hasattr(found, name) for name in ("ProfilerSession", "TraceMe"))
    return found if has_all else None


def _threads() -> int:
    flags = posix.environ.get(b"XLA_FLAGS", b"")
    if b"--xla_cpu_multi_thread_eigen=false" in flags:
        return 1
    return len(posix.sched_getaffinity(0))


def _listen(told: Callable[..., None]) -> Callable[[], None]:
    monitoring = sys.modules["jax._src.monitoring"]
    monitoring.register_event_duration_secs_listener(told)

    def back() -> None:
        with Ignoring("a listener was not taken away"):
            monitoring.unregister_event_duration_listener(told)

    return back


# Two small compiled loops whose events are counted, to know what recording one costs.

# Turns of the loops, and sides of their matrices: a kernel of about a microsecond, and of ten.
_TURNS, _CLOSE, _APART = 100, 16, 96


def _loop(jax: Any, side: int) -> Callable[[], None]:
    """A compiled loop of products and sums; it leaves nothing in the program's own cache."""
    import numpy as np  # JAX has it loaded

    config = sys.modules["jax._src.config"]
    api = sys.modules["jax._src.api"]
    lax = jax.lax
    value = np.full((side, side), 1 / side, np.float32)

    def turn(_: object, y: Any) -> Any:
        z = lax.dot(y, y)
        return lax.sort(z, dimension=0) + y

    with config.enable_compilation_cache(False):
        program = api.jit(lambda x: lax.fori_loop(0, _TURNS, turn, x)).lower(value).compile()
    stages = sys.modules["jax._src.stages"]
    call = stages.Compiled.__call__
    call = getattr(call, "__wrapped__", call)
    given = jax.device_put(value)

    def run() -> None:
        jax.block_until_ready(call(program, given))

    return run


def make() -> Instruments:
    """The instruments of JAX, which has been imported."""
    return JaxInstruments()
