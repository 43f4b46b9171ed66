"""Which level of memory a comparison is drawn at: DRAM, or the nearest that all its cases use.

A warm case whose working set stays in a cache moves nothing at DRAM: that is known, and 0. Such
cases have no intensity there, so what is compared with them is looked at nearer to the cores.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from timeroof.study.factors.cases import Row, flops

DRAM = "dram"
# Away from the cores first.
LEVELS = (DRAM, "l3", "l2", "l1")


def bytes_at(row: Row, level: str) -> float | None:
    """Bytes of a row at a level, None where they are not known."""
    value = row.get(f"byte/{level}")
    return None if value is None else float(value)


def intensity_at(row: Row, level: str) -> float | None:
    """FLOP per byte at a level, None where there are no bytes or an amount is not known."""
    work, moved = flops(row), bytes_at(row, level)
    return work / moved if work is not None and moved else None


def level_of(rows: Sequence[Row], among: Collection[str] = LEVELS) -> str:
    """The level nearest to DRAM at which every row moves bytes, else that of most rows.

    >>> warm, large = {"byte/dram": 0.0, "byte/l1": 8.0}, {"byte/dram": 4.0, "byte/l1": 9.0}
    >>> level_of([large]), level_of([warm, large])
    ('dram', 'l1')
    """
    counts = {
        level: sum((bytes_at(row, level) or 0.0) > 0 for row in rows)
        for level in LEVELS
        if level in among
    }
    # The first of equal ones is the one nearest to DRAM.
    return max(counts, key=lambda level: counts[level], default=DRAM)


def level_title(level: str) -> str:
    """A level as it is written.

    >>> level_title("l1"), level_title("dram")
    ('L1', 'DRAM')
    """
    return level.upper()


def level_note(rows: Sequence[Row], level: str) -> str:
    """Why bytes are those of a cache and not of DRAM; nothing where they are DRAM's."""
    if level == DRAM:
        return ""
    none = sum(bytes_at(row, DRAM) == 0 for row in rows)
    unknown = sum(bytes_at(row, DRAM) is None for row in rows)
    told = [
        f"{none} of {len(rows)} cases move none at DRAM (they stay in the caches)" if none else "",
        f"DRAM bytes of {unknown} of {len(rows)} cases are not known" if unknown else "",
    ]
    why = ", ".join(text for text in told if text)
    return f"Bytes and FLOP/B are those at {level_title(level)}: {why}."
