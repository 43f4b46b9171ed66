"""The combined chart of a run as a picture, by the rule of the page.

A ring is the work of a kernel, the disc joined to it the time it took; kernels of one name are one
symbol, and the longest are named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.model.totals import device_count, of_limit, shares_of_bounds
from timeroof.views.pictures import frame
from timeroof.views.pictures.charts import second_axes
from timeroof.views.pictures.frame import Look, Roofs, Unit
from timeroof.views.pictures.marks import Label, place_labels
from timeroof.views.style import LIMITERS, PALETTE, clip, plain_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from timeroof.core.report import Report

# Axes hold the discs of this share of the time, and the rings of that.
FITTED, RINGED = 0.99, 0.95
# Symbols in points: a ring, and discs by the area of their time.
RING, SMALLEST = 4.6, 5.0
MOST_GROUPS = 150
Place = tuple[float, float]


@dataclass(frozen=True)
class Width:
    """How wide a picture is, in inches, and how many kernels it names."""

    size: frame.FigureSize
    named: int
    letters: int
    # The diameter of the longest kernel's disc, in points.
    largest: float


WIDTHS = {
    "single": Width(frame.FigureSize(width=3.5, height=3.9), 5, 20, 12.0),
    "double": Width(frame.FigureSize(width=7.2, height=6.2), 5, 34, 21.0),
}


@dataclass(frozen=True)
class Group:
    """Kernels of one name: their work, time and bound together, and where both are drawn."""

    name: str
    time_s: float
    # How many times its limit it took, as on the first screen; None where too little is known.
    over: float | None
    work: Place
    timed: Place
    look: Look
    limit: str = "unknown"

    def words(self, whole_s: float, letters: int, *, few: bool) -> list[str]:
        """Name, time with its share, and how many times its limit it took."""
        over = (
            "" if self.over is None else f", {times_text(self.over)}{'' if few else ' its limit'}"
        )
        share = "" if few else f" ({format_percent(self.time_s / whole_s)})"
        return [clip(self.name, letters), f"{format_seconds(self.time_s)}{share}{over}"]


def times_text(over: float) -> str:
    """A ratio as the chart writes it.

    >>> times_text(1.55), times_text(31.2)
    ('1.6×', '31×')
    """
    return f"{over:.0f}×" if over >= 10 else f"{over:.1f}×"


def groups_of(report: Report, roofs: Roofs, look: Look | None = None) -> list[Group]:
    """The kernels of a report that have a place on the chart, the longest first.

    A study's cases are no kernels of one program: each is a group of its own.
    """
    moved = f"byte/{roofs.level}"
    rows = report.rows
    if moved not in rows.columns:
        return []
    placed = rows.filter(
        (pl.col("time_s") > 0) & pl.col("owed_flops").is_not_null() & pl.col(moved).is_not_null()
    ).filter(pl.col("owed_flops") + pl.col(moved) > 0)
    devices = device_count(report.profile, rows)
    key = pl.when(pl.col("kind") == "unit").then(pl.col("id").cast(pl.String))
    amounts = ("time_s", "owed_flops", moved)
    table = (
        placed.with_columns(key.otherwise(pl.col("short_name")).alias("group"))
        .group_by("group", maintain_order=True)
        .agg(
            pl.col("short_name").first(),
            pl.col(amounts).sum() / devices,
            pl.col("limit").sort_by("time_s", descending=True).first(),
            *shares_of_bounds(),
        )
        .with_columns(of_limit())
        .sort("time_s", descending=True)
    )
    found = list(table.head(MOST_GROUPS).iter_rows(named=True))
    units = [
        Unit(r["short_name"] or "", r["owed_flops"], {roofs.level: r[moved]}, r["time_s"])
        for r in found
    ]
    times = roofs.time_points_s(units)
    return [
        Group(
            plain_line(row["short_name"] or "?"),
            row["time_s"],
            1 / row["of_limit"] if row["of_limit"] else None,
            (row[moved], row["owed_flops"]),
            (bandwidth_s * roofs.bytes_per_s, compute_s * roofs.flops_per_s),
            look or Look(LIMITERS[row["limit"]].print, LIMITERS[row["limit"]].marker),
            row["limit"],
        )
        for row, (bandwidth_s, compute_s) in zip(found, times, strict=True)
    ]


def run_chart(
    reports: Sequence[Report], roofs: Roofs, *, title: str, legend: frame.Legend,
    width: str = "double", annotate: bool = False,
) -> Figure:  # fmt: skip
    """One run's kernels by what limits them, or those of several with a colour per run."""
    chosen = WIDTHS[width]
    several = len(reports) > 1
    groups = [
        group
        for index, report in enumerate(reports)
        for group in groups_of(
            report, roofs, Look(PALETTE[index % len(PALETTE)]) if several else None
        )
    ]
    groups.sort(key=lambda group: -group.time_s)
    whole_s = sum(report.totals.ladder.measured_s or 0.0 for report in reports) or 1.0
    margins = frame.Margins(left=0.62, right=0.78, top=0.72, bottom=0.52)
    with frame.styled():
        figure, axes = frame.new_figure(chosen.size, title, legend, margins)
        floor = _axes(axes, groups, chosen.size)
        pace = (roofs.memory_name, roofs.compute_name)
        second_axes(
            axes, roofs, (f"time at {pace[0]} speed (disc)", f"time at {pace[1]} speed (disc)")
        )
        _regions(axes, roofs, narrow=width == "single")
        _launch_corner(axes, roofs)
        seen = [_above(group, floor) for group in groups]
        discs = Discs(max((group.time_s for group in groups), default=1.0), chosen.largest)
        for group in seen:
            _draw(axes, group, discs)
        labels = _names(axes, seen, whole_s, chosen, discs)
        if annotate and seen:
            # A narrow picture has no room for five names and three callouts.
            named = labels[:2] if width == "single" else labels
            labels = [*named, *_example(axes, seen, roofs, discs)]
        symbols = [(g.timed, discs.size(g) / 2) for g in seen] + [(g.work, RING / 2) for g in seen]
        place_labels(axes, labels, symbols)
        _missing(axes, reports, whole_s, roofs)
    return figure


