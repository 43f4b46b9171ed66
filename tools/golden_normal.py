"""What of a command's results is kept as a golden: all but what changes from run to run."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
import math
import re
from array import array
from pathlib import Path
from typing import Any

# Fields of ours that say when, by which version and how we were called.
VOLATILE = ("created", "command")
DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d| UTC)?")
VERSION = re.compile(r"timeroof \d+\.\d+\.\d+\w*")
PAGE_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
NOT_READ = re.compile(r"<(script|style|svg)\b.*?</\1>", re.DOTALL)
TAG = re.compile(r"<[^>]+>")


def plain(text: str, folders: dict[str, str]) -> str:
    """Text without dates, our version and folders of this machine."""
    for folder, name in folders.items():
        text = text.replace(folder, name)
    return VERSION.sub("timeroof <version>", DATE.sub("<date>", text))


def lines(text: str, folders: dict[str, str]) -> list[str]:
    """Lines that say something, each without what is volatile."""
    return [line.rstrip() for line in plain(text, folders).splitlines() if line.strip()]


def kept_file(path: Path, folders: dict[str, str]) -> Any:
    """What a written file holds, by its suffix: JSON, a table, the page's data and words."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return kept_document(json.loads(text))
    if path.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(plain(text, folders))))
    if path.suffix == ".html":
        return kept_page(text, folders)
    return lines(text, folders)


def kept_document(document: Any) -> Any:
    """A document without what is volatile.

    >>> kept_document({"version": "1", "source": {"version": "2", "command": "x"}})
    {'version': '<version>', 'source': {'version': '2', 'command': '<command>'}}
    """
    document = _masked(document)
    if isinstance(document, dict) and "version" in document:
        document["version"] = "<version>"
    return document


def _masked(node: Any) -> Any:
    if isinstance(node, list):
        return [_masked(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: f"<{key}>" if key in VOLATILE and isinstance(value, str) else _masked(value)
        for key, value in node.items()
    }


def kept_page(text: str, folders: dict[str, str]) -> dict[str, Any]:
    """A page's data as rows, and the words that a reader sees."""
    found = PAGE_DATA.search(text)
    words = html.unescape(TAG.sub("\n", NOT_READ.sub("", text)))
    return {
        "data": _rows_of_columns(json.loads(found[1])) if found else None,
        "words": lines(words, folders),
    }


def _rows_of_columns(node: Any) -> Any:
    """Columns of the page as rows, so that a row can be found again where the order changed.

    >>> _rows_of_columns({"a": {"v": [1, 2]}, "b": {"d": ["x"], "i": [0, -1]}, "n": 2})
    {'n': 2, 'rows of columns': [{'a': 1, 'b': 'x'}, {'a': 2, 'b': None}]}
    """
    if isinstance(node, list):
        return [_rows_of_columns(item) for item in node]
    if not isinstance(node, dict):
        return node
    columns = {key: value for key, value in node.items() if _is_column(value)}
    rest = {key: _rows_of_columns(v) for key, v in node.items() if key not in columns}
    if not columns:
        return rest
    height = max(len(_listed(c)) for c in columns.values()) or 1
    cells = {key: _cells(column, height) for key, column in columns.items()}
    rows = [dict(zip(cells, values, strict=True)) for values in zip(*cells.values(), strict=True)]
    return rest | {"rows of columns": rows}


def _is_column(value: Any) -> bool:
    return isinstance(value, dict) and set(value) in ({"v"}, {"f"}, {"c"}, {"d", "i"})


def _listed(column: dict[str, Any]) -> list[Any]:
    """The cells of a column that is no constant; floats with six digits."""
    if "f" in column:
        floats = array("f", base64.b64decode(column["f"]))
        return [None if math.isnan(value) else float(f"{value:.6g}") for value in floats]
    return list(column.get("v", column.get("i", ())))


def _cells(column: dict[str, Any], height: int) -> list[Any]:
    if "c" in column:
        return [column["c"]] * height
    if "d" not in column:
        return _listed(column)
    words = column["d"]
    return [words[i] if i >= 0 else None for i in column["i"]]
