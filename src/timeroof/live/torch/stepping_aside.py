"""The program's own torch.profiler goes first: ours gives way from its warm-up to its end."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

# Both of torch's profilers go through these.
_STARTS = ("_prepare_trace", "_start_trace")
_END = "__exit__"


def step_aside(starts: Callable[[], None], ends: Callable[[], None]) -> Callable[[], None]:
    """Call us before a profiler of the program starts and after it ends; returns a way back."""
    import torch

    owner: Any = torch.autograd.profiler.profile
    kept = {name: getattr(owner, name) for name in (*_STARTS, _END)}
    for name in _STARTS:
        setattr(owner, name, _before(kept[name], starts))
    setattr(owner, _END, _after(kept[_END], ends))

    ours = {name: getattr(owner, name) for name in kept}

    def back() -> None:
        for name, original in kept.items():
            # What somebody else has put in place of ours stays.
            if getattr(owner, name) is ours[name]:
                setattr(owner, name, original)

    return back


def _before(original: Callable[..., Any], action: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            action()
        return original(*args, **kwargs)

    return call


def _after(original: Callable[..., Any], action: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            with contextlib.suppress(Exception):
                action()

    return call
