"""Regions whose cost the user states: an annotation that carries the figures."""

from __future__ import annotations

import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
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
    with torch.autograd.profiler.record_function(annotation(name, flops, bytes)):
        yield


def annotation(name: str, flops: float | dict[str, float] | None, size_bytes: float | None) -> str:
    """The annotation's name. Torch writes names into its trace as they are, so it is letters only.

    >>> stated(annotation('a "b"', {"fp32": 2}, None))
    {'name': 'a "b"', 'flops': {'fp32': 2}, 'bytes': None}
    """
    readable = str(name).encode("utf-8", "replace").decode()
    figures = {"name": readable, "flops": flops, "bytes": size_bytes}
    # Figures of NumPy and of tensors are numbers too.
    data = msgspec.json.encode(figures, enc_hook=float)
    return COST + urlsafe_b64encode(data).decode()


def stated(name: str) -> dict[str, Any] | None:
    """The figures in an annotation's name, or None where it is another one.

    >>> stated("timeroof#cost#not ours"), stated("aten::mm")
    (None, None)
    """
    if not name.startswith(COST):
        return None
    try:
        found = msgspec.json.decode(urlsafe_b64decode(name.removeprefix(COST)))
    except (ValueError, msgspec.MsgspecError):
        return None
    return found if isinstance(found, dict) and "name" in found else None
