"""Words and paths of a command line as they are, without a validation library.

Newer versions of typer import pydantic to turn each word into a str or a Path, which takes
longer than reading a small file. Of such parameters there is nothing to validate; numbers,
choices and flags stay with typer, and so does everything in versions that work otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

_PLAIN: dict[Any, Callable[[str], Any]] = {
    str: str,
    Path: Path,
    list[str]: str,
    list[Path]: Path,
}
# What a parameter may ask of a path or word beyond being one.
_CHECKS = ("exists", "resolve_path", "writable", "parser", "click_type", "path_type")


@dataclass(frozen=True)
class PlainWords:
    """In the place of typer's conversion: the same results for words that are there or not."""

    convert: Callable[[str], Any]

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """A value of the command line, or what stands for none."""
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        return [self.convert(word) for word in value] if many else self.convert(value)


class PlainCommand(TyperCommand):
    """A command whose words and paths are taken as they are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Settle how words are converted, then parse."""
        for param in self.params:
            _take_plainly(param)
        return super().parse_args(ctx, args)


def _take_plainly(param: Any) -> None:
    descriptor: Any = getattr(param, "type_descriptor", None)
    convert = _PLAIN.get(getattr(descriptor, "annotation", None))
    if convert is None or getattr(param, "_runtime_param", param) is not None:
        return
    if not any(getattr(descriptor.parameter_info, check, None) for check in _CHECKS):
        param._runtime_param = PlainWords(convert)
