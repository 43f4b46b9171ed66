"""The worker's process, which dies with its driver and whose output reaches no terminal.

`python -m timeroof.study.worker DRIVER_PID REPLY_FD` measures the cases that it is asked for;
`python -m timeroof.study.worker count ORDER EXECUTIONS` runs one case under a profiler.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import msgspec

from timeroof.core.machine import Machine
from timeroof.study.case import Case, Hello, Order, Plan, Reply, Result, Setup

_PR_SET_PDEATHSIG = 1
BEAT_S = 2.0
# A framework's worker is a module with a class `Bench(machine)`.
BENCHES = {
    "torch": "timeroof.study.worker.torch_bench",
    "jax": "timeroof.study.worker.jax_bench",
}


class Bench(Protocol):
    """What a framework's worker does."""

    def measure(
        self, cases: Sequence[Case], plan: Plan, beat: Callable[[], None]
    ) -> Iterator[Result]:
        """Measure cases in turns, and hand over a result of each in their order; whatever the
        framework refuses is a result too. `beat` says that the worker is still at work."""
        ...

    def use_threads(self, count: int) -> None:
        """Run what follows on so many threads."""
        ...

    def ready(self, case: Case) -> AbstractContextManager[Any]:
        """A case made ready, with a `run` for one execution."""
        ...


def bench(framework: str, machine: Machine | None) -> Bench:
    """The worker of a framework; an ImportError where it is not installed."""
    import_module(framework)
    made: Bench = import_module(BENCHES[framework]).Bench(machine)
    return made


def serve(reply: int) -> None:
    """Answer every order until the driver closes the pipe."""
    lines = sys.stdin.buffer
    setup = msgspec.json.decode(lines.readline(), type=Setup)
    try:
        own = bench(setup.framework, setup.machine)
    except ImportError as error:
        _say(reply, Hello(error=f"{setup.framework} cannot be imported ({error})"))
        return
    limit_memory(setup.memory_limit_bytes)
    _say(reply, Hello())
    for line in iter(lines.readline, b""):
        order = msgspec.json.decode(line, type=Order)
        for result in own.measure(order.cases, order.plan, _heart(reply)):
            _say(reply, Reply(result=result))


def _heart(reply: int) -> Callable[[], None]:
    """Signs of life, one in `BEAT_S` at most: each of them wakes the driver."""
    last_s = time.monotonic()

    def beat() -> None:
        nonlocal last_s
        if time.monotonic() - last_s > BEAT_S:
            last_s = time.monotonic()
            _say(reply, Reply())

    return beat


def _say(reply: int, message: msgspec.Struct) -> None:
    data = msgspec.json.encode(message) + b"\n"
    while data:
        data = data[os.write(reply, data) :]


def count(order_json: str, executions: int) -> None:
    """Make the case ready, warm it up, and run it inside the counted region."""
    from timeroof.study.counters import count_executions

    case = msgspec.json.decode(order_json, type=Order).cases[0]
    own = bench(case.framework, None)
    own.use_threads(case.threads)
    with own.ready(case) as ready, ready.entrant.setting():
        for _ in range(3):
            ready.run()
        count_executions(ready.run, executions)


def tie_to(driver: int) -> None:
    """Die with the driver: by the kernel's hand on Linux, else at the end of its pipe."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != driver:  # it died before we asked
        os._exit(1)
    # Ctrl-C reaches the whole process group; the driver decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Where memory runs out, the kernel should take this process, not the driver.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def limit_memory(more_bytes: int | None) -> None:
    """Make a too large allocation fail here instead of bringing the machine to its knees. Beyond
    the address space in use already: libraries reserve much that they never touch."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        if more_bytes is not None:
            limit = pages * resource.getpagesize() + more_bytes
            resource.setrlimit(
                resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1])
            )


if __name__ == "__main__":
    if sys.argv[1] == "count":
        count(sys.argv[2], int(sys.argv[3]))
    else:
        tie_to(int(sys.argv[1]))
        serve(int(sys.argv[2]))
