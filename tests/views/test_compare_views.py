"""Pages and pictures of compare and whatif: whole, escaped, drawn without overlap."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import make_machine
from tests.model.test_whatif import faster
from timeroof.api.reports import analyze
from timeroof.core.errors import InputError, UsageError
from timeroof.core.profile import Profile, Source
from timeroof.core.report import Report
from timeroof.model.compare.compare import compare
from timeroof.model.whatif.project import what_if
from timeroof.views.compare import comparison_figure
from timeroof.views.compare_page import (
    SUFFIXES,
    comparison_outputs,
    whatif_outputs,
    write_folder,
    write_output,
)
from timeroof.views.page.payload import first_level
from timeroof.views.pictures.charts import FASTER, MOST_ARROWS, SAME, Move, colour_of
from timeroof.views.pictures.frame import Unit, themed_svg
from timeroof.views.pictures.of_report import bars_figure
from timeroof.views.render import check_suffix

HOSTILE = "</svg><script>alert(1)</script>|`*_[x](y) $a$ \x1b[31m\u202e"


def run(factor: float = 1.0, rows: int = 12, name: str = "k", **more: Any) -> Report:
    table = [
        {
            "name": f"{name}{i}",
            "op": f"aten::op{i}",
            "time_s": factor * 1.4**i,
            "flop/fp32": 0.0 if i == 3 else 50.0 * 1.4**i,
            "byte/dram": 1.4**i,
            "launches": 1.0,
            "phase": "forward",
        }
        for i in range(rows)
    ]
    return analyze(Profile.of(table, Source(tool="t")), make_machine(), **more)


def numbers(figure: Any) -> list[Any]:
    """The numbers of arrows; those along diagonals are not bold."""
    return [t for t in figure.axes[0].texts if t.get_fontweight() == "bold"]


def test_only_the_largest_changes_get_arrows_and_numbers() -> None:
    a, b = run(), run(0.5)
    figure = comparison_figure(compare(a, b), a, b)
    assert [t.get_text() for t in numbers(figure)] == [str(i + 1) for i in range(MOST_ARROWS)]
    key = [t.get_text() for t in figure.texts if "→" in t.get_text()]
    assert any("k11" in text for text in key)
    assert not any(re.search(r"\bk0\b", text) for text in key)


def test_numbers_do_not_overlap_one_another() -> None:
    a, b = run(), run(0.5)
    figure = comparison_figure(compare(a, b), a, b)
    figure.canvas.draw()
    places = np.array([t.get_window_extent().get_points().mean(axis=0) for t in numbers(figure)])
    gaps = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    gaps[np.diag_indices(len(places))] = np.inf
    assert gaps.min() > 5 * figure.dpi / 72


def test_runs_that_are_the_same_have_no_arrow_and_say_so() -> None:
    a = run()
    figure = comparison_figure(compare(a, a), a, a)
    assert not numbers(figure)
    assert any("no kernel changed" in t.get_text() for t in figure.axes[0].texts)


def test_without_roofs_there_is_no_chart_but_a_page() -> None:
    bare = analyze(Profile.of([{"name": "k", "time_s": 1.0}], Source(tool="t")), None)
    result = compare(bare, bare)
    with pytest.raises(InputError, match="--machine"):
        comparison_figure(result, bare, bare)
    page = comparison_outputs(result, bare, bare).page()
    assert "<svg" not in page
    assert "No machine is known" in page


def test_the_level_that_most_time_moves_bytes_at_is_drawn() -> None:
    row = {"name": "k", "time_s": 1.0, "flop/fp32": 1.0, "byte/dram": 0.0, "byte/l2": 5.0}
    cached = analyze(Profile.of([row], Source(tool="t")), make_machine())
    assert first_level(cached) == "byte/l2"
    assert first_level(run()) == "byte/dram"


def test_names_stay_text_on_pages_and_in_pictures() -> None:
    a, b = run(name=HOSTILE), run(0.5, name=HOSTILE)
    result = compare(a, b, (HOSTILE, HOSTILE))
    made = comparison_outputs(result, a, b)
    page = made.page()
    assert page.count("<script") == 2
    assert "\x1b" not in page
    assert "\u202e" not in page
    # The chart is drawn by the page's script, so that a picture in the file could only be a name.
    assert page.count("<svg") == page.count("</svg>") == 0
    assert "<script" not in made.markdown()
    there = whatif_outputs(what_if(a, [faster(flop_fp32=2.0), make_machine(name=HOSTILE)]))
    assert there.page().count("<script") == 2
    assert "<script" not in there.markdown()


def test_pictures_on_pages_take_the_colours_of_the_page() -> None:
    a, b = run(), run(0.5)
    svg = themed_svg(comparison_figure(compare(a, b), a, b), "p0", 'a "picture"')
    assert "var(--ink)" in svg
    assert "#000000" not in svg
    assert "#ffffff" not in svg
    assert 'aria-label="a &#34;picture&#34;"' in svg
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert all(i.startswith("p0-") for i in ids)
    for used in re.findall(r"url\(#([^)]+)\)", svg) + re.findall(r'href="#([^"]+)"', svg):
        assert used in ids


def test_a_page_loads_nothing_and_runs_nothing() -> None:
    a, b = run(), run(0.5)
    page = comparison_outputs(compare(a, b), a, b).page()
    assert "default-src 'none'" in html.unescape(page)
    assert not re.search(r"(src|href)=\"(?!#|data:,)", page)
    assert "@media (prefers-color-scheme: dark)" in page


@pytest.mark.slow
def test_every_form_is_written(tmp_path: Path) -> None:
    a, b = run(), run(0.5)
    made = comparison_outputs(compare(a, b), a, b)
    for suffix in ("html", "png", "svg", "pdf", "md", "json"):
        write_output(made, tmp_path / f"x.{suffix}")
        assert (tmp_path / f"x.{suffix}").stat().st_size > 100
    write_folder(made, tmp_path / "all")
    assert {p.name for p in (tmp_path / "all").iterdir()} == {
        "compare.html", "compare.json", "compare.md", "compare.png",
    }  # fmt: skip
    there = whatif_outputs(what_if(a, [faster(flop_fp32=2.0), make_machine()]))
    write_folder(there, tmp_path / "if")
    assert {p.name for p in (tmp_path / "if").iterdir()} == {
        "whatif.html", "whatif.json", "whatif.md",
        "machines.png",
    }  # fmt: skip
    write_output(there, tmp_path / "all.pdf")
    with pytest.raises(UsageError, match="suffix"):
        check_suffix(tmp_path / "x.doc", SUFFIXES)


def test_bars_have_one_line_per_machine_and_intervals() -> None:
    bars = bars_figure(what_if(run(), [faster(flop_fp32=2.0), faster(byte_dram=3.0)])).axes[0]
    names = [t.get_text() for t in bars.get_yticklabels()]
    assert names == ["toy (measured)", "other", "other"]
    assert len(bars.patches) >= 3


def test_next_to_nothing_at_dram_draws_the_next_level() -> None:
    rows = [
        {"name": "mm", "time_s": 1.0, "flop/fp32": 9.0, "byte/dram": dram, "byte/l2": 1e3}
        for dram in (1e-3, 0.0)
    ]
    made = analyze(Profile.of(rows, Source(tool="t")), make_machine())
    assert first_level(made) == "byte/l2"


def test_what_does_not_move_is_grey_and_colours_have_a_key() -> None:
    unit, faster_unit = Unit("k", 1.0, {"dram": 1.0}, 2.0), Unit("k", 1.0, {"dram": 1.0}, 1.0)
    assert colour_of(Move(unit, unit, "")) == SAME
    assert colour_of(Move(unit, faster_unit, "")) == FASTER
    a, b = run(1.0), run(2.0)
    words = {t.get_text() for t in comparison_figure(compare(a, b), a, b).texts}
    assert {"faster", "slower", "unchanged"} <= words
