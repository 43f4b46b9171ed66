"""Which resources a kernel uses at the same time, and which it must take in turn.

This is the only place that says so.

* FLOPs of every precision, bytes of every memory level, and links overlap: different
  units work at once, so together they take at least as long as the slowest (max).
* Page faults are handled while the kernel waits, but zeroing a page also moves its
  bytes towards the core: counting both in full could exceed the true time, so for a
  lower bound they overlap with the work (max).
* Launching overlaps with the work of earlier kernels where the device has a queue
  (asynchronous: max, the paper's rule). Where the caller itself runs the kernel
  (synchronous: a CPU in eager mode) it cannot launch and work at once (add).
"""

from __future__ import annotations

import polars as pl


def combined_bound(
    work_s: pl.Expr, fault_s: pl.Expr, launch_s: pl.Expr, *, asynchronous: bool
) -> pl.Expr:
    """The lower bound on the time of a row from its partial bounds; nulls are left out."""
    busy = pl.max_horizontal(work_s, fault_s)
    if asynchronous:
        return pl.max_horizontal(busy, launch_s)
    return pl.sum_horizontal(busy, launch_s, ignore_nulls=True)
