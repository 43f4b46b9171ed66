"""A function of the user's in a worker: imported from its file, looked at, called for each case.

Its folder is on the path while it is imported and while it makes a case, as plain Python would have
it. Afterwards the folder is the path's last entry, so that no import of ours finds a file in it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, UnionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from timeroof.study.case import Case, Hello, OwnFunction, OwnParameter, Value

if TYPE_CHECKING:
    from timeroof.study.worker.counting import Used

# Packages that mean a framework.
PACKAGES = {
    **dict.fromkeys(("torch", "torchvision", "transformers", "timm", "lightning"), "torch"),
    **dict.fromkeys(("jax", "flax", "equinox", "haiku", "optax"), "jax"),
    "tensorflow": "tensorflow",
}
PYTHON = "python"
_KINDS = {int: "int", float: "float", bool: "bool", str: "str"}
_SIMPLE = tuple(_KINDS)
WHAT_TO_RETURN = "return a function without arguments, or (module, inputs)"
LONGEST_TRACEBACK = 8000


class OwnError(Exception):
    """What is wrong with a user's function, in words of ours."""

    def __init__(self, what: str, advice: str | None = None) -> None:
        self.what, self.advice = what, advice
        super().__init__(f"{what}; {advice}" if advice else what)


class ImportedEnoughError(BaseException):
    """`timeroof.sweep` is called while its own file is imported: what it needs is defined."""


# Files that are being imported here.
_IMPORTING: list[Path] = []


def is_importing() -> bool:
    """Whether a user's file is being imported in this process."""
    return bool(_IMPORTING)


# Anything that can be called: a function, a module, a class.
Function = Callable[..., object]


class Made(NamedTuple):
    """What a function returned for a case: something to call, and what to call it with."""

    function: Function
    inputs: tuple[Any, ...] = ()
    named: Mapping[str, Any] = {}
    # Whether inputs were given beside it.
    bare: bool = False


class Own:
    """A user's function in this process."""

    def __init__(self, name: str, make: Function, folder: str | None = None) -> None:
        self.name, self.make, self._folder = name, make, folder
        # Cases whose work was compared with that of the same case made again.
        self.checked = False

    def made(self, params: Mapping[str, Value]) -> Made:
        """Call it for one case; its surroundings are put back as they were."""
        with _folder_first(self._folder), _surroundings():
            returned = self.make(**self._arguments(params))
        return unpacked(returned, self.name)

    def _arguments(self, params: Mapping[str, Value]) -> dict[str, Value]:
        known = signature_of(self.make)
        if known is None or any(p.kind == p.VAR_KEYWORD for p in known.parameters.values()):
            return dict(params)
        return {name: value for name, value in params.items() if name in known.parameters}

    def hello(self, framework: str | None) -> Hello:
        """Its parameters, and the framework that runs it."""
        if inspect.iscoroutinefunction(self.make):
            error = f"{self.name} is async, and nothing here awaits it"
            return Hello(error=error, advice="make it a plain function")
        parameters, any_name = parameters_of(self.make)
        if not parameters and not any_name:
            known = signature_of(self.make)
            if known is not None and known.parameters:
                error = f"the parameters of {self.name} have no names that a sweep could give"
                return Hello(error=error, advice="write def make(batch=8) without / or *")
            return Hello(
                error=f"{self.name} takes no parameter, so there is nothing to sweep",
                advice="give it one, such as def make(batch=8)",
            )
        try:
            found = framework or framework_of(self.make)
        except OwnError as error:
            return Hello(error=error.what, advice=error.advice)
        return Hello(parameters=parameters, any_name=any_name, framework=found)


# Importing it.


def imported(own: OwnFunction) -> Own:
    """Import the file, and find the function in it."""
    path = Path(own.path)
    with _folder_first(str(_root(path))):
        module = _module(path, own.name)
    found: object = module
    for part in own.function.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise OwnError(f"{path.name} has no function {own.function!r}", _instead(module))
    if not callable(found):
        kind = type(found).__name__
        raise OwnError(f"{own.name} is not a function but a value of type {kind}", _instead(module))
    return Own(own.name, found, str(_root(path)))


