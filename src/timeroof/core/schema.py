"""Schema numbers: `name/number`, refused with a clear word where newer than this version."""

from __future__ import annotations

from typing import Any

from timeroof.core.errors import SchemaError


def check_schema(found: Any, expected: str, where: str) -> None:
    """Accept `expected` and older numbers of the same name; refuse everything else."""
    name, _, newest = expected.partition("/")
    if not isinstance(found, str) or not found:
        raise SchemaError(
            f"'schema' is missing, expected {expected!r}",
            where=where,
            advice="is this the right kind of file?",
        )
    found_name, _, number = found.partition("/")
    if found_name != name or not number.isdecimal() or int(number) < 1:
        raise SchemaError(f"'schema' is {found!r}, expected {expected!r}", where=where)
    if int(number) > int(newest):
        raise SchemaError(
            f"'schema' is {found!r}, newer than {expected!r} which this timeroof reads",
            where=where,
            advice="update timeroof: git pull in its repository, then pip install .",
        )
