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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from timeroof.core.children import guard
from timeroof.core.errors import InputError, UsageError
from timeroof.core.files import forget, patiently, remember
from timeroof.core.profile import Profile
from timeroof.counters.options import Collected, CollectOptions
from timeroof.read.events import shown_list

POLL_S = 0.1
# Of a program's output so much is looked at for messages.
TAIL_BYTES = 64 * 1024
OUTPUTS = ("program.out", "program.err")


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

    @property
    def stopped(self) -> bool:
        """Whether we ended it before its time."""
        return self.interrupted or self.timed_out


def run(
    command: list[str], folder: Path, options: CollectOptions, *,
    watch: Callable[[], object] = lambda: None, extra: dict[str, str] | None = None,
) -> Ran:  # fmt: skip
    """Run a command to its end, or until it is interrupted or takes too long. What it prints goes
    to files in the folder; `watch` is called now and then."""
    start_s = time.monotonic()
    # Pressed between its start and our watch, Ctrl-C would leave a program nobody ends.
    with interrupts_later() as pressed:
        process = _started(command, folder, options, extra or {})
    guard(process.pid)
    # A profiler that is asked to end writes down what it has counted.
    with patiently():
        why = _awaited(process, start_s, options, watch, pressed)
    return Ran(
        command=tuple(command),
        code=process.returncode,
        elapsed_s=time.monotonic() - start_s,
        text="\n".join(_tail(folder / name) for name in OUTPUTS),
        interrupted=why == "interrupted",
        timed_out=why == "timed out",
    )


def _awaited(
    process: subprocess.Popen[bytes], start_s: float, options: CollectOptions,
    watch: Callable[[], object], pressed: threading.Event,
) -> str:  # fmt: skip
    """Why it did not end by itself, in a word; empty where it did."""
    try:
        if pressed.is_set():
            raise KeyboardInterrupt
        return _wait(process, start_s, options, watch)
    except KeyboardInterrupt:
        return "interrupted"
    finally:
        if process.poll() is None:
            _stop(process, options.grace_s)


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
    command: list[str], folder: Path, options: CollectOptions, extra: dict[str, str]
) -> subprocess.Popen[bytes]:
    around = os.environ if options.surroundings is None else options.surroundings
    try:
        with contextlib.ExitStack() as files:
            out, err = (files.enter_context((folder / name).open("ab")) for name in OUTPUTS)
            # Its own session: a Ctrl-C reaches it through us, once, and in order.
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=options.working_folder,
                env={**around, **options.environment, **extra},
                start_new_session=True,
            )
    except OSError as error:
        raise InputError(
            f"cannot be started ({error.strerror or error})",
            where=command[0],
            advice="check that it is installed and may be executed",
        ) from error


def _tail(path: Path) -> str:
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - TAIL_BYTES))
        return stream.read().decode(errors="replace")


def _wait(
    process: subprocess.Popen[bytes], start_s: float, options: CollectOptions,
    watch: Callable[[], object],
) -> str:  # fmt: skip
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
            watch()
            return ""
        watch()
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
    """A folder to collect in; one of our own is removed if all went well, and kept if not. One
    that nothing was written to tells nobody why, and goes."""
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
    if not space.kept:
        remember(space.folder)
    try:
        yield space
    except Exception:
        if any(path.is_file() for path in space.folder.rglob("*")):
            forget(space.folder)
        else:
            _removed(space)
        raise
    except BaseException:
        _removed(space)
        raise
    _removed(space)


def _removed(space: Workspace) -> None:
    if not space.kept:
        shutil.rmtree(space.folder, ignore_errors=True)
        forget(space.folder)


# How many names of metrics a note shows.
SHOWN = 12


def finished(
    tool: str, version: str, profile: Profile, rans: list[Ran], notes: list[str], *,
    architecture: str, metrics: tuple[str, ...], not_collected: dict[str, str],
) -> Collected:  # fmt: skip
    """A collection whose profile says how it came about, and what is missing."""
    commands = tuple(ran.command for ran in rans)
    interrupted = any(ran.interrupted for ran in rans)
    source = msgspec.structs.replace(
        profile.source, tool=tool, version=version, command=" ".join(commands[0])
    )
    by_reason: dict[str, list[str]] = defaultdict(list)
    for metric, why in not_collected.items():
        by_reason[why].append(metric)
    said = [
        f"Counters are measured by {tool} {version} with the metric set {architecture}.",
        *notes,
        *(f"Not collected, as {why}: {shown_list(m, SHOWN)}." for why, m in by_reason.items()),
        *(["Counting was interrupted: the rest was not counted."] if interrupted else []),
    ]
    told = replace(profile, source=source, notes=tuple(dict.fromkeys([*said, *profile.notes])))
    return Collected(
        profile=told,
        tool=tool,
        version=version,
        architecture=architecture,
        commands=commands,
        metrics=metrics,
        not_collected=not_collected,
        interrupted=interrupted,
    )


def read_reports(
    space: Workspace, rans: list[Ran], tool: str, read: Callable[[], Profile]
) -> Profile:
    """What a profiler left behind, or a sentence that says that it cannot be used."""
    try:
        return read()
    except InputError as error:
        if any(ran.interrupted for ran in rans):
            raise KeyboardInterrupt from error
        raise InputError(
            f"{tool} left a report that cannot be used: {error.what}",
            advice=f"count again; what it wrote is in {space.folder}",
        ) from error
