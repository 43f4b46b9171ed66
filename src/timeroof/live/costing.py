"""Regions whose cost the user states: an annotation that carries the figures."""

from __future__ import annotations

import math
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import msgspec

from timeroof.core.errors import UsageError
from timeroof_recorder.torch import COST

LONGEST_SHOWN = 60


def cost(
    flops: float | dict[str, float] | None = None,
    bytes: float | None = None,  # noqa: A002
    *,
    name: str = "region",
) -> AbstractContextManager[None]:
    """State what a region of a program costs; it wins over what would be counted inside.

    with timeroof.cost(flops=2 * m * n * k, bytes=4 * (m * k + k * n + m * n), name="my kernel"):
        my_kernel(a, b)

    What is left out is unknown. A figure that is no number from 0 up is refused (`UsageError`).
    """
    by_format = flops if isinstance(flops, Mapping) else {"": flops}
    checked = {format_: _checked("flops", value) for format_, value in by_format.items()}
    stated_flops = checked if isinstance(flops, Mapping) else checked[""]
    return _region(name, stated_flops, _checked("bytes", bytes))


def _checked(what: str, value: object) -> float | None:
    """A figure as a plain number; those of NumPy and of tensors are numbers too."""
    if value is None:
        return None
    try:
        number = value if type(value) is int else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise UsageError(
            f"timeroof.cost: {what} is {_shown(value)}",
            advice="state a number from 0 up, or leave it out where it is unknown",
        )
    return number


def _shown(value: object) -> str:
    words = " ".join(repr(value).split())
    return words if len(words) <= LONGEST_SHOWN else f"{words[:LONGEST_SHOWN]}…"


@contextmanager
def _region(
    name: str, flops: float | dict[str, float | None] | None, size_bytes: float | None
) -> Iterator[None]:
    if "torch" not in sys.modules:
        yield
        return
    from torch.autograd.profiler import record_function

    with record_function(annotation(name, flops, size_bytes)):
        yield


def annotation(
    name: str, flops: float | Mapping[str, float | None] | None, size_bytes: float | None
) -> str:
    """The annotation's name: letters only, as torch writes names into its trace as they are."""
    readable = str(name).encode("utf-8", "replace").decode()
    figures = {"name": readable, "flops": flops, "bytes": size_bytes}
    data = msgspec.json.encode(figures, enc_hook=float)
    return COST + urlsafe_b64encode(data).decode()


def stated(name: str) -> dict[str, object] | None:
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
