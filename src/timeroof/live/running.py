"""The program in a process of its own: started as Python would, awaited without working.

Its command line is `python script.py`, so that Python itself does arguments, path, `__main__` and
flags. The recorder gets in by a line of a `.pth` file that asks for one variable; where that file
is not installed, by a `sitecustomize` on PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import timeroof_recorder
from timeroof.core.errors import UsageError
from timeroof.core.files import cache_folder, regular_bytes, remove_all, temporary_folder
from timeroof_recorder.log import write_plan

VARIABLE = "TIMEROOF_RECORD"
_PATH = "PYTHONPATH"
PTH_FILE = "timeroof_recorder.pth"
_PR_SET_PDEATHSIG = 1
_ASKED = {
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2,
}  # fmt: skip
# kill, sigqueue, tgkill: somebody means this process. What the terminal sends, all have got.
_SENT = (0, -1, -6)
# How often a process of several threads asks whether the program has ended.
LOOK_S = 0.1
_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code (128 and the signal's number, as shells say), and in words
    if it was not by itself. `complaint` is what it said where it refused an option."""

    code: int
    early: str | None = None
    complaint: str | None = None
    signal: int | None = None

    @classmethod
    def of(cls, status: int) -> Ended:
        """From what the system says of a process."""
        if not os.WIFSIGNALED(status):
            return cls(os.WEXITSTATUS(status))
        number = os.WTERMSIG(status)
        return cls(128 + number, _early(number), signal=number)


def _early(number: int) -> str:
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    known = {
        "SIGINT": "it was interrupted (Ctrl-C)",
        "SIGTERM": "it was terminated (SIGTERM)",
        "SIGHUP": "its terminal closed (SIGHUP)",
        "SIGKILL": "it was killed (SIGKILL; the system does that where memory runs out)",
        "SIGABRT": "it aborted (SIGABRT)",
        "SIGSEGV": "it crashed (SIGSEGV)",
    }
    return known.get(name, f"it ended by {name}")


def program_command(module: str | None, words: Sequence[str]) -> list[str]:
    """The command line of a program, with the options that this Python was given itself."""
    own = [sys.executable, *_own_options()]
    if module is not None:
        return [*own, "-m", module, *words]
    # The launcher's name stands for its module: it may not be a file here.
    if words and Path(words[0]).name == "torchrun" and not Path(words[0]).is_file():
        return [*own, "-m", "torch.distributed.run", *words[1:]]
    return [*own, *words]


def _own_options() -> list[str]:
    """Options before `-m timeroof` or the command's script: they are meant for the program."""
    given, found = sys.orig_argv[1:], []
    while given and given[0].startswith("-") and given[0] not in ("-m", "-c", "-"):
        count = 2 if given[0] in _OPTIONS_WITH_VALUE else 1
        found += given[:count]
        given = given[count:]
    # A safe path is our own: the program has its folder.
    return [word for word in found if word != "-P"]


_SHELL = ("is a shell script", "name the Python program that it starts")
_DATA = ("is no Python program", "a profiler's file is read by `timeroof read`")
_NOTEBOOK = (
    "is a notebook",
    "put `with timeroof.profile():` in a cell, or make a script: jupyter nbconvert --to script",
)
# Files that people name by mistake, and what to do; Python would run some of them as programs.
_NO_PROGRAMS = {
    ".ipynb": _NOTEBOOK,
    **dict.fromkeys((".sh", ".bash", ".sbatch", ".slurm"), _SHELL),
    **dict.fromkeys((".json", ".gz", ".csv", ".troof", ".parquet", ".sqlite", ".db"), _DATA),
}


def refuse_absent(module: str | None, words: Sequence[str]) -> None:
    """Refuse a program that is not there, before anything is started."""
    if not (words[0] if module is None else module):
        raise UsageError("the program's name is empty", advice="name a script, or a module with -m")
    if module is not None:
        from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

        top = module.partition(".")[0]
        finders = (BuiltinImporter, FrozenImporter)
        places = [*_here(), *sys.path]
        if not any(f.find_spec(top) for f in finders) and not PathFinder.find_spec(top, places):
            raise UsageError(f"no module named {module}", advice="check the name and where you are")
        return
    if words[0] in ("-", "-c") or Path(words[0]).name == "torchrun":
        return
    path = Path(words[0])
    advice = "name a script, or a module with -m"
    if not path.exists():
        raise UsageError(f"no such file: {words[0]}", advice=advice)
    if path.is_dir() and not any(path.glob("__main__.py*")):
        raise UsageError(f"{words[0]} is a folder without a __main__.py", advice=advice)
    if not os.access(path, os.R_OK):
        raise UsageError(
            f"{words[0]} cannot be read (Permission denied)", advice="allow it with chmod +r"
        )
    if path.is_file() and (known := _NO_PROGRAMS.get(path.suffix.lower())) is not None:
        raise UsageError(f"{words[0]} {known[0]}", advice=known[1])


def _here() -> list[str]:
    """The working folder, unless somebody has removed it."""
    try:
        return [str(Path.cwd())]
    except OSError:
        return []


def has_namesake(module: str | None, words: Sequence[str]) -> bool:
    """Whether the program's folder has a module that is named like our recorder: the program gets
    its own."""
    own = Path(timeroof_recorder.__file__).resolve().parent
    script = None if module is not None or words[0] in ("-", "-c") else Path(words[0])
    with suppress(OSError):
        first = Path.cwd() if script is None else script.resolve()
        folder = first if script is None or first.is_dir() else first.parent
        theirs = folder / own.name
        return theirs.with_suffix(".py").exists() or (theirs.is_dir() and theirs.resolve() != own)
    return False


