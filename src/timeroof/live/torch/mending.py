"""Execution traces that are no JSON: torch writes names and texts into them unescaped.

Every node begins with a line of its number, its name and its parent, and has one line each for
inputs, outputs and attributes. So names can be told from what surrounds them, and a node
whose tensors cannot be read still has its place among the others.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

_HEAD = re.compile(
    r'^ *\{\n *"id": (\d+), "name": "(.*?)", "ctrl_deps": (\d+),\n', re.MULTILINE | re.DOTALL
)
_PARTS = re.compile(r'^ *"(inputs|outputs|attrs)": (.*?),?$', re.MULTILINE)


def mended_nodes(text: str) -> list[dict[str, Any]]:
    r"""The nodes of a trace, read one by one; parts that cannot be read are left out.

    >>> mended_nodes('{\n "id": 3, "name": "a "b"", "ctrl_deps": 1,\n "attrs": []\n }')
    [{'id': 3, 'name': 'a "b"', 'ctrl_deps': 1, 'attrs': []}]
    """
    heads = list(_HEAD.finditer(text))
    ends = [h.start() for h in heads[1:]] + [len(text)]
    return [_node(h, text[h.end() : end]) for h, end in zip(heads, ends, strict=True)]


def _node(head: re.Match[str], body: str) -> dict[str, Any]:
    node: dict[str, Any] = {"id": int(head[1]), "name": head[2], "ctrl_deps": int(head[3])}
    for part in _PARTS.finditer(body):
        try:
            node[part[1]] = msgspec.json.decode(part[2].encode())
        except msgspec.DecodeError:
            continue
    return node
