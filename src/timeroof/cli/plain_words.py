"""Words, paths and flags of a command line as they are, without a validation library.

Newer versions of typer import pydantic to turn each word into a str or a Path, which takes
longer than reading a small file. Of such parameters there is nothing to validate; numbers and
choices stay with typer, and so does everything in versions that work otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

_PLAIN: dict[Any, Callable[[Any], Any]] = {
    str: str,
    Path: Path,
    list[str]: str,
    list[Path]: Path,
    bool: bool,
}
# What a parameter may ask of a path or word beyond being one.
_CHECKS = ("exists", "resolve_path", "writable", "parser", "click_type", "path_type", "envvar")


@dataclass(frozen=True)
class PlainWords:
    """In the place of typer's conversion: the same results for words that are there or not."""

    convert: Callable[[Any], Any]

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """A value of the command line, or what stands for none."""
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        return [self.convert(word) for word in value] if many else self.convert(value)


class PlainCommand(TyperCommand):
    """A command whose words, paths and flags are taken as they are."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, `--help` included."""
        return _taken_plainly(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """The command above the commands, in the same way."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, `--help` included."""
        return _taken_plainly(super().get_params(ctx))


def _taken_plainly(params: list[Any]) -> list[Any]:
    for param in params:
        descriptor: Any = getattr(param, "type_descriptor", None)
        convert = _PLAIN.get(getattr(descriptor, "annotation", None))
        if convert is None or getattr(param, "_runtime_param", param) is not None:
            continue
        if not any(getattr(descriptor.parameter_info, check, None) for check in _CHECKS):
            param._runtime_param = PlainWords(convert)
    return params