def _root(path: Path) -> Path:
    """The folder that imports start from: above all packages that the file lies in."""
    folder = path.parent
    while (folder / "__init__.py").exists() and folder.parent != folder:
        folder = folder.parent
    return folder


def _module(path: Path, name: str) -> ModuleType:
    dotted = ".".join(path.relative_to(_root(path)).with_suffix("").parts)
    # A file may be called like something that is loaded: it does not take its place.
    taken = dotted in sys.modules or dotted.partition(".")[0] in sys.stdlib_module_names
    called = f"own_{dotted}" if taken else dotted
    if "." in called and not taken:
        importlib.import_module(called.rpartition(".")[0])
    spec = importlib.util.spec_from_file_location(called, path)
    if spec is None or spec.loader is None:
        raise OwnError(f"{path.name} is not a Python file", "name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[called] = module
    _IMPORTING.append(path)
    try:
        with _surroundings():
            spec.loader.exec_module(module)
    except ImportedEnoughError:
        return module
    except (Exception, SystemExit) as error:
        what, advice = _why_not_imported(path, error)
        raise OwnError(what, advice) from error
    finally:
        _IMPORTING.remove(path)
    return module


def _why_not_imported(path: Path, error: BaseException) -> tuple[str, str | None]:
    line = line_of_program(error, path.parent)
    where = f" ({line})" if line else ""
    text = (str(error).strip().splitlines() or [""])[0][:300]
    if isinstance(error, SystemExit):
        advice = "put what the script does under if __name__ == '__main__':"
        return f"{path.name} ended Python while it was imported{where}", advice
    if isinstance(error, ImportError) and "relative import" in text:
        advice = "put an __init__.py beside it, or import without the dot"
        return f"{path.name} uses a relative import but is not in a package{where}", advice
    if isinstance(error, SyntaxError):
        return f"{path.name} is not valid Python: {error.msg} (line {error.lineno})", None
    what = f"{path.name} cannot be imported: {type(error).__name__}: {text}".removesuffix(": ")
    return f"{what}{where}", None


def _instead(module: ModuleType) -> str:
    own = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    return f"it has {', '.join(own[:8])}" if own else "it defines none"


@contextmanager
def _folder_first(folder: str | None) -> Iterator[None]:
    """The folder first on the path; behind everything else afterwards."""
    before = [entry for entry in sys.path if entry != folder]
    if folder is None:
        yield
        return
    sys.path[:] = [folder, *before]
    try:
        yield
    finally:
        sys.path[:] = [*(e for e in sys.path if e != folder), folder]


@contextmanager
def _surroundings() -> Iterator[None]:
    """The working folder and the environment are the same for every case."""
    folder, variables = Path.cwd(), dict(os.environ)
    try:
        yield
    finally:
        if Path.cwd() != folder:
            os.chdir(folder)
        if dict(os.environ) != variables:
            os.environ.clear()
            os.environ.update(variables)


# Looking at it.


def signature_of(make: Function) -> inspect.Signature | None:
    """Its signature, None where it has none that Python sees."""
    try:
        return inspect.signature(make)
    except (TypeError, ValueError):
        return None


def parameters_of(make: Function) -> tuple[list[OwnParameter], bool]:
    """Its parameters by name, and whether it takes any other name too.

    >>> def make(batch: int, rate=0.5, *, mode="sum"): ...
    >>> [(p.name, p.kinds, p.required) for p in parameters_of(make)[0]]
    [('batch', ['int'], True), ('rate', ['float'], False), ('mode', ['str'], False)]
    """
    found = signature_of(make)
    if found is None:
        return [], True
    try:
        hints = typing.get_type_hints(make if not inspect.isclass(make) else make.__init__)
    except Exception:  # an annotation that cannot be looked up is no annotation
        hints = {}
    own = [
        p for p in found.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    any_name = any(p.kind == p.VAR_KEYWORD for p in found.parameters.values())
    return [_parameter(p, hints.get(p.name, p.annotation)) for p in own], any_name


def _parameter(parameter: inspect.Parameter, hint: object) -> OwnParameter:
    given = parameter.default
    simple = given if type(given) in _SIMPLE else None
    choices = [c for c in typing.get_args(hint) if type(c) in _SIMPLE]
    kinds = list(dict.fromkeys(_kinds(hint)))
    if not kinds and simple is not None:
        kinds = [_KINDS[type(simple)]]
    return OwnParameter(
        name=parameter.name,
        kinds=kinds,
        choices=choices if typing.get_origin(hint) is Literal else [],
        default=simple,
        required=given is parameter.empty,
    )


def _kinds(hint: object) -> Iterator[str]:
    """Simple types that an annotation names, also as text and inside a union."""
    if isinstance(hint, str):
        hint = {kind.__name__: kind for kind in _SIMPLE}.get(hint.strip(), hint)
    if hint in _SIMPLE:
        yield _KINDS[hint]
    elif typing.get_origin(hint) in (typing.Union, UnionType):
        for part in typing.get_args(hint):
            yield from _kinds(part)


def framework_of(make: Function) -> str:
    """The framework that a function uses: by the imports of its file, then by what was loaded."""
    named = _imported_by(make)
    own = {f for f in named if f in _used_names(make)} if len(named) > 1 else named
    if len(own or named) > 1:
        several = " and ".join(sorted(own or named))
        raise OwnError(f"the file uses {several}", "say which with --framework")
    if own or named:
        return next(iter(own or named))
    loaded = [f for f in ("tensorflow", "torch", "jax") if f in sys.modules]
    if loaded[:1] == ["tensorflow"]:  # it imports jax where that is installed
        loaded = [f for f in loaded if f != "jax"]
    if len(loaded) > 1:
        raise OwnError(f"the file loads {' and '.join(loaded)}", "say which with --framework")
    return loaded[0] if loaded else PYTHON


def _imported_by(make: Function) -> set[str]:
    """Frameworks that the source of a function's file imports, anywhere."""
    try:
        path = inspect.getsourcefile(inspect.unwrap(make))
        tree = ast.parse(Path(path).read_text(encoding="utf-8")) if path else None
    except (OSError, TypeError, ValueError, SyntaxError):
        tree = None
    names: set[str] = set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    if tree is None:
        names = _module_names(make)
    return _frameworks(names)


def _frameworks(names: set[str]) -> set[str]:
    found = {PACKAGES[name] for name in names if name in PACKAGES}
    return found | ({_keras_backend()} if "keras" in names else set())


def _keras_backend() -> str:
    keras = sys.modules.get("keras")
    return str(keras.backend.backend()) if keras is not None else "tensorflow"


def _module_names(make: Function) -> set[str]:
    """Top packages of what a function's own names stand for."""
    space: Mapping[str, object] = getattr(make, "__globals__", {})
    used = _names_in(getattr(make, "__code__", None))
    values = [space[name] for name in used if name in space]
    closure = [c.cell_contents for c in getattr(make, "__closure__", None) or ()]
    homes = [
        getattr(v, "__module__", None) or getattr(v, "__name__", "") for v in (*values, *closure)
    ]
    return {str(home).partition(".")[0] for home in homes}


def _used_names(make: Function) -> set[str]:
    code = getattr(inspect.unwrap(make), "__code__", None)
    return _frameworks(_module_names(inspect.unwrap(make)) | set(_names_in(code)))


def _names_in(code: object) -> Iterator[str]:
    if not inspect.iscode(code):
        return
    yield from code.co_names
    for constant in code.co_consts:
        yield from _names_in(constant)


# What it returns.


def unpacked(returned: object, name: str) -> Made:
    """A callable alone, or with its inputs.

    >>> unpacked((len, [[1, 2]]), "make").inputs
    ([1, 2],)
    """
    if returned is None:
        raise OwnError(f"{name} returned nothing", WHAT_TO_RETURN)
    if inspect.isawaitable(returned) or inspect.isgenerator(returned):
        raise OwnError(f"{name} returned a {type(returned).__name__}", WHAT_TO_RETURN)
    first = returned[0] if isinstance(returned, tuple | list) and returned else returned
    for kind, is_kind in (
        ("async", inspect.iscoroutinefunction), ("a generator", inspect.isgeneratorfunction),
    ):  # fmt: skip
        if is_kind(first):  # calling it would run none of its lines
            raise OwnError(f"{name} returned a function that is {kind}", "return a plain function")
    if isinstance(returned, tuple | list) and returned and callable(returned[0]):
        function, rest = returned[0], tuple(returned[1:])
        if len(rest) == 1 and isinstance(rest[0], Mapping):
            return Made(function, (), {str(key): value for key, value in rest[0].items()})
        if len(rest) == 1 and isinstance(rest[0], tuple | list):
            rest = tuple(rest[0])
        return Made(function, rest, bare=not rest)
    if callable(returned):
        needed = _needed(returned)
        if needed:
            raise OwnError(
                f"{name} returned {type(returned).__name__} without its inputs"
                f" ({', '.join(needed[:4])})",
                WHAT_TO_RETURN,
            )
        return Made(returned, bare=True)
    what = f"{name} returned a value of type {type(returned).__name__}, which cannot be called"
    raise OwnError(what, WHAT_TO_RETURN)


def _needed(function: Function) -> list[str]:
    """Arguments that a call must have."""
    looked = getattr(function, "forward", None) or getattr(function, "call", None) or function
    found = signature_of(looked) if callable(looked) else None
    if found is None:
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own = [p for p in found.parameters.values() if p.kind in kinds and p.name != "self"]
    return [p.name for p in own if p.default is p.empty]


def check_home(values: Sequence[object], framework: str) -> None:
    """Refuse results of another framework than the one that is to count them."""
    for package in {type(value).__module__.partition(".")[0] for value in values}:
        other = {"torch": "torch", "jaxlib": "jax", "tensorflow": "tensorflow"}.get(package)
        if other is not None and other != framework:
            raise OwnError(f"its results are those of {other}", f"--framework {other} counts them")


# What it raised.


def line_of_program(error: BaseException, folder: Path | None = None) -> str | None:
    """The innermost line of the user's own files that an error came from, as `my.py:12`."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if _is_users(f.filename, folder)]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else None


def _is_users(file: str, folder: Path | None) -> bool:
    if folder is not None:
        return Path(file).is_relative_to(folder) and "site-packages" not in file
    ours = str(Path(__file__).parents[2])
    installed = ("site-packages", "dist-packages", f"{os.sep}lib{os.sep}python", "<frozen")
    return not file.startswith(ours) and not any(part in file for part in installed)


def traceback_of(error: BaseException) -> str:
    """The whole traceback, or its end where it is very long."""
    text = "".join(traceback.format_exception(error))
    return text if len(text) <= LONGEST_TRACEBACK else f"…{text[-LONGEST_TRACEBACK:]}"


# What it leaves behind.


def leak_labels(
    own: Own, settings: Sequence[str], case: Case, count: Used, again: Callable[[Case], Used]
) -> dict[str, str]:
    """What a case leaves behind for the next ones. One case of each turn is made once more: where
    its work is then another one, the function keeps something between its calls."""
    words = [f"It leaves {' and '.join(settings)}, put back before the next case"] * bool(settings)
    if not own.checked and case.variant == "eager":
        own.checked = True
        more = again(case)
        pairs = {
            "FLOPs": (_sum(count, "flop/"), _sum(more, "flop/")),
            "launches": (count.launches, more.launches),
            "bytes": (count.amounts.get("byte/l1"), more.amounts.get("byte/l1")),
        }
        other = [f"{what} {a:.4g}, then {b:.4g}" for what, (a, b) in pairs.items() if _differ(a, b)]
        if other:
            words.append(
                f"The same case made twice does other work ({'; '.join(other)}): it keeps state"
                " between calls or draws random numbers, so its cases cannot be compared"
            )
    return {"leaks": ". ".join(words)} if words else {}


def _sum(count: Used, head: str) -> float | None:
    values = [v for name, v in count.amounts.items() if name.startswith(head)]
    known = [v for v in values if v is not None]
    return sum(known) if known and len(known) == len(values) else None


def _differ(first: float | None, again: float | None) -> bool:
    return first is not None and again is not None and abs(first - again) > 1e-6 * max(first, 1.0)
