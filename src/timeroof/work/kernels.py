"""Formulas for single kernels of an op whose record does not tell its work.

An engine's fused op may hide its weights, but the kernels that it launched have names and
grids: tiles times blocks are sizes. What follows from them is inferred, never counted. A
formula here stands for one launch of one kernel, not for the whole op.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from timeroof.work.args import UncountableError
from timeroof.work.call import Call
from timeroof.work.cost import Cost, possible, unknown
from timeroof.work.counting import STUMBLES
from timeroof.work.registry import load_families, plain_name
from timeroof.work.user import stated_cost

Grid = tuple[int, ...]


class Kernel(msgspec.Struct, frozen=True):
    """A kernel's name, and the telling kernels of the same call with their grids, in order."""

    name: str
    launched: tuple[tuple[str, Grid], ...] = ()

    @property
    def grid(self) -> Grid | None:
        """The grid of this kernel, where it is the only one of its name in the call."""
        found = [g for n, g in self.launched if n == self.name]
        return found[0] if len(set(found)) == 1 else None


KernelFunction = Callable[[Call, Kernel], Cost]
_KERNELS: dict[str, KernelFunction] = {}


def kernel_formula(*ops: str) -> Callable[[KernelFunction], KernelFunction]:
    """Register a function that counts the kernels of these ops one by one."""

    def register(function: KernelFunction) -> KernelFunction:
        _KERNELS.update(dict.fromkeys(ops, function))
        return function

    return register


def count_kernel(call: Call, kernel: Kernel) -> Cost | None:
    """The cost of one launch; None where the op is counted as a whole. Never raises."""
    load_families()
    function = _KERNELS.get(plain_name(call.op))
    if function is None or stated_cost(call) is not None:
        return None
    try:
        return possible(function(call, kernel))
    except UncountableError as error:
        return unknown(f"{call.op}: {error.reason}")
    except STUMBLES as error:
        return unknown(f"{call.op}: malformed arguments ({type(error).__name__})")
