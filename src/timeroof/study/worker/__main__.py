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
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import msgspec

from timeroof.core.machine import Machine
from timeroof.study.case import Case, Hello, Order, Plan, Result, Setup

_PR_SET_PDEATHSIG = 1
# A framework's worker is a module with a class `Bench(machine)`.
BENCHES = {"torch": "timeroof.study.worker.torch_bench"}


class Bench(Protocol):
    """What a framework's worker does."""

    def measure(self, case: Case, plan: Plan) -> Result:
        """Measure a case; whatever the framework refuses is a result too."""
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
        _say(reply, own.measure(order.case, order.plan))


def _say(reply: int, message: msgspec.Struct) -> None:
    data = msgspec.json.encode(message) + b"\n"
    while data:
        data = data[os.write(reply, data) :]


def count(order_json: str, executions: int) -> None:
    """Make the case ready, warm it up, and run it inside the counted region."""
    from timeroof.study.counters import count_executions

    case = msgspec.json.decode(order_json, type=Order).case
    with bench(case.framework, None).ready(case) as ready:
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
