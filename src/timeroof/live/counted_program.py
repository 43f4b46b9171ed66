"""The program once more, in a process of its own: some steps are marked, then it is ended.

`timeroof run --counters` starts this under a profiler. The steps are found as in the clean run:
the region begins where the first measured step of that began.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from timeroof.core.errors import ignoring, trace_ignored
from timeroof.counters.collect import counted_region, repetitions
from timeroof.live.torch.program import Program, run_program
from timeroof_recorder import activate
from timeroof_recorder.marks import Marks as StepMarks
from timeroof_recorder.process import after_import

if TYPE_CHECKING:
    from torch.profiler import profile

    from timeroof_recorder.torch.session_instruments import TorchInstruments


class CountedPlan(msgspec.Struct, kw_only=True, frozen=True):
    """What to do with which steps of which program. "count" marks the region for a profiler,
    "repeat" lets the program make its steps once or twice (as TIMEROOF_REPETITIONS says), "trace"
    records them with torch's profiler."""

    what: Literal["count", "repeat", "trace"]
    target: str
    arguments: list[str]
    is_module: bool
    marker: str
    # Ends of steps before the region begins, and how many steps it has.
    first: int
    steps: int
    # Where to tell what was seen, and where a trace goes.
    marks: str
    trace: str = ""


class Marks(msgspec.Struct, kw_only=True):
    """What was seen of the program."""

    steps: int = 0
    opened: bool = False
    closed: bool = False
    error: str | None = None


class EnoughError(BaseException):
    """All steps were seen; not an Exception, so that programs do not take it for their own."""


class Watcher:
    """Counts the steps of the program and opens and closes the region."""

    def __init__(self, plan: CountedPlan) -> None:
        self.plan, self.seen = plan, Marks()
        self._instruments: TorchInstruments | None = None
        self.markers = StepMarks(
            plan.marker, self._boundary, watch=self._watch, will_train=self._will_train
        )
        self._pid, self._thread = os.getpid(), threading.get_ident()
        self._open = ExitStack()
        self._tracing: profile | None = None

    def attach(self) -> None:
        """Put the hooks into torch."""
        with self._guard():
            from timeroof_recorder.torch.session_instruments import TorchInstruments

            self._instruments = TorchInstruments()
            self._instruments.attach_marks(self.markers)

    def _watch(self, roots: frozenset[int] | None) -> None:
        if self._instruments is not None:
            self._instruments.watch(roots)

    def _will_train(self) -> bool:
        return self._instruments is not None and self._instruments.will_train()

    def _detach(self) -> None:
        if self._instruments is not None:
            self._instruments.detach()

    def step(self) -> None:
        """The program says that a step ended."""
        self.markers.manual()

    def _boundary(self, _end_ns: int) -> None:
        if (os.getpid(), threading.get_ident()) != (self._pid, self._thread):
            return
        if self.seen.closed:
            self._insist()
            return
        self.seen.steps += 1
        over = False
        with self._guard():
            over = self._act(self.seen.steps - self.plan.first)
        if over:
            self.close()
            raise EnoughError

    def _insist(self) -> None:
        """The program caught our exception and goes on: let it, unless its end is what counts."""
        if self.plan.what == "repeat":
            os._exit(0)
        self._detach()

    def _act(self, done: int) -> bool:
        """What the end of a step means, `done` steps into the region; True ends the program."""
        steps = self.plan.steps * (repetitions() if self.plan.what == "repeat" else 1)
        if done == 0:
            self.seen.opened = True
            if self.plan.what == "count":
                self._open.enter_context(counted_region())
            elif self.plan.what == "trace":
                self._tracing = start_tracing(self.plan.steps, self.plan.trace)
        elif done > 0 and self._tracing is not None:
            self._tracing.step()
        self.seen.closed = done >= steps
        return self.seen.closed

    def close(self) -> None:
        """End the region, if it is open."""
        tracing, self._tracing = self._tracing, None
        with ignoring("the region was not closed"):
            if tracing is not None:
                tracing.stop()
            self._open.close()
        with suppress(OSError):
            Path(self.plan.marks).write_bytes(msgspec.json.encode(self.seen))

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """The program must not suffer from us: watch no more, and tell why."""
        try:
            yield
        except Exception as error:
            trace_ignored("steps are counted no longer")
            self.seen.error = f"{type(error).__name__}: {error}"
            with ignoring("markers stay"):
                self._detach()


def start_tracing(steps: int, path: str) -> profile:
    """torch's profiler with the GPU's kernels; of several steps the first warms it up."""
    from torch.profiler import ProfilerActivity, profile, schedule

    def write(done: profile) -> None:
        done.export_chrome_trace(path)

    warm = 1 if steps > 1 else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = schedule(wait=0, warmup=warm, active=steps - warm, repeat=1)
    tracing = profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=plan,
        record_shapes=True,
        on_trace_ready=write,
    )
    tracing.start()
    return tracing


def main(arguments: list[str]) -> int:
    """Run the program of a plan (a JSON file) until its steps are done; returns its exit code."""
    plan = msgspec.convert(json.loads(Path(arguments[0]).read_text("ascii")), CountedPlan)
    execute = Program(plan.target, tuple(plan.arguments), is_module=plan.is_module).prepare()
    watcher = Watcher(plan)
    activate(watcher)  # type: ignore[arg-type]
    after_import("torch", watcher.attach)

    def until_enough() -> None:
        with suppress(EnoughError):
            execute()

    try:
        return run_program(until_enough).code
    finally:
        watcher.close()


# Started as `python -c START root plan-file`: a program of the user's, with its environment. The
# folder of this package takes the place of the working folder on the path, whose files must not
# stand in for modules of ours; the program then has what plain Python would give it.
START = (
    "import sys; root = sys.argv.pop(1);"
    " sys.path[: 0 if sys.flags.safe_path else 1] = [root];"
    " sys.path.append(root) if root not in sys.path[1:] else None;"
    " from timeroof.core.import_path import leave_folder; leave_folder(1);"
    " from timeroof.live.counted_program import main;"
    " sys.exit(main(sys.argv[1:]))"
)


def command_for(plan: CountedPlan, place: Path) -> list[str]:
    """The command line that runs a plan, which is written to a file."""
    # As ASCII: arguments may hold bytes that are no UTF-8.
    place.write_text(json.dumps(msgspec.to_builtins(plan)), "ascii")
    root = str(Path(__file__).resolve().parents[2])
    return [sys.executable, "-c", START, root, str(place)]
