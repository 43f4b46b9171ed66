"""All ranks side by side: what each one's time goes to, and who stands out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from timeroof.core.units import format_seconds
from timeroof.model.fleet import outliers

if TYPE_CHECKING:
    from timeroof.core.profile import RankTotals
    from timeroof.core.report import Report

# The drawing's own units; it is stretched to the width of the page.
WIDTH, HEIGHT = 1000.0, 100.0
# Names of ranks that stand out, at the most.
NAMED = 6
FIELDS = {
    "wall_s": "run time",
    "kernel_s": "kernels",
    "communication_s": "communication",
    "idle_s": "idle",
}


class Layer(msgspec.Struct, frozen=True):
    """One part of all ranks' time, as the outline of its area."""

    key: str
    label: str
    path: str


class Line(msgspec.Struct, frozen=True):
    """One kind of seconds over all ranks: the least, the median, the most, and who stands out."""

    label: str
    least: str
    middle: str
    most: str
    slowest: int
    standing_out: str


class RankStrip(msgspec.Struct, frozen=True):
    """A column per rank, and a line per kind of seconds."""

    count: int
    first: int
    last: int
    longest: str
    layers: list[Layer]
    lines: list[Line]


def rank_strip(report: Report) -> RankStrip | None:
    """The strip of a report of several ranks; None of one."""
    ranks = sorted(report.profile.ranks, key=lambda rank: rank.rank)
    if len(ranks) < 2:
        return None
    lines = [line for field in FIELDS if (line := _line(ranks, field)) is not None]
    longest_s = max((r.wall_s or r.kernel_s or 0.0 for r in ranks), default=0.0)
    return RankStrip(
        len(ranks), ranks[0].rank, ranks[-1].rank, format_seconds(longest_s),
        _layers(ranks, longest_s), lines,
    )  # fmt: skip


def _line(ranks: Sequence[RankTotals], field: str) -> Line | None:
    known = sorted((value, r.rank) for r in ranks if (value := getattr(r, field)) is not None)
    if len(known) < len(ranks) or not any(value for value, _ in known):
        return None
    far = outliers(ranks, field)
    more = f" and {len(far) - NAMED} more" if len(far) > NAMED else ""
    return Line(
        FIELDS[field], format_seconds(known[0][0]), format_seconds(known[len(known) // 2][0]),
        format_seconds(known[-1][0]), known[-1][1],
        ", ".join(f"rank {rank}" for rank in far[:NAMED]) + more,
    )  # fmt: skip


def _layers(ranks: Sequence[RankTotals], longest_s: float) -> list[Layer]:
    """Kernels at the bottom, communication above, idle at the top; heights in the drawing."""
    if longest_s <= 0:
        return []
    exposed = [min(r.communication_s or 0.0, r.kernel_s or 0.0) for r in ranks]
    computing = [(r.kernel_s or 0.0) - e for r, e in zip(ranks, exposed, strict=True)]
    edges = [[0.0] * len(ranks)]
    parts = (
        ("compute", "kernels", computing),
        ("communication", "communication", exposed),
        ("idle", "idle", [r.idle_s or 0.0 for r in ranks]),
    )  # fmt: skip
    layers = []
    for key, label, seconds in parts:
        tops = [low + s / longest_s for low, s in zip(edges[-1], seconds, strict=True)]
        if any(s > 0 for s in seconds):
            layers.append(Layer(key, label, _outline(edges[-1], tops)))
        edges.append(tops)
    return layers


def _outline(lows: Sequence[float], tops: Sequence[float]) -> str:
    """A path round columns of equal width, from left to right above and back below."""
    width = WIDTH / len(lows)
    above = [f"{i * width:.1f},{_y(t)} {(i + 1) * width:.1f},{_y(t)}" for i, t in enumerate(tops)]
    below = [f"{(i + 1) * width:.1f},{_y(b)} {i * width:.1f},{_y(b)}" for i, b in enumerate(lows)]
    return f"M{' L'.join(above)} L{' L'.join(reversed(below))}Z"


def _y(share: float) -> str:
    return f"{HEIGHT * (1 - min(1.0, share)):.1f}"
