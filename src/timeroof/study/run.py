"""The study itself: cases that the store does not have are measured, one transaction each."""

from __future__ import annotations

import os
import platform
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import msgspec

from timeroof.core.children import Child, end_group
from timeroof.core.errors import UsageError
from timeroof.core.machine import Machine
from timeroof.probe.measure import fingerprint
from timeroof.study.case import Case, Hello, Order, OwnFunction, Plan, Reply, Result, Setup
from timeroof.study.grid import turns
from timeroof.study.report import case_name
from timeroof.study.store import Kept, Store
from timeroof.study.worker.own import PYTHON

START_LIMIT_S = 180.0
_ENVIRONMENT = {
    # Read by oneDNN when it first runs: its lines then tell when a primitive ran.
    "ONEDNN_VERBOSE_TIMESTAMP": "1",
    # Compilers in processes of their own would outlive a worker that is killed.
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
}
# Of the memory that is free when a worker starts, so much may be asked for.
MEMORY_SHARE = 0.9


@dataclass(frozen=True)
class Place:
    """Where cases run: the machine and the software that make a case the same case."""

    machine: Machine | None
    machine_key: str
    software: str
    # The software of every framework, where a study has several.
    by_framework: Mapping[str, str] = field(default_factory=dict)
    # The user's functions among the kernels, by name.
    own: Mapping[str, OwnFunction] = field(default_factory=dict)

    @classmethod
    def here(cls, machine: Machine | None, *frameworks: str) -> Place:
        """This machine: its hardware, the frameworks and what counts the work."""
        from timeroof.probe.cpu.ir import host_cpu_name
        from timeroof.probe.cpu.topology import read_topology, total_memory
        from timeroof.probe.measure import hardware

        shape = hardware(read_topology(), host_cpu_name(), total_memory())
        name = f"{shape['model'] or shape['cpu']} {fingerprint(shape)}"
        found = {f: f"{f} {version}" for f in frameworks if (version := version_of(f))}
        missing = [f for f in frameworks if f not in found]
        if not found and missing:
            advice = f"install it: pip install {missing[0]}"
            raise UsageError(f"{missing[0]} is not installed", advice=advice)
        return cls(machine, name, next(iter(found.values()), ""), found)

    def key(self, case: Case) -> str:
        """The key of a case that runs here."""
        return case.key(self.machine_key, self.software_of(case))

    def software_of(self, case: Case) -> str:
        """The framework, with its version, that runs a case; of a user's function, its file too."""
        framework = self.by_framework.get(case.framework, self.software)
        own = self.own.get(case.kernel)
        return framework if own is None else f"{framework}, {own.name} {own.digest}"


# Under which names a framework is installed.
# What to install where it is not the framework's own name.
PACKAGES = {"tensorflow": "tensorflow-cpu keras"}
_DISTRIBUTIONS = {"tensorflow": ("tensorflow", "tensorflow-cpu")}


def version_of(framework: str) -> str | None:
    """The version of a framework; None where it is not installed. Nothing is imported.

    >>> version_of("no-such-framework") is None
    True
    """
    if framework == PYTHON:
        return platform.python_version()
    for name in _DISTRIBUTIONS.get(framework, (framework,)):
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return None


class Done(NamedTuple):
    """What a run did: cases in the asked order, and how many of them were there before."""

    results: list[Result]
    found: int


def check_store(store: Store, keys: Sequence[str], *, resume: bool) -> None:
    """Refuse to go on in a store that has some of these cases, unless that is asked for."""
    there = set(keys) & set(store.finished())
    if there and not resume:
        raise UsageError(
            f"{store.path} has {len(there)} of these {len(keys)} cases already",
            advice="--resume measures the rest and uses them; --fresh keeps that file under another"
            " name and measures all; --db names another file",
        )


def run_cases(
    cases: Sequence[Case], store: Store, place: Place, plan: Plan, told: Callable[[str], None],
    counting: Callable[[Result], Result] | None = None,
    own: Mapping[str, Measures] | None = None,
) -> Done:  # fmt: skip
    """Measure what is not finished, and what failed once more; `told` hears of every case. `own`
    measures the cases of users' functions, by name."""
    keys = {place.key(case): case for case in cases}
    over = {key for key, status in store.finished().items() if status != "failed"}
    with ExitStack() as stack:
        workers: dict[tuple[str, str], Worker] = {}
        theirs = own or {}
        for case in (case for key, case in keys.items() if key in over):
            told(case_name(case))
        for turn in turns(case for key, case in keys.items() if key not in over):
            where = (turn[0].framework, turn[0].device)
            if turn[0].kernel not in theirs and where not in workers:
                workers[where] = Worker(place.machine, *where)
                stack.callback(workers[where].stop)
            worker = theirs.get(turn[0].kernel) or workers[where]
            # The key is that of the case as it was asked for: beside others it runs on one thread.
            for case, result in zip(turn, worker.measured(turn, plan), strict=True):
                counts = counting is not None and result.status == "done"
                kept = counting(result) if counting is not None and counts else result
                on = {"machine": place.machine_key, "software": place.software_of(case)}
                store.keep(Kept(case_key=place.key(case), result=kept, **on))
                told(case_name(case))
    return Done([kept.result for kept in store.read(keys)], len(over & set(keys)))