def _axes(axes: Axes, groups: Sequence[Group], size: frame.FigureSize) -> float | None:
    """Axes with decades of one length around most of the time; where no FLOPs stand on them."""
    kept = _holding(groups, FITTED)
    ringed = {id(group) for group in _holding(groups, RINGED)}
    points = [g.timed for g in kept] + [g.work for g in kept if id(g) in ringed]
    y_low = min((y for _, y in points if y > 0), default=1.0)
    floor = y_low / 10**0.4 if any(g.work[1] == 0 for g in groups) else None
    xs = [math.log10(x) for x, _ in points if x > 0] or [0.0]
    ys = [math.log10(max(y, floor or 1.0)) for _, y in points] or [0.0]
    axes.set_xlabel("")
    box = axes.get_position()
    ratio = (box.width * size.width) / (box.height * size.height)
    dx, dy = (max(v) - min(v) + 0.8 for v in (xs, ys))
    dy = max(dy, 1.6, dx / ratio)
    dx = dy * ratio
    for values, span, set_limits in ((xs, dx, axes.set_xlim), (ys, dy, axes.set_ylim)):
        middle = (min(values) + max(values)) / 2
        set_limits(10 ** (middle - span / 2), 10 ** (middle + span / 2))
    frame.decade_axis(axes.xaxis, "B", axes.get_xlim())
    frame.decade_axis(axes.yaxis, "", axes.get_ylim())
    axes.set_ylabel("FLOPs (ring)")
    if floor is not None:
        axes.axhline(floor, color=frame.GUIDE_COLOUR, lw=0.6, ls=(0, (2, 3)), zorder=0.6)
        axes.annotate(
            "no FLOPs", (0.01, floor), xycoords=("axes fraction", "data"), xytext=(0, 2),
            textcoords="offset points", fontsize=5.5, color=frame.GUIDE_COLOUR,
        )  # fmt: skip
    return floor


