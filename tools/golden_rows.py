"""Finds the same row in two lists, wherever it stands."""

from __future__ import annotations

import difflib
import json
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any

Pair = tuple[int | None, Any, int | None, Any]

# What makes a row the row it is, as far as it has these fields.
IDENTITY = (
    "code", "name", "short_name", "kind", "op", "phase", "module", "shape", "dtype", "device",
    "stream", "rank", "resource", "origin", "scope", "threads", "level", "machine", "kernel",
    "idle_cause", "case", "key", "label", "title", "cause", "rule",
)  # fmt: skip
NAMES = ("code", "name", "resource", "level", "machine", "kernel", "rule", "title")
# Longer lists of texts are matched as sets: finding their longest common parts takes too long.
LONG = 3000


def paired(a: list[Any], b: list[Any]) -> Iterator[Pair]:
    """Items of two lists that belong together; one that has no partner comes with None."""
    if any(isinstance(item, dict) for item in (*a, *b)):
        yield from _paired_rows(a, b)
    elif len(a) == len(b):
        yield from ((i, x, i, y) for i, (x, y) in enumerate(zip(a, b, strict=True)))
    elif max(len(a), len(b)) > LONG:
        yield from _matched(a, b, [_text])
    else:
        yield from _paired_texts(a, b)


def _paired_rows(a: list[Any], b: list[Any]) -> Iterator[Pair]:
    """The same row first, then the same identity, id and name; in the end what stands alike."""
    yield from _matched(a, b, [_text, _identity, _id, _name], rest_in_order=True)


def _text(item: Any) -> Hashable:
    return json.dumps(item, sort_keys=True)


def _identity(row: Any) -> Hashable:
    if not isinstance(row, dict):
        return None
    found = tuple((key, row[key]) for key in IDENTITY if isinstance(row.get(key), str | int))
    return found or None


def _id(row: Any) -> Hashable:
    return row.get("id") if isinstance(row, dict) else None


def _name(row: Any) -> Hashable:
    if not isinstance(row, dict):
        return None
    return next(((k, row[k]) for k in NAMES if isinstance(row.get(k), str | int)), None)


def _matched(
    a: list[Any],
    b: list[Any],
    keys: list[Callable[[Any], Hashable]],
    *,
    rest_in_order: bool = False,
) -> Iterator[Pair]:
    left, right = list(range(len(a))), list(range(len(b)))
    for key in keys:
        if not left or not right:
            break
        places: dict[Hashable, deque[int]] = defaultdict(deque)
        for j in right:
            places[key(b[j])].append(j)
        places.pop(None, None)
        still, taken = [], set()
        for i in left:
            same = places.get(key(a[i]))
            if not same:
                still.append(i)
                continue
            j = same.popleft()
            taken.add(j)
            yield i, a[i], j, b[j]
        left, right = still, [j for j in right if j not in taken]
    if rest_in_order and len(left) == len(right):
        yield from ((i, a[i], j, b[j]) for i, j in zip(left, right, strict=True))
        return
    yield from ((i, a[i], None, None) for i in left)
    yield from ((None, None, j, b[j]) for j in right)


def _paired_texts(a: list[Any], b: list[Any]) -> Iterator[Pair]:
    matcher = difflib.SequenceMatcher(None, [*map(_text, a)], [*map(_text, b)], autojunk=False)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        both = min(i_end - i, j_end - j)
        yield from ((i + n, a[i + n], j + n, b[j + n]) for n in range(both))
        yield from ((n, a[n], None, None) for n in range(i + both, i_end))
        yield from ((None, None, n, b[n]) for n in range(j + both, j_end))
