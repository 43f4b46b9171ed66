"""The program once more, under a profiler: some of its steps are marked, then it is ended.

`timeroof run --counters` starts it. Its steps are found as in the clean run: the region begins
where the first measured step of that began.
"""

import _thread
import atexit
import sys

from timeroof_recorder.instruments import FRAMEWORKS, instruments_of
from timeroof_recorder.marks import Marks
from timeroof_recorder.process import Ignoring, after_import, posix, trace_ignored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from torch.profiler import profile

    from timeroof_recorder.instruments import Instruments
    from timeroof_recorder.log import Log

# The range that is marked, and the variable that says how often to do it.
RANGE_NAME = "timeroof"
REPETITIONS = "TIMEROOF_REPETITIONS"
# Mark the steps for a profiler, make them as often as the variable says, or trace them.
COUNT, REPEAT, TRACE = "count", "repeat", "trace"
# The word of the record that says what was seen.
TOLD = "counted"
_ROCTX = ("librocprofiler-sdk-roctx.so", "librocprofiler-sdk-roctx.so.1")


def repetitions() -> int:
    """How often the program should do its region, as whoever counts it asks; 1 if nobody does."""
    import os

    try:
        return max(1, int(os.environ.get(REPETITIONS, "1")))
    except ValueError:
        return 1


class Region:
    """What is counted: cudaProfilerStart and Stop with an NVTX range, or roctx on AMD. Nothing
    happens where no GPU is used. Pending work is waited for, so that none of it is counted on the
    wrong side."""

    def __init__(self, name: str = RANGE_NAME) -> None:
        self._name = name
        self._stop: Callable[[], object] | None = None

    def __enter__(self) -> None:
        """Open the region."""
        torch = sys.modules.get("torch")  # never imported for this
        if torch is None or not torch.cuda.is_available():
            return
        torch.cuda.synchronize()
        start, self._stop = _switches(torch)
        start()
        torch.cuda.nvtx.range_push(self._name)

    def __exit__(self, *_error: object) -> None:
        """Close it, if there is one."""
        stop, self._stop = self._stop, None
        if stop is not None:
            torch = sys.modules["torch"]
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
            stop()


def _switches(torch: "ModuleType") -> "tuple[Callable[[], object], Callable[[], object]]":
    if not getattr(torch.version, "hip", None):
        runtime = torch.cuda.cudart()
        return runtime.cudaProfilerStart, runtime.cudaProfilerStop
    import ctypes

    for name in _ROCTX:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        resume, pause = library.roctxProfilerResume, library.roctxProfilerPause
        return (lambda resume=resume: resume(0)), (lambda pause=pause: pause(0))
    return (lambda: None), (lambda: None)


def watch_counted(log: "Log", plan: dict[str, object]) -> "Watcher | None":
    """Watch this process if it is the program itself: profilers and its children are not."""
    if sys.orig_argv[1:] != plan["command"]:
        return None
    watcher = Watcher(log, plan)
    framework = str(plan["framework"])
    if framework in FRAMEWORKS:
        after_import(framework, lambda: watcher.attach(framework))
    atexit.register(watcher.close)
    return watcher


class Watcher:
    """Counts the steps of the program and opens and closes the region.

    The plan: `what` to do with `steps` steps from the end of step `first` on; `marker`, what marks
    them; `trace`, the file of a trace.
    """

    def __init__(self, log: "Log", plan: dict[str, object]) -> None:
        self._log, self._what, self._trace = log, plan["what"], str(plan["trace"])
        self._first, self._steps = int(str(plan["first"])), int(str(plan["steps"]))
        self.seen, self.opened, self.closed = 0, False, False
        self.error: str | None = None
        self._instruments: Instruments | None = None
        self.marks = Marks(
            str(plan["marker"]), self._boundary, watch=self._watch, will_train=self._will_train
        )
        self._here = (posix.getpid(), _thread.get_ident())
        self._region = Region()
        self._tracing: profile | None = None
        self._is_told = False

    def attach(self, framework: str) -> None:
        """Put the hooks into a framework that was imported."""
        try:
            self._instruments = instruments_of(framework, FRAMEWORKS)
            self._instruments.attach_marks(self.marks)
        except Exception as error:
            self._give_up(error)

    def step(self) -> None:
        """The program says that a step ended."""
        self.marks.manual()

    def _watch(self, roots: frozenset[int] | None) -> None:
        if self._instruments is not None:
            self._instruments.watch(roots)

    def _will_train(self) -> bool:
        return self._instruments is not None and self._instruments.will_train()

    def _boundary(self, _end_ns: int) -> None:
        if (posix.getpid(), _thread.get_ident()) != self._here:
            return
        if self.closed:
            self._insist()
            return
        self.seen += 1
        is_over = False
        try:
            is_over = self._act(self.seen - self._first)
        except Exception as error:
            self._give_up(error)
        if is_over:
            self.close()
            raise SystemExit(0)

    def _insist(self) -> None:
        """The program caught its end and goes on: let it, unless its end is what counts."""
        if self._what == REPEAT:
            posix._exit(0)
        self._detach()

    def _act(self, done: int) -> bool:
        """What the end of a step means, `done` steps into the region; True ends the program."""
        if done == 0:
            self.opened = True
            if self._what == COUNT:
                self._region.__enter__()
            elif self._what == TRACE:
                self._tracing = start_tracing(self._steps, self._trace)
        elif done > 0 and self._tracing is not None:
            self._tracing.step()
        self.closed = done >= self._steps * (repetitions() if self._what == REPEAT else 1)
        return self.closed

    def close(self) -> None:
        """End the region, if it is open, and say what was seen."""
        if self._is_told or posix.getpid() != self._here[0]:
            return
        self._is_told = True
        tracing, self._tracing = self._tracing, None
        with Ignoring("the region was not closed"):
            if tracing is not None:
                tracing.stop()
            self._region.__exit__()
        self._log.write(TOLD, self.seen, self.opened, self.closed, self.error)

    def _give_up(self, error: Exception) -> None:
        """The program must not suffer from us: watch no more, and tell why."""
        trace_ignored("steps are counted no longer")
        self.error = f"{type(error).__name__}: {error}"
        self._detach()

    def _detach(self) -> None:
        with Ignoring("markers stay"):
            if self._instruments is not None:
                self._instruments.detach()


def start_tracing(steps: int, path: str) -> "profile":
    """torch's profiler with the GPU's kernels; of several steps the first warms it up."""
    import warnings

    from torch.profiler import ProfilerActivity, profile, schedule

    def write(done: "profile") -> None:
        done.export_chrome_trace(path)

    warm = 1 if steps > 1 else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = schedule(wait=0, warmup=warm, active=steps - warm, repeat=1)
    tracing = profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=plan,
        record_shapes=True, on_trace_ready=write,
    )  # fmt: skip
    tracing.start()
    return tracing
