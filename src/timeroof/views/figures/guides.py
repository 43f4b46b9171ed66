"""Lines that guide the eye: constant intensity, machine balance, overhead boxes, equal times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from timeroof.views.figures.frame import GRID_COLOUR, GUIDE_COLOUR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes

    from timeroof.views.figures.points import Roofs, Unit


def diagonal_angle(axes: Axes) -> float:
    """Angle on paper, in degrees, of a line of slope one in log-log axes."""
    box = axes.get_window_extent()
    wide = math.log10(axes.get_xlim()[1] / axes.get_xlim()[0])
    high = math.log10(axes.get_ylim()[1] / axes.get_ylim()[0])
    return math.degrees(math.atan2(box.height / high, box.width / wide))


def intensity_diagonals(axes: Axes, balance: float, unit: str = "FLOP/B") -> None:
    """Thin lines of constant intensity per decade and a strong one at the machine balance."""
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    low, high = math.ceil(math.log10(y0 / x1)), math.floor(math.log10(y1 / x0))
    step = max(1, (high - low) // 6)
    for power in range(low, high + 1, step):
        if abs(power - math.log10(balance)) > 0.25:
            _diagonal(axes, 10.0**power, GRID_COLOUR, 0.6, f"{10.0**power:g}")
    if y0 / x1 < balance < y1 / x0:
        text = f"balance {balance:.3g} {unit}" if unit else ""
        _diagonal(axes, balance, GUIDE_COLOUR, 1.1, text)


def _diagonal(axes: Axes, slope: float, colour: str, width: float, text: str) -> None:
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    left, right = max(x0, y0 / slope), min(x1, y1 / slope)
    if right <= left:
        return
    axes.plot([left, right], [slope * left, slope * right], color=colour, lw=width, zorder=0.5)
    # Written at the lower left end, where no unit's time can lie above its work.
    at = left * (right / left) ** 0.04
    if text and math.log10(right / left) > 0.5:
        axes.text(
            at,
            slope * at,
            text,
            rotation=diagonal_angle(axes),
            rotation_mode="anchor",
            transform_rotates_text=False,
            fontsize=5.5,
            color=GUIDE_COLOUR,
            va="bottom",
            ha="left",
            zorder=0.6,
            clip_on=True,
        )


def overhead_boxes(axes: Axes, units: Iterable[Unit], roofs: Roofs, *, seconds: bool) -> None:
    """Dashed boxes that a unit's launches fill, one per colour and number of launches."""
    if roofs.launch_s is None:
        return
    drawn = {(u.look.colour, u.launches) for u in units if u.launches > 0}
    (x0, _), (y0, _) = axes.get_xlim(), axes.get_ylim()
    for colour, launches in sorted(drawn):
        time_s = launches * roofs.launch_s
        x, y = (time_s, time_s) if seconds else (
            time_s * roofs.bytes_per_s,
            time_s * roofs.flops_per_s,
        )
        axes.plot([x0, x, x], [y, y, y0], ls=(0, (4, 2.5)), lw=0.7, color=colour, alpha=0.75,
                  zorder=1)


def equal_time_corners(axes: Axes) -> None:
    """L-shaped lines of equal run time, one per decade."""
    low = min(axes.get_xlim()[0], axes.get_ylim()[0])
    high = max(axes.get_xlim()[1], axes.get_ylim()[1])
    for power in np.arange(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
        t = 10.0**power
        axes.plot(
            [axes.get_xlim()[0], t, t],
            [t, t, axes.get_ylim()[0]],
            color=GRID_COLOUR,
            lw=0.6,
            zorder=0.5,
        )
