"""Whether other programs had the CPUs while this one wanted them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

# Shares of waiting below this are the ordinary comings and goings of a system.
LEAST_WAITING = 0.05


def waiting_share(root: Path = Path("/")) -> float | None:
    """The share of their runnable time that this process' threads waited for a CPU.

    Linux counts it for every thread (`schedstat`); None elsewhere.
    """
    ran_ns = waited_ns = 0
    for task in (root / "proc/self/task").glob("*/schedstat"):
        # A thread may end while it is looked at.
        with suppress(OSError, ValueError):
            ran, waited, *_ = map(int, task.read_text().split())
            ran_ns += ran
            waited_ns += waited
    return waited_ns / (ran_ns + waited_ns) if ran_ns > 0 else None


def contention_note(share: float | None) -> str | None:
    """A word where others held the CPUs.

    >>> contention_note(0.01) is contention_note(None) is None
    True
    """
    if share is None or share < LEAST_WAITING:
        return None
    return (
        f"the program's threads waited {share:.0%} of their time for a CPU, as other programs (or"
        " more threads than CPUs) had them: times are not this program's alone"
    )
