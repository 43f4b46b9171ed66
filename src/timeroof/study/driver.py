"""The driver's end of a worker: start it, ask it, and tell what happened if it is silent."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import IO, Any

import msgspec

from timeroof.core.children import Child
from timeroof.core.errors import UsageError
from timeroof.core.machine import Machine
from timeroof.study.case import Case, Plan, Result
from timeroof.study.worker.messages import Hello, Order, Setup

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


class _GoneError(Exception):
    """The worker ended or hung; the message says how."""


class Worker:
    """A process that measures cases of one framework; started anew after every failure."""

    def __init__(
        self, machine: Machine | None, *, device: str = "cpu", command: list[str] | None = None
    ) -> None:
        self._setup = Setup(
            machine=machine, memory_limit_bytes=free_memory_bytes() if device == "cpu" else None
        )
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._reply = -1
        self._rest = b""
        self._errors: IO[bytes] | None = None
        self.version = ""

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    def measure(self, case: Case, plan: Plan) -> Result:
        """Have a case measured; a crash, a hang or an end of memory is a failed result."""
        if self._process is None:
            self.start()
        try:
            self._send(Order(case=case, plan=plan))
            return msgspec.json.decode(self._line(plan.limit_s), type=Result)
        except _GoneError as gone:
            self.stop()
            now = datetime.now(UTC).isoformat(timespec="seconds")
            return Result(case=case, status="failed", error=str(gone), created=now)

    def start(self) -> None:
        """Start the process and wait for its first word."""
        reading, writing = os.pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = self._started(str(os.getpid()), str(writing), fds=(writing,))
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
            raise UsageError(hello.error, advice="install it: pip install torch")
        self.version = hello.version

    def _started(self, *arguments: str, fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.DEVNULL,
            "stderr": self._errors,
            "pass_fds": fds,
        }
        if self._command is not None:
            return subprocess.Popen([*self._command, *arguments], **pipes)
        return Child("timeroof.study.worker", arguments, _ENVIRONMENT).start(**pipes)

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        with suppress(OSError):
            process.kill()
        process.wait()
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
        """The next line of the worker."""
        end = time.monotonic() + limit_s
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            ready, _, _ = select.select([self._reply], [], [], max(0.0, left))
            if not ready:
                raise _GoneError(f"no answer within {limit_s:.0f} s: the worker was ended")
            data = os.read(self._reply, 1 << 16)
            if not data:
                raise _GoneError(self._why())
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _why(self) -> str:
        """How the process ended, and its last words."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5.0)
        code = self._process.returncode
        if code is None:
            return "the worker closed its pipe"
        if code >= 0:
            return f"the worker ended with code {code}{self._last_words()}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        hint = " (the system may have run out of memory)" if name == "SIGKILL" else ""
        return f"the worker crashed with {name}{hint}{self._last_words()}"

    def _last_words(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        return f": {lines[-1][:300]}" if lines else ""


def free_memory_bytes() -> int | None:
    """Memory that a worker may ask for; None where the system does not say."""
    with suppress(OSError, ValueError, IndexError), open("/proc/meminfo", encoding="ascii") as told:  # noqa: PTH123
        for line in told:
            if line.startswith("MemAvailable:"):
                return int(int(line.split()[1]) * 1024 * MEMORY_SHARE)
    return None
