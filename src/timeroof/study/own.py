"""A function of the user's as a study: `FILE.py:FUNCTION`, its values, its cases."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import cast

from timeroof.core.errors import InputError, UsageError
from timeroof.study.case import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    COMMON_VARIANTS,
    FORWARD,
    Cache,
    Case,
    Hello,
    OwnFunction,
    OwnParameter,
    Value,
)
from timeroof.study.grid import CACHES, FRAMEWORKS, all_cores, check_choice, unique, variant_of

PASSES = (FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT)
_YES, _NO = ("true", "yes", "1"), ("false", "no", "0")
# The ways in which each framework runs a user's function.
OWN_VARIANTS = {
    "torch": COMMON_VARIANTS,
    "jax": ("eager", "compiled"),
    "tensorflow": ("eager", "graph", "xla"),
}
EXAMPLE = "write FILE.py:FUNCTION, for example my.py:make"


def is_own(name: str) -> bool:
    """Whether a name is a function in a file, and not a kernel of ours.

    >>> is_own("my.py:make"), is_own("conv2d")
    (True, False)
    """
    return ":" in name or name.endswith(".py") or "/" in name


def reference(text: str, framework: str | None = None) -> OwnFunction:
    """The function that `FILE.py:FUNCTION` names; nothing of it is imported here."""
    file, _, function = text.rpartition(":")
    if not file or not function or function.endswith(".py"):
        raise UsageError(f"{text!r} does not name a function in a file", advice=EXAMPLE)
    if not all(part.isidentifier() for part in function.split(".")):
        raise UsageError(f"{function!r} cannot be the name of a function", advice=EXAMPLE)
    path = Path(file).expanduser().absolute()
    if path.suffix != ".py":
        raise UsageError(f"{file!r} is not a Python file", advice=EXAMPLE)
    if framework is not None:
        check_choice("framework", [framework], FRAMEWORKS)
    return located(path, function, framework)


def located(path: Path, function: str, framework: str | None = None) -> OwnFunction:
    """A function in a file that is there."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", where=str(path), advice="check the path"
        ) from error
    return OwnFunction(
        name=f"{path.name}:{function}",
        path=str(path),
        function=function,
        digest=hashlib.sha256(content).hexdigest()[:12],
        framework=framework,
    )


# Values.


def typed_value(parameter: OwnParameter, text: str, name: str = "the function") -> Value:
    """A value as it is typed, of the type that the parameter has.

    >>> typed_value(OwnParameter(name="rate", kinds=["float"]), "1")
    1.0
    >>> [typed_value(OwnParameter(name="x"), text) for text in ("8", "0.5", "true", "relu")]
    [8, 0.5, True, 'relu']
    """
    if parameter.choices:
        for choice in parameter.choices:
            if str(choice) == text:
                return choice
        wanted = f"one of {', '.join(map(str, parameter.choices))}"
    else:
        for kind in parameter.kinds or ("int", "float", "bool", "str"):
            # Without a type 1 is a number, not a truth value.
            found = _as_kind(kind, text, words_only=not parameter.kinds)
            if found is not None:
                return found
        wanted = " or ".join(parameter.kinds)
    raise UsageError(f"{parameter.name} cannot be {text[:40]!r}", advice=f"{name} wants {wanted}")


def _as_kind(kind: str, text: str, *, words_only: bool) -> Value | None:
    if kind == "bool":
        words = [w for w in (*_YES, *_NO) if not (words_only and w.isdigit())]
        return text.lower() in _YES if text.lower() in words else None
    with suppress(ValueError, OverflowError):
        if kind == "int":
            number = float(text) if not text.lstrip("+-").isdigit() else int(text)
            exact = isinstance(number, int) or (number.is_integer() and "e" in text.lower())
            return int(number) if exact else None
        if kind == "float":
            return float(text)
    return text if kind == "str" else None


def checked_value(parameter: OwnParameter, value: object) -> Value:
    """A value that Python gives, if a study can keep it."""
    if isinstance(value, bool | int | float | str):
        return value
    raise UsageError(
        f"{parameter.name} cannot be a value of type {type(value).__name__}",
        advice="use numbers, texts or booleans, and let the function make the rest of them",
    )


def swept_values(
    own: OwnFunction, hello: Hello, given: Mapping[str, Sequence[object]], *, typed: bool
) -> dict[str, list[Value]]:
    """Given values by parameter, each of its type; parameters that it does not have are refused."""
    known = {p.name: p for p in hello.parameters}
    found: dict[str, list[Value]] = {}
    for name, values in given.items():
        if name not in known and not hello.any_name:
            advice = f"it has {', '.join(known)}"
            raise UsageError(f"{own.name} has no parameter {name!r}", advice=advice)
        parameter = known.get(name, OwnParameter(name=name))
        if isinstance(values, bool | int | float | str):  # n=8 in place of n=[8]
            values = [values]  # noqa: PLW2901
        of = [
            typed_value(parameter, str(v), own.name) if typed else checked_value(parameter, v)
            for v in values
        ]
        if not of:
            raise UsageError(f"{name} has no value", advice="give one or more")
        found[name] = list(dict.fromkeys(of))
    missing = [p.name for p in hello.parameters if p.required and p.name not in found]
    if missing:
        raise UsageError(
            f"{own.name} needs a value of {' and '.join(missing)}",
            advice=f"add --set {missing[0]}=…, or give it a default",
        )
    return found


# Cases.


@dataclass(frozen=True, kw_only=True)
class OwnChoices:
    """How the cases of a user's function run."""

    passes: Sequence[str] = (FORWARD,)
    variants: Sequence[str] = ("eager",)
    caches: Sequence[str] = ("warm",)
    threads: Sequence[int] = ()
    device: str = "cpu"

    def check(self) -> None:
        """Refuse words that nothing has."""
        check_choice("pass", self.passes, PASSES)
        check_choice("cache", self.caches, CACHES)


def own_cases(
    own: OwnFunction, hello: Hello, values: Mapping[str, Sequence[Value]], choices: OwnChoices
) -> list[Case]:
    """The cases of a sweep: one parameter moves at a time, around defaults or first values."""
    choices.check()
    variants = [variant_of(hello.framework, name) for name in choices.variants]
    what = f"variant of a function in {hello.framework}"
    check_choice(what, variants, OWN_VARIANTS.get(hello.framework, ("eager",)))
    base: dict[str, Value] = {p.name: p.default for p in hello.parameters if p.default is not None}
    base |= {name: v[0] for name, v in values.items() if len(v) == 1 or name not in base}
    swept = {name: v for name, v in values.items() if len(v) > 1}
    points = [base | {name: value} for name, own_values in swept.items() for value in own_values]
    how = product(
        choices.passes, variants, choices.caches, choices.threads or [all_cores()],
        points or [base],
    )  # fmt: skip
    return unique(
        Case(
            kernel=own.name, params=params, pass_name=name, precision="", threads=count,
            framework=hello.framework, device=choices.device, cache=cast("Cache", cache),
            variant=variant,
        )
        for name, variant, cache, count, params in how
    )  # fmt: skip
