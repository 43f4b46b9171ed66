"""The folder of a study: a page that stands alone, with charts, tables and the conclusions."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import polars as pl
import pytest

from tests.study.factor_samples import (
    Truth,
    algorithm_truths,
    batch_sweep,
    declared,
    launch_truths,
    layout_truths,
    precision_truths,
    study_report,
    working_set_truths,
)
from timeroof.api.reports import load
from timeroof.core.errors import InputError
from timeroof.paper.build import build_paper
from timeroof.study.case import Case, Result
from timeroof.study.factors import conclude, conclusions
from timeroof.study.output.charted import HEADS, panel_lines
from timeroof.study.output.factor_charts import factor_charts, gain_chart, ratio_chart
from timeroof.study.output.page import write_study
from timeroof.study.output.sweeps import beside, overlay_of, panels
from timeroof.study.report import Study

HOSTILE = "<script>alert(1)</script>\u202e\"'&$x^2$"


def study_of(
    truths: list[Truth], *, failures: list[Result] | None = None, **options: object
) -> Study:
    report = study_report(truths, **options)  # type: ignore[arg-type]
    rows = declared(report.rows, truths)
    report = replace(report, findings=tuple(conclude(rows, report.machine)))
    return Study(
        report=report,
        rows=rows,
        failures=failures or [],
    )


def everything() -> list[Truth]:
    return [
        *launch_truths(),
        *layout_truths(),
        *algorithm_truths(),
        *precision_truths(),
    ]


def paper_like() -> list[Truth]:
    """The paper's batch sweep of conv2d on this machine, with a layout that the paper has not."""
    return [
        Truth(
            "conv2d",
            {"batch": b, "filters": 64, "kernel": 3, "stride": 2, "layout": "contiguous"},
            b * 1e-3,
            b * 2e8,
            b * 5e6,
        )
        for b in (16, 32, 48)
    ]


class Texts(HTMLParser):
    """Tags, addresses and texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [v or "" for k, v in attrs if k in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(path: Path) -> Texts:
    page = Texts()
    page.feed(path.read_text("utf-8"))
    return page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study")
    write_study(study_of(everything()), path)
    return path


def test_the_page_stands_alone(folder: Path) -> None:
    page = parsed(folder / "index.html")
    assert page.tags.count("script") == 2
    beside = {p.name for p in folder.iterdir()}
    for address in page.addresses:
        assert address.startswith(("data:,", "#")) or address in beside
    text = (folder / "index.html").read_text("utf-8")
    assert "default-src &#39;none&#39;" in text
    assert "prefers-color-scheme: dark" in text
    assert not list(folder.rglob("pictures"))


def test_every_picture_is_sound_svg_in_the_colours_of_the_page(folder: Path) -> None:
    text = (folder / "index.html").read_text("utf-8")
    pictures = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(pictures) > 4
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert not [e for e in root.iter() if e.tag.endswith("script")]
        assert "var(--" in picture
        assert "#ffffff" not in picture.lower()


def chart_data(page: Path) -> dict[str, Any]:
    """What the page's script draws its charts from."""
    text = page.read_text("utf-8").partition('id="data">')[2].partition("</script>")[0]
    return dict(json.loads(text)["charts"])


def test_every_kernel_has_a_large_chart_and_every_sweep_a_small_one(tmp_path: Path) -> None:
    study = study_of(paper_like())
    page = write_study(study, tmp_path, overlay=build_paper())
    charts = chart_data(page)
    text = page.read_text("utf-8")
    assert all(f'data-chart="{key}"' in text for key in charts)
    combined, sweep = charts["combined-0"], charts["sweep-0-0"]
    assert [frame["label"] for frame in combined["frames"]] == [
        "batch",
        "paper's V100: 120 rows",
    ]
    own = [c for c in combined["frames"][0]["cases"] if not c["other"]]
    assert [c["name"] for c in own] == ["batch 16", "batch 32", "batch 48"]
    rows = {row.time_s: row for row in study.rows}
    for case in own:
        row = rows[case["time_s"]]
        assert case["bound_s"] == row.bound_s
        # The slower of its two times is the time that it took.
        assert max(case["bandwidth_time_s"], case["compute_time_s"]) == pytest.approx(row.time_s)
    theirs = [c for c in sweep["frames"][0]["cases"] if c["other"]]
    assert sorted(c["time_s"] for c in theirs) == [353e-6, 657e-6]
    assert sweep["other"] == "paper's V100"