def _holding(groups: Sequence[Group], share: float) -> list[Group]:
    """The longest groups that hold a share of the time of all, five at least."""
    kept: list[Group] = []
    whole, held = sum(g.time_s for g in groups), 0.0
    for group in groups:
        if held >= share * whole and len(kept) >= 5:
            break
        kept.append(group)
        held += group.time_s
    return kept


def _above(group: Group, floor: float | None) -> Group:
    """What has no FLOPs stands on the line of none."""
    if group.work[1] > 0 or floor is None:
        return group
    return Group(
        group.name, group.time_s, group.over, (group.work[0], floor), (group.timed[0], floor),
        group.look,
    )  # fmt: skip


def _regions(axes: Axes, roofs: Roofs, *, narrow: bool) -> None:
    """Tinted and named sides of the balance line, and faint lines of equal intensity."""
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    line = [x0 * roofs.balance, x1 * roofs.balance]
    for kind, under, over in (("compute", line, [y1, y1]), ("memory", [y0, y0], line)):
        axes.fill_between(
            [x0, x1], under, over, color=LIMITERS[kind].print, linewidth=0, zorder=0, alpha=0.06
        )
    for power in range(math.ceil(math.log10(y0 / x1)), math.floor(math.log10(y1 / x0)) + 1):
        slope = 10.0**power
        axes.plot([x0, x1], [x0 * slope, x1 * slope], color=frame.GRID_COLOUR, lw=0.5, zorder=0.3)
    axes.plot([x0, x1], line, color=frame.GUIDE_COLOUR, lw=1.1, zorder=0.5)
    axes.set_xlim(x0, x1)
    axes.set_ylim(y0, y1)
    names = (("compute", 0.02, 0.975, "left", "top"), ("memory", 0.98, 0.025, "right", "bottom"))
    for kind, x, y, ha, va in names:
        text = kind.upper() if narrow else f"{kind.upper()} is the limit"
        axes.text(
            x, y, text, transform=axes.transAxes, ha=ha, va=va, fontsize=7.5, fontweight="bold",
            color=LIMITERS[kind].print, zorder=2,
        )  # fmt: skip
    low, high = max(x0, y0 / roofs.balance), min(x1, y1 / roofs.balance)
    if high / low > 10:
        at = low * (high / low) ** 0.12
        axes.text(
            at, at * roofs.balance, f"{roofs.balance:.3g} FLOP per byte", rotation=45,
            rotation_mode="anchor", fontsize=5.5, color=frame.GUIDE_COLOUR, ha="left", va="bottom",
            zorder=1,
        )  # fmt: skip


def _launch_corner(axes: Axes, roofs: Roofs) -> None:
    """What takes less time than launching it: one shaded corner."""
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    if roofs.launch_s is None:
        return
    x, y = roofs.launch_s * roofs.bytes_per_s, roofs.launch_s * roofs.flops_per_s
    if x <= x0 or y <= y0:
        return
    x, y = min(x, x1), min(y, y1)
    colour = LIMITERS["launch"].print
    axes.fill_between([x0, x], [y0, y0], [y, y], color=colour, alpha=0.12, linewidth=0, zorder=0.2)
    wide = math.log(x / x0) / math.log(x1 / x0)
    if wide > 0.35:
        axes.annotate(
            f"less than one launch ({format_seconds(roofs.launch_s, 2)})", (x, y), xytext=(-3, -3),
            textcoords="offset points", ha="right", va="top", fontsize=5.5,
            color=frame.GUIDE_COLOUR, zorder=1,
        )  # fmt: skip


