"""Regions whose cost the user states: an annotation that carries the figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

COST = "timeroof#cost#"


@contextmanager
def cost(
    flops: float | dict[str, float] | None = None,
    bytes: float | None = None,  # noqa: A002
    *,
    name: str = "region",
) -> Iterator[None]:
    """State what a region of a program costs; it wins over what would be counted inside.

    with timeroof.cost(flops=2 * m * n * k, bytes=4 * (m * k + k * n + m * n), name="my kernel"):
        my_kernel(a, b)
    """
    torch: Any = sys.modules.get("torch")
    if torch is None:
        yield
        return
    figures = {"name": name, "flops": flops, "bytes": bytes}
    with torch.autograd.profiler.record_function(COST + msgspec.json.encode(figures).decode()):
        yield


def stated(name: str) -> dict[str, Any] | None:
    """The figures in an annotation's name, or None where it is another one.

    >>> stated('timeroof#cost#{"name":"x","flops":2,"bytes":null}')
    {'name': 'x', 'flops': 2, 'bytes': None}
    """
    if not name.startswith(COST):
        return None
    found: dict[str, Any] = msgspec.json.decode(name.removeprefix(COST))
    return found
