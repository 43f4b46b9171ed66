"""Lines that guide the eye: constant intensity, machine balance, overhead boxes, equal times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from timeroof.views.pictures.frame import GRID_COLOUR, GUIDE_COLOUR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes

    from timeroof.views.pictures.labels import LabelPlacer
    from timeroof.views.pictures.points import Roofs, Unit


def intensity_diagonals(axes: Axes, balance: float, labels: LabelPlacer) -> None:
    """Thin lines of constant intensity per decade and a strong one at the machine balance."""
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    if y0 / x1 < balance < y1 / x0:
        _diagonal(axes, balance, GUIDE_COLOUR, 1.1)
        _label(axes, balance, f"balance {balance:.3g} FLOP/B", labels)
    low, high = math.ceil(math.log10(y0 / x1)), math.floor(math.log10(y1 / x0))
    step = max(1, (high - low) // 6)
    for power in range(low, high + 1, step):
        if abs(power - math.log10(balance)) > 0.3:
            _diagonal(axes, 10.0**power, GRID_COLOUR, 0.6)
            _label(axes, 10.0**power, _power_text(power), labels)


def _power_text(power: int) -> str:
    """A power of ten as a person writes it.

    >>> _power_text(-2), _power_text(3), _power_text(6)
    ('0.01', '1000', '10⁶')
    """
    if -4 < power < 5:
        return f"{10.0**power:g}"
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def balance_diagonal(axes: Axes) -> None:
    """The line of equal compute and bandwidth time."""
    _diagonal(axes, 1.0, GUIDE_COLOUR, 1.1)


def _span(axes: Axes, slope: float) -> tuple[float, float]:
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    return max(x0, y0 / slope), min(x1, y1 / slope)


def _diagonal(axes: Axes, slope: float, colour: str, width: float) -> None:
    left, right = _span(axes, slope)
    if right > left:
        axes.plot([left, right], [slope * left, slope * right], color=colour, lw=width, zorder=0.5)


def _label(axes: Axes, slope: float, text: str, labels: LabelPlacer) -> None:
    left, right = _span(axes, slope)
    if right > left:
        labels.write((left, slope * left), (right, slope * right), text)


def overhead_boxes(axes: Axes, units: Iterable[Unit], roofs: Roofs, *, seconds: bool) -> None:
    """Dashed boxes that a unit's launches fill, one per colour and number of launches."""
    if roofs.launch_s is None:
        return
    drawn = {(u.look.colour, u.launches) for u in units if u.launches > 0}
    (x0, _), (y0, _) = axes.get_xlim(), axes.get_ylim()
    for colour, launches in sorted(drawn):
        time_s = launches * roofs.launch_s
        x, y = (
            (time_s, time_s)
            if seconds
            else (
                time_s * roofs.bytes_per_s,
                time_s * roofs.flops_per_s,
            )
        )
        axes.plot(
            [x0, x, x], [y, y, y0], ls=(0, (4, 2.5)), lw=0.7, color=colour, alpha=0.75, zorder=1
        )


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
