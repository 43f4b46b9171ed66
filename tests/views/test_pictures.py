"""Charts: points where the model says, labels apart, every format."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from timeroof.core.errors import UsageError
from timeroof.views.pictures import (
    Look,
    Roofs,
    Unit,
    combined_chart,
    complexity_plane,
    hierarchical_roofline,
    save_figure,
    time_plane,
)
from timeroof.views.pictures.charts import chart_points
from timeroof.views.pictures.frame import LegendEntry, drawable, log_limits, short_number

ROOFS = Roofs("peak", 100.0, "DRAM", 10.0, launch_s=0.01)
UNITS = [
    Unit("compute", 50.0, {"dram": 1.0}, 1.0, launches=2),
    Unit("memory", 5.0, {"dram": 5.0}, 1.0, launches=1, look=Look(filled=False)),
    Unit("zero", 0.0, {"dram": 5.0}, 1.0, launches=1),
    Unit("dark", 5.0, {}, 1.0),
]
LEGEND = [
    [LegendEntry("a", Look()), LegendEntry("box", Look(), dashed=True)],
    [LegendEntry("b", Look())],
]


def texts(figure: Figure) -> list[str]:
    return [t.get_text() for t in figure.axes[0].texts]


def test_roof_arithmetic() -> None:
    assert ROOFS.balance == 10.0
    without_work = Unit("n", 0.0, {"dram": 0.0}, 1.0)
    compute, _, zero, dark, nothing = ROOFS.time_points_s([*UNITS, without_work])
    assert compute == pytest.approx((0.2, 1.0))
    assert zero == (1.0, 0.0)
    assert not drawable(UNITS[3], "dram")
    assert all(math.isnan(v) for v in (*dark, *nothing))


def test_both_symbols_lie_on_one_diagonal_and_the_segment_is_the_headroom() -> None:
    [((x0, y0), (x1, y1))] = chart_points([UNITS[1]], ROOFS)
    assert y1 / x1 == pytest.approx(y0 / x0)
    memory_s = UNITS[1].bytes_at("dram") / ROOFS.bytes_per_s
    compute_s = UNITS[1].flops / ROOFS.flops_per_s
    headroom = UNITS[1].time_s / max(memory_s, compute_s)
    assert math.log10(x1 / x0) == pytest.approx(math.log10(headroom))


@pytest.mark.parametrize("chart", [combined_chart, complexity_plane, time_plane])
def test_units_without_flops_are_shown_and_marked(chart: object) -> None:
    figure = chart(UNITS, ROOFS, title="t", legend=LEGEND)  # type: ignore[operator]
    said = "\n".join(texts(figure))
    assert "on the axis: 1 without FLOPs" in said
    assert "not drawn: 1 without known bytes" in said


def test_the_roofline_counts_what_it_cannot_draw() -> None:
    figure = hierarchical_roofline(UNITS, {"FP32": 100.0}, {"DRAM": 10.0, "L2": 40.0})
    assert any("1 without FLOPs" in t for t in texts(figure))
    assert any("FP32" in t for t in texts(figure))


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_pictures_are_saved_and_repeat_byte_for_byte(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        save_figure(combined_chart(UNITS, ROOFS, legend=LEGEND), tmp_path / f"{name}.{suffix}")
    first, second = ((tmp_path / f"{n}.{suffix}").read_bytes() for n in "ab")
    assert len(first) > 1000
    assert first == second


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.png, \.svg, \.pdf"):
        save_figure(time_plane(UNITS, ROOFS), tmp_path / "a.bmp")
    assert list(tmp_path.iterdir()) == []


def test_labels_do_not_collide_with_symbols_or_one_another() -> None:
    crowd = [
        Unit(f"u{i}", 10.0 ** (i / 4), {"dram": 10.0 ** (j / 4)}, 10.0 ** (j / 4) / 5)
        for i in range(8)
        for j in range(8)
    ]
    figure = complexity_plane(crowd, ROOFS)
    FigureCanvasAgg(figure).draw()
    axes = figure.axes[0]
    boxes = [t.get_window_extent() for t in axes.texts if t.get_rotation() > 1]
    centres = [((b.x0 + b.x1) / 2, (b.y0 + b.y1) / 2) for b in boxes]
    symbols = axes.transData.transform([(u.bytes_at("dram"), u.flops) for u in crowd])
    for x, y in centres:
        assert min(math.hypot(x - sx, y - sy) for sx, sy in symbols) > 5
    for (ax, ay), (bx, by) in pairwise(centres):
        assert math.hypot(ax - bx, ay - by) > 8


def test_names_are_never_read_as_mathematics(tmp_path: Path) -> None:
    figure = combined_chart(
        UNITS, ROOFS, title=r"$\frac{bad", legend=[[LegendEntry("$x_{", Look())]]
    )
    save_figure(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").exists()


def test_axes_and_numbers() -> None:
    low, high = log_limits([1.0, 1.0])
    assert high / low == pytest.approx(10.0)
    assert log_limits([]) == pytest.approx((1 / 1.6, 16.0))
    assert short_number(0.0) == ""
    assert short_number(1000) == "1000"
