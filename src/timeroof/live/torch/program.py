"""Run another program in this process as if Python itself had been asked to."""

from __future__ import annotations

import atexit
import importlib.machinery
import importlib.util
import os
import runpy
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from timeroof.core.errors import EXIT_INTERRUPT, UsageError
from timeroof.core.import_path import set_for_program
from timeroof.live.torch.complaint import complaint_of
from timeroof.live.torch.namesakes import give_way

EXIT_TERMINATED = 143


class TerminatedError(BaseException):
    """SIGTERM came; not an Exception, so that programs do not take it for their own."""


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code, and in words if it was not by itself.

    `complaint` is what it said where it ended with an exit: None where it did not.
    """

    code: int
    early: str | None = None
    complaint: str | None = None


@dataclass(frozen=True)
class Program:
    """What to run: a script, or a module with `-m`, and its arguments."""

    target: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False

    def prepare(self) -> Callable[[], None]:
        """Find the code and set argv, path and `__main__`; refuse what is not there."""
        if self.is_module:
            return _prepare_module(self.target, self.arguments)
        return _prepare_script(self.target, self.arguments)


def run_program(execute: Callable[[], None]) -> Ended:
    """Run the prepared code, with the exit code and the traceback that Python would give."""
    restore = _terminable()
    try:
        execute()
    except SystemExit as error:
        return _exited(error)
    except KeyboardInterrupt as error:
        _show(error)
        return Ended(EXIT_INTERRUPT, "it was interrupted (Ctrl-C)")
    except TerminatedError:
        return Ended(EXIT_TERMINATED, "it was terminated (SIGTERM)")
    except BaseException as error:
        _show(error)
        return Ended(1, f"it raised {type(error).__name__}")
    finally:
        restore()
        _flush()
    return Ended(0)


def end_child(code: int) -> NoReturn:
    """End a forked child as Python would, but for what C++ does last.

    The profiler's threads are its parent's, and their owner's end would wait for them for ever.
    """
    with suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]
    with suppress(Exception):
        atexit._run_exitfuncs()
    _flush()
    os._exit(code)


def _exited(error: SystemExit) -> Ended:
    code = error.code
    if code is None:
        return Ended(0)
    if isinstance(code, int):
        return Ended(int(code) & 0xFF, complaint=complaint_of(error))  # its own way to end
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{code}\n")
    return Ended(1, "it exited with a message", complaint_of(error))


def _show(error: BaseException) -> None:
    """The traceback as the program alone would show it: without our frames."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        trace = trace.tb_next
    error.__traceback__ = trace
    try:
        sys.excepthook(type(error), error, trace)
    except BaseException:
        traceback.print_exception(type(error), error, trace)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue


def _terminable() -> Callable[[], None]:
    """Turn SIGTERM into an exception, unless the program handles it or we are no main thread."""

    def terminate(_number: int, _frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if os.getpid() != owner:  # a forked worker dies as it would have
            os.kill(os.getpid(), signal.SIGTERM)
        raise TerminatedError

    owner = os.getpid()
    try:
        before = signal.signal(signal.SIGTERM, terminate)
    except ValueError:
        return lambda: None

    def restore() -> None:
        if signal.getsignal(signal.SIGTERM) is terminate:
            signal.signal(signal.SIGTERM, before)

    return restore


def _prepare_script(path: str, arguments: tuple[str, ...]) -> Callable[[], None]:
    found = Path(path)
    if not found.exists():
        raise UsageError(f"no such file: {path}", advice="name a script, or a module with -m")
    sys.argv = [path, *arguments]
    if found.is_dir() and not _has_main(found):
        raise UsageError(
            f"{path} is a folder without a __main__.py", advice="name a script, or a module with -m"
        )
    if found.is_dir() or found.suffix in (".zip", ".pyz", ".whl"):
        give_way(path)
        return lambda: _run_archive(path)
    try:
        source = found.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from error
    give_way(str(found.resolve().parent))
    whole = os.path.abspath(path)  # noqa: PTH100 - as Python has it: links stay
    main = _new_main(whole)
    return lambda: exec(compile(source, whole, "exec", dont_inherit=True), main.__dict__)


def _has_main(folder: Path) -> bool:
    return any((folder / f"__main__{suffix}").exists() for suffix in (".py", ".pyc"))


def _run_archive(path: str) -> None:
    set_for_program(None)  # runpy puts the archive there
    runpy.run_path(path, run_name="__main__")


def _prepare_module(name: str, arguments: tuple[str, ...]) -> Callable[[], None]:
    give_way(str(Path.cwd()))
    spec = _module_spec(name)
    loader: Any = spec.loader
    code = loader.get_code(spec.name) if hasattr(loader, "get_code") else None
    if code is None:
        raise UsageError(f"no code for the module {name}", advice="name a Python module")
    sys.argv = [spec.origin or name, *arguments]
    main = _new_main(spec.origin or name)
    main.__spec__, main.__loader__, main.__package__ = spec, loader, spec.parent
    main.__dict__["__cached__"] = spec.cached
    return lambda: exec(code, main.__dict__)


def _module_spec(name: str) -> importlib.machinery.ModuleSpec:
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise UsageError(f"no module named {name} ({error})") from error
    if spec is None:
        raise UsageError(f"no module named {name}", advice="check the name and where you are")
    return spec


def _new_main(path: str) -> types.ModuleType:
    """A `__main__` that stays: what the program leaves at exit still finds its own names."""
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    main.__dict__["__cached__"] = None
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    sys.modules["__main__"] = main
    return main
