"""MKL's verbose lines: one per call, with routine, arguments and duration, without a time."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from timeroof.live.torch.recording import MklCall
from timeroof.live.torch.unseen import unseen

_LINE = re.compile(rb"MKL_VERBOSE ([A-Za-z0-9_]+)\((.*)\) ([0-9.]+)(ns|us|ms|s) ")
_UNIT_NS = {b"ns": 1.0, b"us": 1e3, b"ms": 1e6, b"s": 1e9}


class MklSwitch:
    """Switches MKL's lines on and off."""

    def __init__(self) -> None:
        self._verbose: Any = None

    def is_there(self) -> bool:
        """Whether torch is built with MKL."""
        import torch

        mkl: Any = torch.backends.mkl
        return bool(mkl.is_available())

    def on(self) -> None:
        """From now on every call writes a line; nothing happens where MKL refuses."""
        import torch

        mkl: Any = torch.backends.mkl
        if self.is_there():
            with suppress(RuntimeError):
                verbose = mkl.verbose(mkl.VERBOSE_ON)
                verbose.__enter__()
                self._verbose = verbose
                _warm()

    def off(self) -> None:
        """No more lines."""
        if self._verbose is not None:
            self._verbose.__exit__(None, None, None)
            self._verbose = None


def _warm() -> None:
    """The first call that writes a line measures the clock before it does, which takes long."""
    import torch

    with unseen():
        small = torch.zeros(4, 4, dtype=torch.float32, device="cpu")
        torch.mm(small, small)


def mkl_call(line: bytes) -> MklCall | None:
    """A call from its line; flags are the letters before the sizes, addresses are left out.

    >>> mkl_call(b"MKL_VERBOSE SGEMM(T,N,128,32,64,0x7f,0x55,64) 12.5us CNR:OFF Dyn:0")
    MklCall(routine='sgemm', flags='TN', sizes=(128, 32, 64), duration_ns=12500)
    """
    found = _LINE.match(line)
    if found is None:
        return None
    words = found[2].decode("ascii", "replace").split(",")
    flags = "".join(w for w in words[:4] if len(w) == 1 and w.isalpha()).upper()
    routine = found[1].decode("ascii", "replace").lower()
    try:
        duration_ns = int(float(found[3]) * _UNIT_NS[found[4]])
    except ValueError:
        return None
    return MklCall(routine, flags, _sizes(words[len(flags) :]), duration_ns)


def _sizes(words: list[str]) -> tuple[int, ...]:
    """The numbers before the first address."""
    sizes: list[int] = []
    for word in words:
        if not word.isdigit():
            break
        sizes.append(int(word))
    return tuple(sizes)
