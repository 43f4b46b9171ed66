"""Two small compiled loops whose events are counted, to know what recording one costs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

# Turns of the loops, and sides of their matrices: a kernel of about a microsecond, and of ten.
TURNS, CLOSE, APART = 100, 16, 96


def close_kernels(jax: ModuleType) -> Callable[[], None]:
    """Kernels that follow one another closely."""
    return _loop(jax, CLOSE)


def kernels_apart(jax: ModuleType) -> Callable[[], None]:
    """The same with kernels of ten microseconds."""
    return _loop(jax, APART)


def _loop(jax: Any, side: int) -> Callable[[], None]:
    """A compiled loop of products and sums; it leaves nothing in the program's own cache."""
    import numpy as np  # JAX has it loaded

    config = sys.modules["jax._src.config"]
    api = sys.modules["jax._src.api"]
    lax = jax.lax
    value = np.full((side, side), 1 / side, np.float32)

    def turn(_: object, y: Any) -> Any:
        z = lax.dot(y, y)
        return lax.sort(z, dimension=0) + y

    with config.enable_compilation_cache(False):
        program = api.jit(lambda x: lax.fori_loop(0, TURNS, turn, x)).lower(value).compile()
    stages = sys.modules["jax._src.stages"]
    call = stages.Compiled.__call__
    call = getattr(call, "__wrapped__", call)
    given = jax.device_put(value)

    def run() -> None:
        jax.block_until_ready(call(program, given))

    return run
