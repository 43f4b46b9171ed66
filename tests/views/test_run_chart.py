"""The combined chart of a run as a picture: the page's rule, named kernels, widths for papers."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tests.views.samples import step_report
from timeroof.api.reports import save
from timeroof.cli.main import main
from timeroof.core.report import Report
from timeroof.views.overview import overview
from timeroof.views.pictures.of_report import chart_roofs, report_figure
from timeroof.views.pictures.run_chart import groups_of
from timeroof.views.style import LIMITERS
from timeroof.views.title import run_title


@pytest.fixture(scope="module")
def report() -> Report:
    return step_report()


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts if text.get_text()]


def test_the_title_is_the_program_and_the_longest_kernels_are_named(report: Report) -> None:
    figure = report_figure([report])
    title = figure.texts[0].get_text()
    assert title.startswith(run_title(report))
    assert overview(report).time in title
    said = texts(figure)
    for kernel in overview(report).kernels[:3]:
        assert kernel.name[:20] in "\n".join(said)
        assert any(line.startswith(f"{kernel.time} ({kernel.percent})") for line in said)


def test_a_ring_is_work_and_a_disc_is_time_and_the_symbol_says_the_limit(report: Report) -> None:
    roofs = chart_roofs(report)
    assert roofs is not None
    axes = report_figure([report]).axes[0]
    symbols = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
    rings = [line for line in symbols if line.get_markerfacecolor() == "white"]
    discs = [line for line in symbols if line.get_markerfacecolor() != "white"]
    groups = groups_of(report, roofs)
    assert len(rings) == len(discs) == len(groups)
    assert len({ring.get_markersize() for ring in rings}) == 1
    assert all(d.get_markersize() >= rings[0].get_markersize() for d in discs)
    by_time = [disc.get_markersize() for disc in discs]
    assert by_time == sorted(by_time, reverse=True)
    markers = {look.print: look.marker for look in LIMITERS.values()}
    assert all(d.get_marker() == markers[d.get_markerfacecolor()] for d in discs)
    assert LIMITERS["compute"].marker, LIMITERS["memory"].marker == ("o", "s")


def test_decades_are_square(report: Report) -> None:
    axes = report_figure([report]).axes[0]
    one, ten = axes.transData.transform([(1e6, 1e6), (1e7, 1e7)])
    assert ten[0] - one[0] == pytest.approx(ten[1] - one[1], rel=1e-6)


@pytest.mark.parametrize("width", ["single", "double"])
@pytest.mark.parametrize("annotate", [False, True])
def test_texts_lie_inside_the_picture(report: Report, width: str, annotate: bool) -> None:
    figure = report_figure([report], width=width, annotate=annotate)
    FigureCanvasAgg(figure).draw()
    wide, high = figure.get_size_inches() * figure.dpi
    for text in [*figure.axes[0].texts, *figure.texts]:
        if text.get_text():
            box = text.get_window_extent()
            assert box.x0 >= -2, text
            assert box.x1 <= wide + 2, text
            assert 0 <= box.y0 <= box.y1 <= high + 2, text
    said = "".join(texts(figure))
    assert all((sign in said) == annotate for sign in "①②③")


def test_widths_are_those_of_a_paper(report: Report) -> None:
    assert report_figure([report], width="single").get_size_inches()[0] == 3.5
    assert report_figure([report], width="double").get_size_inches()[0] == 7.2


def test_options_of_pictures_are_refused_for_tables(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "r.troof"
    save(report, run)
    assert main(["report", str(run), "-o", str(tmp_path / "r.csv"), "--annotate"]) == 2
    assert "are for pictures" in capsys.readouterr().err
    assert not (tmp_path / "r.csv").exists()
    picture = tmp_path / "r.svg"
    assert main(["report", str(run), "-o", str(picture), "--annotate", "--width", "single"]) == 0
    assert "the work it has to do" in picture.read_text("utf-8")