class Measures(Protocol):
    """What measures cases: a process, or this one."""

    def measured(self, cases: Sequence[Case], plan: Plan) -> Iterator[Result]:
        """Have cases measured in turns, a result of each in their order."""
        ...


def _counted_on(machine: Machine | None) -> Machine | None:
    """A machine without what counting does not look at."""
    return None if machine is None else msgspec.structs.replace(machine, software={}, notes=[])


class _GoneError(Exception):
    """The worker ended or hung; the message says how."""


def _ran_out(result: Result) -> bool:
    return result.status == "failed" and (result.error or "").startswith("out of memory")


class Worker:
    """A process that measures cases of one framework; started anew after every failure."""

    def __init__(
        self, machine: Machine | None, framework: str = "torch", device: str = "cpu",
        own: OwnFunction | None = None,
    ) -> None:  # fmt: skip
        self._setup = Setup(
            framework=framework,
            own=own,
            machine=machine,
            memory_limit_bytes=free_memory_bytes() if device == "cpu" else None,
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._reply = -1
        self._rest = b""
        self._errors: IO[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    def judge_on(self, machine: Machine | None) -> None:
        """Count for a machine's caches and units: a process that knows another one starts anew."""
        before, self._setup.machine = self._setup.machine, machine
        if _counted_on(before) != _counted_on(machine):
            self.stop()

    def measure(self, case: Case, plan: Plan) -> Result:
        """Have one case measured; a crash, a hang or an end of memory is a failed result."""
        return next(iter(self.measured([case], plan)))

    def measured(self, cases: Sequence[Case], plan: Plan) -> Iterator[Result]:
        """Have cases measured in turns. Where the worker ends, those that are left are measured one
        by one, so that a crash costs one case."""
        if self._process is None:
            self.start()
        came, is_full = 0, False
        try:
            self._send(Order(cases=list(cases), plan=plan))
            while came < len(cases):
                reply = msgspec.json.decode(self._line(plan.limit_s), type=Reply)
                if reply.result is not None:
                    came += 1
                    is_full = is_full or _ran_out(reply.result)
                    yield reply.result
        except _GoneError as gone:
            self.stop()
            if len(cases) > 1:
                for case in cases[came:]:
                    yield self.measure(case, plan)
                return
            now = datetime.now(UTC).isoformat(timespec="seconds")
            yield Result(case=cases[0], status="failed", error=str(gone), created=now)
        if is_full:  # what the failed case left in pieces is no other case's loss
            self.stop()

    def start(self) -> Hello:
        """Start the process and wait for its first word."""
        reading, writing = os.pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            worker = Child("timeroof.study.worker", (str(os.getpid()), str(writing)), _ENVIRONMENT)
            self._process = worker.start(
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=(writing,),
            )
        finally:
            os.close(writing)
        self._reply, self._rest = reading, b""
        try:
            self._send(self._setup)
            hello = msgspec.json.decode(self._line(START_LIMIT_S), type=Hello)
        except _GoneError as gone:
            self.stop()
            raise UsageError(f"the worker did not start: {gone}") from gone
        if hello.error is not None:
            self.stop()
            name = hello.framework
            missing = f"install it: pip install {PACKAGES.get(name, name)}" if name else None
            raise UsageError(hello.error, advice=hello.advice or missing)
        return hello

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        end_group(process)
        os.close(self._reply)
        if self._errors is not None:
            self._errors.close()

    def _send(self, message: msgspec.Struct) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(message) + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise _GoneError(self._why()) from None

    def _line(self, limit_s: float) -> bytes:
        end = time.monotonic() + limit_s
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            ready, _, _ = select.select([self._reply], [], [], max(0.0, left))
            if not ready:
                raise _GoneError(f"no answer within {limit_s:.0f} s; the worker was ended")
            data = os.read(self._reply, 1 << 16)
            if not data:
                raise _GoneError(self._why())
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _why(self) -> str:
        assert self._process is not None
        assert self._errors is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5.0)
        code = self._process.returncode
        if code is None:
            return "the worker closed its pipe"
        self._errors.seek(0)
        lines = self._errors.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        words = f": {lines[-1][:300]}" if lines else ""
        if code >= 0:
            return f"the worker ended with code {code}{words}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        hint = " (the system may have run out of memory)" if name == "SIGKILL" else ""
        return f"the worker crashed with {name}{hint}{words}"


def free_memory_bytes() -> int | None:
    """Memory that a worker may ask for; None where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        told = Path("/proc/meminfo").read_text(encoding="ascii")
        return int(int(told.split("MemAvailable:")[1].split()[0]) * 1024 * MEMORY_SHARE)
    return None
