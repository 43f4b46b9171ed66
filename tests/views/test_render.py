"""Files by suffix, pictures, Markdown, tables, and the figure of a notebook."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import polars as pl
import pytest

from tests.conftest import make_machine
from tests.views.samples import hostile_report, large_report, step_report
from timeroof.api.reports import Report as ShownReport, analyze
from timeroof.core.errors import InputError, UsageError
from timeroof.core.profile import Profile, Source
from timeroof.core.report import Report, RoofPair
from timeroof.paper.build import build_paper
from timeroof.views.page.payload import run_payload
from timeroof.views.pictures.of_report import CHARTS, chart_roofs, report_figure, report_units
from timeroof.views.render import SUFFIXES, code, render, report_markdown
from timeroof.views.style import markdown_text


@pytest.fixture(scope="module")
def step() -> Report:
    return step_report()


HEADS = {
    "html": b"<!doctype html>", "png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "md": b"# ",
    "csv": b"id,", "parquet": b"PAR1", "json": b'{"schema"',
}  # fmt: skip


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_suffix_says_what_is_written(step: Report, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"report.{suffix}"
    render(step, path)
    assert path.read_bytes().startswith(HEADS[suffix])
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_an_unknown_suffix_is_refused(step: Report, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="known suffix"):
        render(step, tmp_path / "report.docx")


@pytest.mark.slow
def test_a_pdf_has_all_four_charts(step: Report, tmp_path: Path) -> None:
    render(step, tmp_path / "r.pdf")
    assert (tmp_path / "r.pdf").read_bytes().count(b"/Type /Page ") == len(CHARTS)
    render(step, tmp_path / "again.pdf")
    assert (tmp_path / "r.pdf").read_bytes() == (tmp_path / "again.pdf").read_bytes()


def test_tables_hold_every_row(step: Report, tmp_path: Path) -> None:
    render(step, tmp_path / "r.csv")
    render(step, tmp_path / "r.parquet")
    csv = pl.read_csv(tmp_path / "r.csv", infer_schema_length=None)
    parquet = pl.read_parquet(tmp_path / "r.parquet")
    assert csv.height == parquet.height == len(step.profile)
    assert parquet["time_s"].to_list() == step.profile.kernels["time_s"].to_list()
    assert csv["limiter"].to_list() == step.verdicts.table["limiter"].to_list()


def test_several_runs_in_one_file(step: Report, tmp_path: Path) -> None:
    runs = [step, large_report(40)]
    for suffix in ("csv", "parquet", "md", "html", "png"):
        render(step, tmp_path / f"r.{suffix}", runs=runs)
    table = pl.read_parquet(tmp_path / "r.parquet")
    assert table["run"].unique(maintain_order=True).to_list() == ["step", "synthetic"]
    assert table.height == len(step.profile) + 40
    assert "## synthetic" in (tmp_path / "r.md").read_text("utf-8")
    with pytest.raises(UsageError, match="one run"):
        render(step, tmp_path / "r.json", runs=runs)


def test_json_is_the_report_s_schema(step: Report, tmp_path: Path) -> None:
    render(step, tmp_path / "r.json")
    assert msgspec.json.decode((tmp_path / "r.json").read_bytes())["schema"] == "timeroof.report/2"


def test_markdown_of_a_pull_request(step: Report) -> None:
    text = report_markdown([step], ["r"], title="T")
    assert "| compute-bound | 9.20 ms | 62 % |" in text
    assert "| `adam multi_tensor" in text
    assert "(up to 2.10 ms)" in text
    assert len(text) < 4_000


def test_markdown_names_stay_names() -> None:
    text = report_markdown([hostile_report()], ["@someone"], title="@everyone <img src=x>")
    assert "<script>window.hacked=1</script>`" in text
    outside = "".join(part for k, part in enumerate(text.split("`")) if k % 2 == 0)
    assert "<script" not in outside.replace("\\<script", "")
    assert "@everyone" not in text
    assert code("``x``") == "``` ``x`` ```"
    assert markdown_text("a|b_c") == "a\\|b\\_c"


@pytest.mark.parametrize("name", CHARTS)
def test_a_picture_of_every_chart(step: Report, name: str) -> None:
    for report in (step, build_paper()):
        buffer = io.BytesIO()
        report_figure([report], name).savefig(buffer, format="png")
        assert buffer.getvalue().startswith(b"\x89PNG")


def test_the_figure_of_a_notebook_is_the_picture(step: Report) -> None:
    assert isinstance(step, ShownReport)
    figure, picture = step.figure("time"), report_figure([step], "time")
    assert [line.get_xydata().tolist() for line in figure.axes[0].lines] == [
        line.get_xydata().tolist() for line in picture.axes[0].lines
    ]


def test_unknown_charts_and_machines_without_roofs(step: Report) -> None:
    with pytest.raises(InputError, match="no chart"):
        report_figure([step], "pie")
    bare = analyze(Profile.of([{"name": "k", "time_s": 1.0}], Source(tool="t")))
    with pytest.raises(InputError, match="ceiling"):
        bare.figure("combined")


def test_the_headline_pair_is_the_highest_roof_in_use(step: Report) -> None:
    assert run_payload(step, "r")["pair"] == ["flop/bf16-tensor", "byte/dram"]
    rows = [{"name": "k", "time_s": 1.0, "flop/fp32": 1.0, "byte/l1": 2.0}]
    only_l1 = analyze(Profile.of(rows, Source(tool="t")), "h100-sxm")
    run = run_payload(only_l1, "r")
    assert (run["pair"][0], run["level"]) == ("flop/fp32", "byte/l1")


def test_charts_are_drawn_on_the_roof_that_was_asked_for(step: Report) -> None:
    asked = analyze(step.profile, step.machine, pair=RoofPair("flop/fp32"))
    assert run_payload(asked, "r")["pair"] == ["flop/fp32", "byte/dram"]
    axes = asked.figure("time").axes[0]
    assert axes.get_ylabel() == "compute time at fp32"


def test_padding_has_no_place_on_a_chart() -> None:
    row = {
        "name": "conv", "time_s": 1.0, "launches": 1.0,
        "flop/fp32": 100.0, "padding_flops": 40.0, "byte/dram": 1.0,
    }  # fmt: skip
    report = analyze(Profile.of([row], Source(tool="t")), make_machine())
    roofs = chart_roofs(report)
    assert roofs is not None
    [unit] = report_units(report)
    assert unit.flops == 60.0
    [point] = roofs.time_points_s([unit])
    judged = report.rows.row(0, named=True)
    assert point == pytest.approx((judged["bandwidth_time_s"], judged["compute_time_s"]))
