"""Differences of two folders of goldens, grouped by command, field and kind of change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from golden_rows import paired

SUFFIX = ".golden.json"
# Objects whose keys are data: their fields are one kind of field.
MAPS = frozenset(
    {
        "labels", "flops", "bytes", "origin", "origins", "bounds", "idle_by_cause", "by_limiter",
        "measured_by_limiter", "software", "emulated", "variants", "roofs", "printed", "amounts",
    }
)  # fmt: skip
PREFIXES = ("label.", "origin.")
SHOWN_CHARACTERS = 100


@dataclass(frozen=True)
class Difference:
    """One field that differs: `path` is general, `place` is exact."""

    path: str
    place: str
    kind: str
    before: Any = None
    after: Any = None
    relative: float = 0.0


@dataclass
class Group:
    """Differences of one kind in one field of one command."""

    command: str
    path: str
    kind: str
    example: Difference
    example_file: str
    count: int = 0
    files: set[str] = field(default_factory=set)
    largest: float = 0.0

    def add(self, file: str, difference: Difference) -> None:
        """Count one more; the largest change is the example."""
        self.count += 1
        self.files.add(file)
        if difference.relative > self.largest:
            self.largest = difference.relative
            self.example, self.example_file = difference, file


def compare_folders(a: Path, b: Path, *, rtol: float = 0.0, most: int = 60) -> int:
    """Print the groups of differences; 0 where there are none."""
    before, after = _goldens(a), _goldens(b)
    groups: dict[tuple[str, str, str], Group] = {}
    for name in sorted(before.keys() | after.keys()):
        for found in _file_differences(before.get(name), after.get(name), rtol):
            command = name.split("/")[0]
            key = (command, found.path, found.kind)
            groups.setdefault(key, Group(*key, found, name)).add(name, found)
    changed = {name for group in groups.values() for name in group.files}
    ordered = sorted(groups.values(), key=lambda g: (-len(g.files), -g.count, g.command, g.path))
    for group in ordered[:most]:
        print(told(group))
    if len(ordered) > most:
        print(f"… and {len(ordered) - most} more groups (--most)")
    total = sum(group.count for group in ordered)
    print(
        f"{total} differences in {len(changed)} of {len(before.keys() | after.keys())} goldens,"
        f" in {len(ordered)} groups"
    )
    return 1 if groups else 0


def _goldens(folder: Path) -> dict[str, Path]:
    return {
        path.relative_to(folder).as_posix().removesuffix(SUFFIX): path
        for path in folder.rglob(f"*{SUFFIX}")
    }


def _file_differences(a: Path | None, b: Path | None, rtol: float) -> Iterator[Difference]:
    if a is None or b is None:
        yield Difference("(golden)", "", "removed" if b is None else "added")
        return
    before, after = a.read_bytes(), b.read_bytes()
    if before != after:
        yield from differences(json.loads(before), json.loads(after), rtol=rtol)


def told(group: Group) -> str:
    """A group in two lines: what and how often, then one example."""
    largest = f", by at most {group.largest:.3g}" if group.largest else ""
    files = f"{len(group.files)} file{'s' if len(group.files) != 1 else ''}"
    head = f"{group.command:8} {group.path}: {group.kind}, {group.count} in {files}{largest}"
    shown = group.example
    values = " -> ".join(
        _short(value)
        for value, absent in ((shown.before, "added"), (shown.after, "removed"))
        if shown.kind != absent
    )
    return f"{head}\n           {group.example_file}  {shown.place}: {values}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def differences(
    a: Any, b: Any, path: str = "", place: str = "", *, rtol: float = 0.0
) -> Iterator[Difference]:
    """All fields in which two JSON values differ.

    >>> [(d.path, d.kind) for d in differences({"a": 1, "b": "x"}, {"a": 2, "c": None})]
    [('a', 'number changed'), ('b', 'removed'), ('c', 'added')]
    """
    if isinstance(a, dict) and isinstance(b, dict):
        yield from _object_differences(a, b, path, place, rtol)
    elif isinstance(a, list) and isinstance(b, list):
        yield from _list_differences(a, b, path, place, rtol)
    else:
        changed = _leaf_difference(a, b, rtol)
        if changed is not None:
            kind, relative = changed
            yield Difference(path, place, kind, a, b, relative)


def _object_differences(
    a: dict[str, Any], b: dict[str, Any], path: str, place: str, rtol: float
) -> Iterator[Difference]:
    is_map = path.rpartition(".")[2].removesuffix("[]") in MAPS
    for key in sorted(a.keys() | b.keys()):
        inner = _joined(path, "*" if is_map else general_key(key))
        exact = _joined(place, key)
        if key not in b:
            yield Difference(inner, exact, "removed", before=a[key])
        elif key not in a:
            yield Difference(inner, exact, "added", after=b[key])
        else:
            yield from differences(a[key], b[key], inner, exact, rtol=rtol)


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def general_key(key: str) -> str:
    """A key of a row without what differs from program to program.

    >>> [general_key(key) for key in ("time_s", "byte/dram", "label.outer_op")]
    ['time_s', 'byte/*', 'label.*']
    """
    for prefix in PREFIXES:
        if key.startswith(prefix):
            return f"{prefix}*"
    head, slash, _ = key.partition("/")
    return f"{head}/*" if slash else key


def _list_differences(
    a: list[Any], b: list[Any], path: str, place: str, rtol: float
) -> Iterator[Difference]:
    inner = f"{path}[]"
    if len(a) != len(b) and _numbers(a) and _numbers(b):
        # Which number went where cannot be told: one difference, not one per place.
        yield Difference(path, place, "length changed", len(a), len(b))
        return
    for i, before, j, after in paired(a, b):
        if i is None:
            yield Difference(inner, f"{place}[{j}]", "added", after=after)
        elif j is None:
            yield Difference(inner, f"{place}[{i}]", "removed", before=before)
        else:
            yield from differences(before, after, inner, f"{place}[{i}]", rtol=rtol)


def _numbers(items: list[Any]) -> bool:
    return all(_is_number(item) for item in items)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _leaf_difference(a: Any, b: Any, rtol: float) -> tuple[str, float] | None:
    """Kind of the change and, of numbers, how large it is by the larger of the two."""
    if _is_number(a) and _is_number(b):
        if a == b or (a != a and b != b):  # noqa: PLR0124 - NaN is the same as NaN here
            return None
        relative = abs(a - b) / max(abs(a), abs(b))
        return None if relative <= rtol else ("number changed", relative)
    if type(a) is type(b):
        return None if a == b else (f"{_type(a)} changed", 0.0)
    return (f"{_type(a)} became {_type(b)}", 0.0)


def _type(value: Any) -> str:
    if value is None:
        return "null"
    if _is_number(value):
        return "number"
    names = {str: "text", bool: "flag", list: "list", dict: "object"}
    return names[type(value)]