@contextmanager
def record_folder(plan: Mapping[str, object]) -> Iterator[Path]:
    """A folder of this run's own for what recorders write, with what they are to do; daemons that
    outlive the run find it gone, and write no more."""
    with temporary_folder() as folder:
        write_plan(str(folder), dict(plan))
        yield folder


def run_recorded(command: Sequence[str], folder: Path | None, ignored: Sequence[int] = ()) -> Ended:
    """Run a program to its end, recorded into a folder if there is one. `ignored` are signals that
    this process was started to ignore: so is the program."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ASKED | {signal.SIGCHLD})
    try:
        child = _start(list(command), folder, before, ignored)
        return Ended.of(_wait(child))
    finally:
        # A signal that was meant for the program and came as it ended has been answered by it.
        for number in signal.sigpending() & _ASKED:
            with suppress(OSError):
                signal.sigwait({number})
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# Costs of events per machine and version of a framework; read before the program starts, so
# without the libraries that work with them.


def event_costs_file() -> Path:
    """The file that keeps them."""
    return cache_folder() / "event-costs-2.json"


def this_machine() -> str:
    """A name for machines that are alike."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()}, {os.cpu_count()} CPUs"
    return f"{os.uname().machine}, {os.cpu_count()} CPUs"


def kept_figures() -> dict[str, dict[str, list[float]]]:
    """Figures of this machine by framework and version ("torch 2.9.0")."""
    try:
        found = json.loads(regular_bytes(event_costs_file()))[this_machine()]
        return {
            str(framework): {
                str(name): [float(each) for each in figures] for name, figures in programs.items()
            }
            for framework, programs in found.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def known_calibrations() -> list[str]:
    """Frameworks whose events' cost is known here."""
    return list(kept_figures())


def _start(
    command: list[str],
    folder: Path | None,
    mask: set[signal.Signals] | set[int],
    ignored: Sequence[int],
) -> int:
    """The child: same process group, terminal and descriptors; signals as we found them."""
    import ctypes

    me = os.getpid()
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    environment = given_environment()
    environment |= {} if folder is None else recorded_environment(folder, me)
    child = os.fork()
    if child:
        return child
    try:
        for number in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", None)):
            if number is not None:  # Python ignores them: not inherited
                signal.signal(number, signal.SIG_DFL)
        for number in _ASKED:
            chosen = signal.SIG_IGN if number in ignored else signal.SIG_DFL
            signal.signal(number, chosen)
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != me:
            os._exit(127)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execve(command[0], command, environment)
    finally:
        os._exit(127)


# What Python sets LC_CTYPE to where the locale is C (PEP 538); a Python that finds it set so has
# no UTF-8 mode, which a program in that locale has.
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")


def given_environment() -> dict[str, str]:
    """The variables that this process was given, without the one that Python adds."""
    environment, name = dict(os.environ), "LC_CTYPE"
    if environment.get(name) not in _COERCED:
        return environment
    with suppress(OSError):
        pairs = Path("/proc/self/environ").read_bytes().split(b"\0")
        given = [p.partition(b"=")[2].decode() for p in pairs if p.startswith(b"LC_CTYPE=")]
        del environment[name]
        if given:
            environment[name] = given[0]
    return environment


def recorded_environment(folder: Path, parent: int = 0) -> dict[str, str]:
    """The variables that let the recorder into a process, and where what it is to do stands."""
    return {VARIABLE: f"{parent}:{folder}"} | _other_entry()


def _other_entry() -> dict[str, str]:
    """Where the `.pth` file is not installed: a folder with a `sitecustomize`, before others."""
    places = {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}
    if any(Path(place, PTH_FILE).is_file() for place in places):
        return {}
    root = Path(__file__).resolve().parents[2]
    entries = [str(root / "timeroof_recorder" / "entry"), str(root)]
    given = os.environ.get(_PATH)
    return {_PATH: os.pathsep.join([*entries, *([given] if given else [])])}


def _wait(child: int) -> int:
    """Asleep until a signal comes, without any work while the program runs. In a process of several
    threads another one may get the signal of the child's end: there it is asked for as well."""
    awaited = _ASKED | {signal.SIGCHLD}
    while True:
        came = signal.sigwaitinfo(awaited) if _is_alone() else signal.sigtimedwait(awaited, LOOK_S)
        if came is None or came.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
            if pid and not os.WIFSTOPPED(status):
                return status
            if pid:
                _stop_too(child)
        elif came.si_code in _SENT and came.si_pid != child:
            _forward(child, came.si_signo)


def _is_alone() -> bool:
    """Whether this process has one thread."""
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return False


def _stop_too(child: int) -> None:
    """The child alone was stopped: a shell is to see it; continued together. Without a terminal
    nobody would continue us."""
    if not _in_front():
        return
    time.sleep(0.05)  # Ctrl-Z and fg are for the whole group: then it is running again by now
    if _state(child) == "T":
        os.kill(os.getpid(), signal.SIGSTOP)
        with suppress(OSError):
            os.kill(child, signal.SIGCONT)


def _in_front() -> bool:
    """Whether a shell with a terminal has us in its foreground."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _forward(child: int, number: int) -> None:
    """Sent to us by kill. A child that a kill of the whole group has ended needs nothing."""
    time.sleep(0.02)
    if _state(child) not in (None, "Z"):
        with suppress(OSError):
            os.kill(child, number)


def _state(pid: int) -> str | None:
    """The letter of /proc: R, S, T, Z; None for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None


def end_by_signal(number: int) -> NoReturn:
    """Leave as the program did, so that a shell sees the same."""
    remove_all()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    time.sleep(1)
    os._exit(128 + number)
