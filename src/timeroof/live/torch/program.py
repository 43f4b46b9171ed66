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
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import NoReturn

from timeroof.core.errors import EXIT_INTERRUPT, UsageError, ignoring, trace_ignored
from timeroof.core.import_path import set_for_program

# What parsers call the sentence that they print before they exit.
_SENTENCES = ("message", "msg", "err", "error")
_LONGEST_CHAIN = 10


def complaint_of(error: SystemExit) -> str:
    r"""The words behind an exit, one text per line; empty where it has none.

    argparse prints its sentence and exits with a bare 2: the sentence is an argument of the
    frames it leaves. click, getopt and absl exit while they handle an error that has it.

    >>> complaint_of(SystemExit("unknown option --html")), complaint_of(SystemExit(2))
    ('unknown option --html', '')
    """
    texts = dict.fromkeys((*_own_words(error), *_chained(error), *_left_in_frames(error)))
    return "\n".join(text for text in texts if text)


def _own_words(error: SystemExit) -> Iterator[str]:
    if isinstance(error.code, str):
        yield error.code
    # fire's exit carries the trace of what it could not consume.
    yield from (_text(value) for value in vars(error).values())


def _chained(error: BaseException) -> Iterator[str]:
    found: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        found = found.__cause__ or found.__context__ if found is not None else None
        if found is None:
            return
        yield _text(found)


def _left_in_frames(error: BaseException) -> Iterator[str]:
    trace = error.__traceback__
    while trace is not None:
        # A module's frame holds its globals, which are no parser's.
        if trace.tb_frame.f_code.co_name != "<module>":
            held = trace.tb_frame.f_locals
            yield from (v for k in _SENTENCES if isinstance(v := held.get(k), str))
        trace = trace.tb_next


def _text(value: object) -> str:
    said = getattr(value, "format_message", None)
    try:
        return str(said() if callable(said) else value)
    except Exception:  # the program's own class
        trace_ignored("an error has no words")
        return ""


# Modules of the program's folder that bear the name of a module that we use.
#
# Python looks for `import statistics` in the program's folder first, unless it was imported before:
# by us, in a process that is to be the program's. And once the program has ended, its `jinja2.py`
# must not be taken for the library.


# Python itself has these before any program, and `timeroof` is what a program means by that.
_STAY = {"__main__", "encodings", "sitecustomize", "usercustomize", "timeroof"}
# A recording is made of what these gave: there can be no second one.
_OF_THE_RECORDING = {"torch", "numpy"}
_ASIDE: dict[str, ModuleType] = {}
# The folder of the program, and what is searched for libraries.
_PLACES: list[tuple[str, list[str]]] = []


def give_way(folder: str) -> None:
    """Before the program: its folder is searched first, for names that we have loaded, too."""
    set_for_program(folder)
    if sys.path[:1] != [folder]:  # the user does not want that folder searched
        return
    _PLACES[:] = [(folder, sys.path[1:])]
    for name in _top_level_names() - _STAY:
        built_in = any(f.find_spec(name) for f in (BuiltinImporter, FrozenImporter))
        if _origin(name, [folder]) and not built_in:
            _ASIDE.update(_taken_out(name))


def come_back() -> None:
    """After the program: our own modules again, and its folder is searched last. Not never: what it
    leaves running, or does at exit, may still import from there."""
    for folder, libraries in _PLACES:
        for name in _top_level_names() - _STAY - _OF_THE_RECORDING:
            origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None) or ""
            if origin.startswith(folder) and _origin(name, libraries) not in (None, origin):
                _taken_out(name)
        sys.path[:] = [*libraries, *[place for place in sys.path if place not in libraries]]
    _PLACES.clear()
    sys.modules.update(_ASIDE)
    _ASIDE.clear()


def _top_level_names() -> set[str]:
    return {name for name in sys.modules if "." not in name}


def _origin(name: str, places: list[str]) -> str | None:
    """Where such a module is; a folder without code is none where others have the name."""
    spec = PathFinder.find_spec(name, places)
    return None if spec is None else spec.origin


def _taken_out(name: str) -> dict[str, ModuleType]:
    names = [each for each in sys.modules if each == name or each.startswith(name + ".")]
    return {each: sys.modules.pop(each) for each in names}


EXIT_TERMINATED = 143


class TerminatedError(BaseException):
    """SIGTERM came; not an Exception, so that programs do not take it for their own."""


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code, and in words if it was not by itself. `complaint` is what
    it said where it ended with an exit: None where it did not."""

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
        prepare = _prepare_module if self.is_module else _prepare_script
        return prepare(self.target, self.arguments)


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
    """End a forked child as Python would, but for what C++ does last. The profiler's threads are
    its parent's, and their owner's end would wait for them for ever."""
    with ignoring("threads of a child were not awaited"):
        threading._shutdown()  # type: ignore[attr-defined]
    with ignoring("functions of a child's exit failed"):
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
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _terminable() -> Callable[[], None]:
    """Turn SIGTERM into an exception, unless the program handles it or we are no main thread."""

    def terminate(_number: int, _frame: FrameType | None) -> None:
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
    if found.is_dir() and not any(found.glob("__main__.py*")):
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


def _run_archive(path: str) -> None:
    set_for_program(None)  # runpy puts the archive there
    runpy.run_path(path, run_name="__main__")


def _prepare_module(name: str, arguments: tuple[str, ...]) -> Callable[[], None]:
    give_way(str(Path.cwd()))
    spec = _module_spec(name)
    get_code = getattr(spec.loader, "get_code", None)
    code = get_code(spec.name) if get_code is not None else None
    if code is None:
        raise UsageError(f"no code for the module {name}", advice="name a Python module")
    sys.argv = [spec.origin or name, *arguments]
    main = _new_main(spec.origin or name)
    main.__spec__, main.__loader__, main.__package__ = spec, spec.loader, spec.parent
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


# Standard streams as a program leaves them: perhaps closed, replaced or without a reader.


def repair_streams() -> None:
    """After a program: put something in place of streams that it closed, so that files that
    we open do not become its stdout."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
    for name in ("stdout", "stderr"):
        if _is_dead(getattr(sys, name)):
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115


def _is_dead(stream: object) -> bool:
    if stream is None or getattr(stream, "closed", False):
        return True
    try:
        stream.flush()  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):
        return True
    return False


def without_reader(action: Callable[[], None]) -> None:
    """Print something; a reader that has left (`| head`) must not cost more than that."""
    try:
        action()
        sys.stderr.flush()
    # A console may end the program over a broken pipe.
    except (OSError, ValueError, SystemExit):
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