@dataclass(frozen=True)
class Discs:
    """The diameter of a disc: its area is time, and it is never smaller than a ring."""

    longest_s: float
    largest: float

    def size(self, group: Group) -> float:
        """In points."""
        return max(SMALLEST, self.largest * math.sqrt(group.time_s / self.longest_s))


def _draw(axes: Axes, group: Group, discs: Discs) -> None:
    (x, y), (tx, ty), look = group.work, group.timed, group.look
    axes.plot([x, tx], [y, ty], color=look.colour, lw=1.1, alpha=0.6, zorder=3)
    axes.plot(
        [tx], [ty], ls="", marker=look.marker, ms=discs.size(group), mfc=look.colour, mec="white",
        mew=0.4, alpha=0.88, zorder=4,
    )  # fmt: skip
    axes.plot(
        [x], [y], ls="", marker=look.marker, ms=RING, mfc="white", mec=look.colour, mew=1.0,
        zorder=5,
    )  # fmt: skip


def _names(
    axes: Axes, groups: Sequence[Group], whole_s: float, width: Width, discs: Discs
) -> list[Label]:
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    few = width is WIDTHS["single"]
    inside = [g for g in groups if x0 <= g.timed[0] <= x1 and y0 <= g.timed[1] <= y1]
    return [
        Label(
            group.timed,
            discs.size(group) / 2,
            group.words(whole_s, width.letters, few=few),
        )
        for group in inside[: width.named]
    ]


def _example(axes: Axes, groups: Sequence[Group], roofs: Roofs, discs: Discs) -> list[Label]:
    """Three callouts on the kernel with the most lost time whose symbols stand apart."""
    pixels = axes.transData.transform

    def apart(group: Group) -> float:
        (ax, ay), (bx, by) = pixels([group.work, group.timed])
        return math.hypot(ax - bx, ay - by) / axes.figure.dpi * 72

    worst = [g for g in groups if g.over and g.over > 1.2 and apart(g) > 26 and g.work[1] > 0]
    if not worst:
        return []
    group = max(worst, key=lambda g: g.time_s * (1 - 1 / (g.over or 1.0)))
    (x, y), (tx, ty) = group.work, group.timed
    if tx / roofs.bytes_per_s >= ty / roofs.flops_per_s:
        equal = f"what {format_amount(tx, 'B', 2)} would take"
    else:
        equal = f"what {format_amount(ty, 'FLOP', 2)} would take"
    middle = (math.sqrt(x * tx), math.sqrt(y * ty))
    work = f"{format_amount(x, 'B', 2)}, {format_amount(y, 'FLOP', 2)}"
    return [
        Label((x, y), 10, ["① the work it has to do:", work], callout=True),
        Label(
            (tx, ty), discs.size(group) / 2 + 8,
            [f"② the time it took: {format_seconds(group.time_s, 2)},", equal], callout=True,
        ),
        Label(
            middle, 10, [f"③ the line is lost time: {times_text(group.over or 1.0)} too slow"],
            callout=True, colour=group.look.colour,
        ),
    ]  # fmt: skip


def _missing(axes: Axes, reports: Sequence[Report], whole_s: float, roofs: Roofs) -> None:
    """Below the axis: what it counts, and the share of the time that is not on the chart."""
    lost_s = sum(_lost_s(report, roofs) for report in reports)
    words = f"bytes moved at {roofs.memory_name} (ring)"
    if lost_s > 0.005 * whole_s:
        share = format_percent(lost_s / whole_s)
        words += f"\n{share} of the run is not drawn: kernels without a FLOP or byte count"
    axes.set_xlabel(words)


def _lost_s(report: Report, roofs: Roofs) -> float:
    """Seconds of rows that have no place on the chart."""
    moved = f"byte/{roofs.level}"
    rows = report.rows
    known = pl.col("owed_flops").is_not_null()
    known &= pl.col(moved).is_not_null() if moved in rows.columns else pl.lit(False)
    lost = rows.filter(~known)["time_s"].sum()
    return float(lost or 0.0) / device_count(report.profile, rows)