def test_every_factor_is_told_with_its_verdict(folder: Path) -> None:
    text = parsed(folder / "index.html").text
    for head in (
        "Cache locality",
        "Auto-tuning",
        "Launch overhead",
        "Matrix units",
        "Arithmetic intensity",
    ):
        assert head in text
    for head in HEADS:
        assert head in text


def test_the_json_and_the_run_can_be_read_again(folder: Path) -> None:
    document = msgspec.json.decode((folder / "study.json").read_bytes())
    codes = {finding["code"] for finding in document["findings"]}
    assert codes == {
        f"study/{n}" for n in ("intensity", "locality", "autotune", "launch", "precision")
    }
    launch = next(f for f in document["findings"] if f["code"] == "study/launch")
    assert launch["evidence"]["cost_per_launch_s"] == pytest.approx(4e-6, rel=0.2)
    assert len(load(folder / "study.troof").profile) == len(document["kernels"])
    assert pl.read_csv(folder / "rows.csv").height == len(document["kernels"])
    assert "<html" in (folder / "report.html").read_text("utf-8")[:400]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    truths = [
        Truth(
            "conv2d",
            {"batch": n, "layout": HOSTILE},
            n * 1e-3,
            how={"variant": variant},
            found={"implementation": HOSTILE, "contains": HOSTILE},
        )
        for n in (1, 2)
        for variant in ("eager", "max-autotune", HOSTILE)
    ]
    case = Case(kernel=HOSTILE, params={HOSTILE: HOSTILE}, pass_name="forward")
    failed = Result(case=case, status="failed", error=HOSTILE)
    page = write_study(study_of(truths, failures=[failed]), tmp_path)
    text = page.read_text("utf-8")
    # The data of the charts are JSON in an element that only `</` could end.
    before, _, after = text.partition('id="data">')
    data, _, after = after.partition("</script>")
    assert "<script>alert" not in before + after
    assert "alert(1)<\\/script>" in data
    assert "\u202e" not in text
    assert parsed(page).tags.count("script") == 2
    assert "alert(1)" in parsed(page).text


def test_what_was_not_measured_is_listed(tmp_path: Path) -> None:
    case = Case(kernel="gemm", params={"m": 8}, pass_name="forward", precision="int8")
    failed = Result(case=case, status="unsupported", error="torch has no int8 product here")
    text = parsed(write_study(study_of(batch_sweep(), failures=[failed]), tmp_path)).text
    assert "torch has no int8 product here" in text
    assert "unsupported" in text


def test_without_a_machine_tables_remain(tmp_path: Path) -> None:
    study = study_of(batch_sweep())
    page = parsed(write_study(Study(replace(study.report, machine=None), study.rows), tmp_path))
    assert "batch from 16 to 64" in page.text
    assert not [a for a in page.addresses if a.startswith("data:") and "conv2d" in a]


def test_a_place_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_study(study_of(batch_sweep()), tmp_path / "file" / "under")


def test_the_same_study_gives_the_same_page(tmp_path: Path) -> None:
    study = study_of(batch_sweep())
    one = write_study(study, tmp_path / "a").read_bytes()
    assert one == write_study(study, tmp_path / "b").read_bytes()


def test_overlay_takes_the_paper_s_rows_of_the_same_case(tmp_path: Path) -> None:
    study = study_of(paper_like())
    paper = overlay_of(build_paper())
    panel = beside(next(p for p in panels(study.rows) if p.parameter == "batch"), paper)
    # The paper has batch 16 and 32, PyTorch and fp32 as here, and never 48.
    assert sorted(row.params["batch"] for row in panel.overlay) == [16, 32]
    assert {row.precision for row in panel.overlay} == {"fp32"}
    assert {row.time_s for row in panel.overlay} == {353e-6, 657e-6}
    lines = panel_lines(panel, paper)
    assert [line.other for line in lines] == [False, True, False, True, False]
    page = parsed(write_study(study, tmp_path, overlay=build_paper()))
    assert "paper's V100, PT fp32" in page.text
    assert "829 GB/s" in page.text
    assert "20.0 GB/s" in page.text
    assert "other hardware" in page.text


