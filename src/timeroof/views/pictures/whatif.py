"""Predicted time of a run on several machines: stacked by limiter, with the interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeroof.core.errors import UsageError
from timeroof.core.units import format_seconds
from timeroof.views.pictures import frame
from timeroof.views.style import LIMITER_COLOURS, LIMITER_WORDS, clip, plain_line
from timeroof.views.whatif import OUTSIDE, split_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from timeroof.model.whatif.project import WhatIf

ROW, FOOT, HEAD = 0.36, 0.78, 0.42
OUTSIDE_COLOUR = "#C4C4C4"


@dataclass(frozen=True)
class Bar:
    """One machine: seconds by what limits them, and the ends of the interval (None: measured)."""

    name: str
    seconds: Mapping[str, float]
    bound_s: float | None = None
    interval_s: tuple[float, float] | None = None

    @property
    def total_s(self) -> float:
        """Seconds of the whole bar."""
        return sum(self.seconds.values())

    @property
    def end_s(self) -> float:
        """Where the bar or its interval ends."""
        return max(self.total_s, self.interval_s[1] if self.interval_s else 0.0)


def machine_bars(bars: Sequence[Bar], *, title: str = "") -> Figure:
    """One bar per machine to a common scale; a whisker is the interval, a tick the bound."""
    from matplotlib.figure import Figure

    height = HEAD + ROW * len(bars) + FOOT
    size = frame.FigureSize(width=7.0, height=height)
    with frame.styled():
        figure = Figure(figsize=(size.width, size.height), dpi=size.dpi)
        wide, high = (size.width - 2.6) / size.width, ROW * len(bars) / height
        axes = figure.add_axes((1.5 / size.width, FOOT / height, wide, high))
        longest = max((bar.end_s for bar in bars), default=1.0) or 1.0
        for place, bar in enumerate(bars):
            _draw(axes, bar, place, longest)
        _frame(axes, bars, longest)
        _legend(figure, bars)
        style = {"ha": "center", "va": "top", "fontsize": 8, "color": frame.TEXT_COLOUR}
        figure.text(0.5, 1 - 0.08 / height, title, style)
    return figure


def _draw(axes: Axes, bar: Bar, place: int, longest: float) -> None:
    left = 0.0
    for kind, seconds in bar.seconds.items():
        if seconds > 0:
            colour = LIMITER_COLOURS.get(kind, OUTSIDE_COLOUR)
            axes.barh(place, seconds, left=left, height=0.6, color=colour, linewidth=0)
            left += seconds
    if bar.interval_s is not None and bar.interval_s[1] > bar.interval_s[0]:
        low, high = bar.interval_s
        axes.plot([low, high], [place, place], color=frame.TEXT_COLOUR, lw=1.0, zorder=4)
        for end in (low, high):
            axes.plot(
                [end, end], [place - 0.14, place + 0.14], color=frame.TEXT_COLOUR, lw=1.0, zorder=4
            )
    if bar.bound_s:
        ends = ([bar.bound_s] * 2, [place - 0.38, place + 0.38])
        axes.plot(*ends, color=frame.TEXT_COLOUR, lw=1.4, ls=":", zorder=5)
    words = format_seconds(bar.total_s)
    if bar.interval_s is not None:
        words += f" ({' to '.join(map(format_seconds, bar.interval_s))})"
    axes.text(
        bar.end_s + 0.012 * longest, place, words, va="center", fontsize=7,
        color=frame.TEXT_COLOUR, clip_on=False,
    )  # fmt: skip


def _frame(axes: Axes, bars: Sequence[Bar], longest: float) -> None:
    axes.set_xlim(0, longest * 1.02)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars])
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(lambda value, _: frame.short_number(value, "s") or "0")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _legend(figure: Figure, bars: Sequence[Bar]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kinds = [
        k
        for k in [*LIMITER_COLOURS, OUTSIDE]
        if any(b.seconds.get(k, 0) > 1e-3 * b.total_s for b in bars)
    ]
    handles: list[Line2D | Patch] = [
        Patch(color=LIMITER_COLOURS.get(k, OUTSIDE_COLOUR), label=LIMITER_WORDS.get(k, k))
        for k in kinds
    ]
    handles.append(Line2D([], [], color=frame.TEXT_COLOUR, lw=1.0, label="interval"))
    handles.append(Line2D([], [], color=frame.TEXT_COLOUR, lw=1.4, ls=":", label="bound"))
    figure.legend(
        handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=6.5,
        handlelength=1.2, columnspacing=1.1, labelcolor=frame.GUIDE_COLOUR,
    )  # fmt: skip


def bars_figure(result: WhatIf) -> Figure:
    """Measured and predicted seconds by limiter, with intervals and bounds."""
    totals = result.report.totals
    if totals.ladder.measured_s is None:
        raise _untimed()
    now = split_seconds(totals.by_limiter, totals.ladder.measured_s)
    bars = [Bar(f"{_short(result.here.name)} (measured)", now, totals.bound_s)]
    for p in result.projections:
        if p.predicted_s is None or p.low_s is None or p.high_s is None:
            raise _untimed()
        seconds = split_seconds(p.by_limiter, p.predicted_s)
        bars.append(Bar(_short(p.machine.name), seconds, p.bound_s, (p.low_s, p.high_s)))
    return machine_bars(bars, title="the same work on other machines (a model)")


def _untimed() -> UsageError:
    return UsageError(
        "nothing was timed in this run, so there is nothing to draw",
        advice="write html, md or json: they have the bounds",
    )


def _short(name: str) -> str:
    return clip(plain_line(name), 24)
