"""Other programs beside a study: which cases they disturbed, in one sentence."""

from __future__ import annotations

import statistics

import polars as pl

from timeroof.core.units import format_percent
from timeroof.study.factors.cases import busy, label, number


def busy_sentence(rows: pl.DataFrame) -> str:
    """How much others used while cases ran; nothing where they used little.

    >>> busy_sentence(pl.DataFrame({"label.load": ["0.500", "0.010"]}))[:49]
    'others used 50 % of the processor in 1 of 2 cases'
    """
    disturbed = [row for row in rows.to_dicts() if busy(row)]
    if not disturbed:
        return ""
    share = statistics.median(number(label(row, "load")) or 0.0 for row in disturbed)
    which = "this time is" if len(disturbed) == 1 else "these times are"
    return (
        f"others used {format_percent(share)} of the processor in {len(disturbed)} of"
        f" {rows.height} cases: {which} not the kernel's alone"
    )