def test_overlay_leaves_sweeps_alone_that_it_does_not_have(tmp_path: Path) -> None:
    base = {"batch": 16, "filters": 64, "kernel": 3, "stride": 2}
    truths = [Truth("conv2d", base | {"layout": v}, 1e-3) for v in ("contiguous", "channels_last")]
    panel = beside(panels(study_of(truths).rows)[0], overlay_of(build_paper()))
    assert panel.parameter == "layout"
    assert panel.overlay == []
    assert write_study(study_of(truths), tmp_path, overlay=build_paper()).exists()


def test_overlay_judges_its_rows_on_its_own_roofs() -> None:
    paper = overlay_of(build_paper())
    study = study_of(paper_like())
    panel = beside(panels(study.rows)[0], paper)
    own = next(row for row in panel.overlay if row.params["batch"] == 16)
    moved = own.bytes_by["dram"] or 0.0
    assert own.bound_s == pytest.approx(max(3589097000 / 15158.2e9, moved / 828.8e9), rel=0.01)


def test_panels_take_the_widest_sweep() -> None:
    narrow = [Truth("conv2d", {"batch": b, "filters": 8}, 1e-3) for b in (1, 2)]
    wide = [Truth("conv2d", {"batch": b, "filters": 64}, 1e-3) for b in (1, 2, 4, 8)]
    study = study_of(narrow + wide)
    panel = next(p for p in panels(study.rows) if p.parameter == "batch")
    assert panel.values == [1, 2, 4, 8]
    assert panel.fixed == "filters 64"


def test_tables_say_what_is_not_known_and_what_beats_its_roof(tmp_path: Path) -> None:
    fast = [Truth("conv2d", {"batch": b}, b * 1e-6, flops=b * 1e9, size_bytes=1e5) for b in (1, 2)]
    page = parsed(write_study(study_of(fast), tmp_path))
    assert "▲" in page.text
    assert "cases are faster than their bound" in page.text


@pytest.mark.parametrize("chart", ["ratio", "gain"])
def test_words_of_a_chart_do_not_overlap(chart: str) -> None:
    """Every text lies inside the picture, and none on another."""
    rows = study_of(precision_truths() + algorithm_truths() + layout_truths()).rows
    effects = [e for c in conclusions(rows, None) for e in c.effects]
    figure = (
        ratio_chart(effects, "ratios")
        if chart == "ratio"
        else gain_chart([e for e in effects if e.facts.get("kind") == "type"])
    )
    figure.canvas.draw()
    axes = figure.axes[0]
    boxes = [t.get_window_extent() for t in axes.texts if t.get_text()]
    width, height = figure.get_size_inches() * figure.dpi
    for index, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.x1 <= width
        assert 0 <= box.y0 <= box.y1 <= height
        assert not any(box.shrunk(0.98, 0.9).overlaps(o.shrunk(0.98, 0.9)) for o in boxes[:index])


def test_the_curve_over_the_working_set_names_its_levels() -> None:
    study = study_of(working_set_truths())
    locality = next(
        c for c in conclusions(study.rows, study.report.machine) if c.factor == "locality"
    )
    (_, figure), *more = factor_charts(locality)
    assert not more
    words = {text.get_text().strip() for text in figure.axes[0].texts}
    assert {"L2", "L3", "L2 200 GB/s", "L3 80 GB/s"} <= words


def test_every_conclusion_has_a_chart_also_where_nothing_was_found() -> None:
    rows = study_of(launch_truths(0.0) + algorithm_truths(1.0) + layout_truths(0.0)).rows
    for conclusion in conclusions(rows, study_of(batch_sweep()).report.machine):
        drawn = factor_charts(conclusion)
        assert drawn
        assert all(re.match(r"[A-Z].*\.$", caption) for caption, _ in drawn)


def test_many_values_and_many_series_still_draw(tmp_path: Path) -> None:
    truths = [
        Truth("gemm", {"n": n}, n * 1e-6, n * 1e5, n * 1e3, how={"variant": f"way-{v}"})
        for n in range(1, 14)
        for v in range(8)
    ]
    page = parsed(write_study(study_of(truths), tmp_path))
    assert "2 further series are in the table only" in page.text
