"""Two small graphs whose events are counted, to know what recording one costs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

# Turns of the loops, and sides of their matrices: a kernel of about a microsecond, and of ten.
TURNS, CLOSE, APART = 60, 8, 96


def close_nodes() -> Callable[[], None]:
    """Nodes that follow one another closely."""
    return _chain(CLOSE)


def nodes_apart() -> Callable[[], None]:
    """The same with products of ten microseconds."""
    return _chain(APART)


def _chain(side: int) -> Callable[[], None]:
    tf = sys.modules["tensorflow"]
    given = tf.fill((side, side), 1.0 / side)

    def chain(x: Any) -> Any:
        for _ in range(TURNS):
            x = tf.tanh(tf.linalg.matmul(x, given))
        return x

    made = tf.function(chain, autograph=False).get_concrete_function(given)

    def run() -> None:
        made(given)

    return run
