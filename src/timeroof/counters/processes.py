"""Run a profiler around a program: output bounded, progress told, stopped gently."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, BinaryIO

import msgspec

from timeroof.core.errors import InputError, UsageError
from timeroof.counters.options import Collected, CollectOptions
from timeroof.read.events import shown_list

POLL_S = 0.1
# Of a program's output so much is looked at for messages.
TAIL_BYTES = 64 * 1024
CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True)
class Ran:
    """How a run ended."""

    command: tuple[str, ...]
    code: int
    elapsed_s: float
    # What program and profiler printed, its end.
    text: str = ""
    interrupted: bool = False
    timed_out: bool = False
    # The profiler's report grew beyond its limit.
    overflowed: bool = False

    @property
    def stopped(self) -> bool:
        """Whether we ended it before its time."""
        return self.interrupted or self.timed_out or self.overflowed


def run(
    command: list[str],
    folder: Path,
    options: CollectOptions,
    *,
    watch: Callable[[], int] = lambda: 0,
    extra: dict[str, str] | None = None,
) -> Ran:
    """Run a command to its end, or until it is interrupted, takes too long or writes too much.

    `watch` is asked now and then and tells how many bytes the report has.
    """
    start_s = time.monotonic()
    # Pressed between its start and our watch, Ctrl-C would leave a program nobody ends.
    with interrupts_later() as pressed:
        process = _started(command, options, extra or {})
        pumps = [
            _Pump(process.stdout, folder / "program.out", options),
            _Pump(process.stderr, folder / "program.err", options),
        ]
    why = ""
    try:
        if pressed.is_set():
            raise KeyboardInterrupt
        why = _wait(process, start_s, options, watch)
    except KeyboardInterrupt:
        why = "interrupted"
    finally:
        if process.poll() is None:
            _stop(process, options.grace_s)
        for pump in pumps:
            pump.join(options.grace_s)
    return Ran(
        command=tuple(command),
        code=process.returncode,
        elapsed_s=time.monotonic() - start_s,
        text="\n".join(pump.tail for pump in pumps),
        interrupted=why == "interrupted",
        timed_out=why == "timed out",
        overflowed=why == "overflowed",
    )


@contextmanager
def interrupts_later() -> Iterator[threading.Event]:
    """Remember Ctrl-C instead of raising it, for a moment."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    earlier = signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, earlier)


def _started(
    command: list[str], options: CollectOptions, extra: dict[str, str]
) -> subprocess.Popen[bytes]:
    try:
        # Its own session: a Ctrl-C reaches it through us, once, and in order.
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=options.working_folder,
            env={**_surroundings(options), **options.environment, **extra},
            start_new_session=True,
        )
    except OSError as error:
        raise InputError(
            f"cannot be started ({error.strerror or error})",
            where=command[0],
            advice="check that it is installed and may be executed",
        ) from error


def _surroundings(options: CollectOptions) -> Mapping[str, str]:
    return os.environ if options.surroundings is None else options.surroundings


def _wait(
    process: subprocess.Popen[bytes],
    start_s: float,
    options: CollectOptions,
    watch: Callable[[], int],
) -> str:
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
            watch()
            return ""
        if watch() > options.max_report_bytes:
            return "overflowed"
        if options.timeout_s is not None and time.monotonic() - start_s > options.timeout_s:
            return "timed out"


def _stop(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """Ask to end as Ctrl-C does, so that what was counted is written; then insist."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(grace_s)
            return
    process.wait()


class _Pump:
    """Copies a stream into a file up to a limit."""

    def __init__(self, stream: IO[bytes] | None, path: Path, options: CollectOptions) -> None:
        self._stream, self._path = stream, path
        self._left = options.max_output_bytes
        self._tail = b""
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    @property
    def tail(self) -> str:
        """The end of what was printed."""
        return self._tail.decode(errors="replace")

    def join(self, timeout_s: float) -> None:
        """Wait until all is copied; a child that holds the stream open is not waited for long."""
        self._thread.join(timeout_s)

    def _copy(self) -> None:
        if self._stream is None:
            return
        # A full disk must not end the program that is measured.
        with self._stream, contextlib.suppress(OSError, ValueError), self._path.open("ab") as sink:
            while chunk := os.read(self._stream.fileno(), CHUNK_BYTES):
                self._tail = (self._tail + chunk)[-TAIL_BYTES:]
                self._keep(chunk, sink)

    def _keep(self, chunk: bytes, sink: BinaryIO) -> None:
        if self._left > 0:
            with contextlib.suppress(OSError):
                sink.write(chunk[: self._left])
            self._left -= len(chunk)


# The folder of one collection: reports to read, and what the program printed.


@dataclass(frozen=True)
class Workspace:
    """Where a collection writes."""

    folder: Path
    kept: bool

    @property
    def reports(self) -> Path:
        """The profiler's own files, and nothing else."""
        return self.folder / "reports"

    @property
    def output(self) -> Path:
        """What the program printed."""
        return self.folder / "output"


@contextmanager
def workspace(folder: Path | None) -> Iterator[Workspace]:
    """A folder to collect in; one of our own is removed if all went well, and kept if not."""
    try:
        place = Path(tempfile.mkdtemp(prefix="timeroof-counters-")) if folder is None else folder
        space = Workspace(place, kept=folder is not None)
        if space.reports.is_dir() and any(space.reports.iterdir()):
            raise UsageError(
                f"{space.reports} holds counters of an earlier run", advice="name another folder"
            )
        for part in (space.reports, space.output):
            part.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror or error})",
            where=str(folder or tempfile.gettempdir()),
            advice="check that the folder is writable and has space",
        ) from error
    yield space
    if not space.kept:
        shutil.rmtree(space.folder, ignore_errors=True)


# What has to be said about a collection: what came from where, and what is missing.


SHOWN = 12


def finished(collected: Collected, notes: list[str]) -> Collected:
    """A collection whose profile says how it came about."""
    profile = collected.profile
    source = msgspec.structs.replace(
        profile.source,
        tool=collected.tool,
        version=collected.version,
        command=" ".join(collected.commands[0]) if collected.commands else None,
    )
    first = (
        f"Counters are measured by {collected.tool} {collected.version} with the metric set"
        f" {collected.architecture}."
    )
    said = [first, *notes, *_missing(collected)]
    if collected.interrupted:
        said.append("Counting was interrupted: the rest of the program was not counted.")
    return replace(
        collected,
        profile=replace(
            profile, source=source, notes=tuple(dict.fromkeys([*said, *profile.notes]))
        ),
    )


def _missing(collected: Collected) -> list[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for metric, why in collected.not_collected.items():
        by_reason[why].append(metric)
    return [f"Not collected, as {why}: {shown_list(m, SHOWN)}." for why, m in by_reason.items()]
