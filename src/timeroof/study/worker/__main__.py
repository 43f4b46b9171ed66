"""The worker's process, which dies with its driver and whose output reaches no terminal.

`python -m timeroof.study.worker DRIVER_PID REPLY_FD` measures the cases that it is asked for;
`python -m timeroof.study.worker count ORDER EXECUTIONS` runs one case under a profiler.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec

from timeroof.core.children import tie_to
from timeroof.core.errors import trace_ignored
from timeroof.core.machine import Machine
from timeroof.study.case import Case, Hello, Order, OwnFunction, Plan, Reply, Result, Setup
from timeroof.study.worker.own import PYTHON, Own, OwnError, imported
from timeroof.study.worker.turns import keep_memory

BEAT_S = 2.0
# A framework's worker is a module with a class `Bench(machine)`.
BENCHES = {
    "torch": "timeroof.study.worker.torch_bench",
    "jax": "timeroof.study.worker.jax_bench",
    "tensorflow": "timeroof.study.worker.tf_bench",
    PYTHON: "timeroof.study.worker.python_bench",
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


def bench(framework: str, machine: Machine | None, own: Own | None = None) -> Bench:
    """The worker of a framework, for its own cases or a user's function; an ImportError where the
    framework is not installed."""
    if framework not in BENCHES:
        raise ImportError(f"there is no worker for it, only for {', '.join(BENCHES)}")
    if framework != PYTHON:
        import_module(framework)
    home = import_module(BENCHES[framework])
    made: Bench = home.Bench(machine) if own is None else home.Bench(machine, own)
    return made


def serve(reply: int) -> None:
    """Answer every order until the driver closes the pipe."""
    lines = orders()
    setup = msgspec.json.decode(lines.readline(), type=Setup)
    own: Bench | None = None
    function, hello = None, Hello(framework=setup.framework)
    if setup.own is not None:
        function, hello = met(setup.own)
    if hello.error is None:
        hello, own = ready_bench(hello, setup.machine, function)
    _say(reply, hello)
    if hello.error is not None:
        return
    limit_memory(setup.memory_limit_bytes)
    for line in iter(lines.readline, b""):
        order = msgspec.json.decode(line, type=Order)
        assert own is not None
        for result in own.measure(order.cases, order.plan, _heart(reply)):
            _say(reply, Reply(result=result))


def orders() -> IO[bytes]:
    """The driver's pipe. What runs here and reads its standard input finds it empty."""
    lines = os.fdopen(os.dup(0), "rb")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return lines


def met(given: OwnFunction) -> tuple[Own | None, Hello]:
    """A user's function imported and looked at, or why it cannot be."""
    try:
        function = imported(given)
    except OwnError as error:
        trace_ignored(f"{given.name} is not imported")
        return None, Hello(error=error.what, advice=error.advice)
    return function, function.hello(given.framework)


def ready_bench(
    hello: Hello, machine: Machine | None, function: Own | None
) -> tuple[Hello, Bench | None]:
    """The bench that the first word promises."""
    try:
        return hello, bench(hello.framework, machine, function)
    except ImportError as error:
        name = hello.framework
        return Hello(error=f"{name} cannot be imported ({error})", framework=name), None


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
    from timeroof.study.worker.sampling import overwriter
    from timeroof.study.worker.turns import bind

    order = msgspec.json.decode(order_json, type=Order)
    case = order.cases[0]
    own = bench(case.framework, None, None if order.own is None else imported(order.own))
    own.use_threads(case.threads)
    if order.plan.bind:
        bind(case.threads)
    with own.ready(case) as ready, ready.entrant.setting():
        flush = ready.entrant.flush if case.device == "cpu" else None
        if flush is not None and order.plan.overwrite_bytes is not None:
            flush = overwriter(order.plan.overwrite_bytes, case.threads)
        for _ in range(3):
            ready.run()
        count_executions(ready.run, executions, flush)


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
    keep_memory()
    if sys.argv[1] == "count":
        count(sys.argv[2], int(sys.argv[3]))
    else:
        tie_to(int(sys.argv[1]))
        serve(int(sys.argv[2]))
