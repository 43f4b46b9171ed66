"""Which oneDNN primitives ran in a case: the one that does the work, and the reorders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from timeroof.live.torch.primitive_rows import MOVERS
from timeroof.live.torch.primitives import PrimitivePass
from timeroof.live.torch.recording import PrimitiveSeen, Recording
from timeroof.live.torch.timing import Timing

_ALGORITHM = "alg:"


def primitives_of(run: Callable[[], Any]) -> list[PrimitiveSeen] | None:
    """The primitives of one execution; None where this torch has no oneDNN."""
    watching = PrimitivePass(Timing())
    if not watching.start():
        return None
    try:
        run()
    except BaseException:
        watching.abort()
        raise
    seen = watching.stop(Recording())
    return [] if seen is None else seen.primitives


def primitive_labels(found: Sequence[PrimitiveSeen] | None) -> dict[str, str]:
    """Reorders (how many, how long) and the implementation that took longest.

    >>> seen = [PrimitiveSeen(("reorder", "jit:uni"), 0, 2000)]
    >>> primitive_labels(seen)
    {'reorders': '1', 'reorder_s': '2e-06'}
    """
    if found is None:
        return {}
    reorders = [p for p in found if p.words[0] == "reorder"]
    labels = {
        "reorders": str(len(reorders)),
        "reorder_s": f"{sum(p.duration_ns for p in reorders) / 1e9:.6g}",
    }
    workers = [p for p in found if p.words[0] not in MOVERS and len(p.words) > 1]
    if workers:
        main = max(workers, key=lambda p: p.duration_ns)
        labels["implementation"] = f"{main.words[0]} {main.words[1]}".strip()
        words = [w for w in main.words if w.startswith(_ALGORITHM)]
        if words:
            labels["algorithm"] = words[0].removeprefix(_ALGORITHM)
    return labels
