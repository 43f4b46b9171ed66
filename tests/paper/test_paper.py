"""The paper's report: counts, figures and conclusions that follow from the numbers."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from markupsafe import escape

from timeroof.core.report import Report
from timeroof.paper import BASE_CASE, base_case, direct_flops, paper_rows, sweep
from timeroof.paper.build import TITLE, chosen_figures, paper_figures, write_folder
from timeroof.study.factors.published import paper_findings, paper_report
from timeroof.study.output.paper_page import paper_page


@pytest.fixture(scope="module")
def report() -> Report:
    return paper_report()


@pytest.fixture(scope="module")
def rows(report: Report) -> pl.DataFrame:
    return report.rows


def test_counts(rows: pl.DataFrame) -> None:
    assert paper_rows().height == rows.height == 264
    assert rows["inside_overhead_box"].sum() == 78
    lstm = rows.filter(pl.col("op") == "lstm")
    assert lstm.height == 144
    assert (lstm["limiter"] == "launch").all()
    assert rows["above_roof"].null_count() == 264
    assert (rows["kind"] == "unit").all()


def test_sweeps_have_the_grids_of_the_paper(rows: pl.DataFrame) -> None:
    sizes = {
        ("conv2d", "batch"): [16, 32, 64],
        ("conv2d", "filters"): [64, 128, 256, 512],
        ("conv2d", "kernel"): [3, 7, 9],
        ("conv2d", "stride"): [1, 2, 3],
        ("lstm", "batch"): [16, 32, 64, 128],
        ("lstm", "time_steps"): [16, 32, 64, 128],
        ("lstm", "features"): [32, 64, 128],
        ("lstm", "hidden"): [16, 32, 64, 128],
    }
    for (op, parameter), values in sizes.items():
        for phase in ("forward", "backward"):
            part = sweep(rows, op, phase, parameter)
            assert part["value"].unique().sort().to_list() == values
            assert part.height == 6 * len(values)
    assert base_case(rows, "conv2d", "forward").height == 6


def test_direct_flops_by_hand(rows: pl.DataFrame) -> None:
    by_framework = {
        row["label.framework"]: direct_flops(row["label.framework"], BASE_CASE["conv2d"])
        for row in base_case(rows, "conv2d", "forward").iter_rows(named=True)
    }
    assert by_framework["PT"] == 2 * 16 * 64 * 64 * 9 * 55**2
    assert by_framework["TF1"] == 2 * 16 * 64 * 64 * 9 * 56**2


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        ("intensity", ["41 to 39 FLOP/B", "41 to 350 FLOP/B"]),
        ("locality", ["4.4 to 5.0 times the DRAM bytes", "2.5 to 2.7 times as long",
                      "L1 2.2, L2 5.9, DRAM 9.8"]),
        ("autotune", ["1.25 ms with 0 %", "254 µs", "0.47 to 0.49"]),
        ("launch", ["0.48 % to 12 %", "TF1 95 % to 115 %", "TF2 90 % to 113 %", "PT 54 % to 81 %",
                    "144 of 144", "78 of 264", "TF1 FP32 17.0", "TF2 FP16 14.0", "PT FP32 2.1"]),
        ("tensor-cores", ["58.4 TFLOP/s, 55 %", "1.2 to 4.4 times", "0.8 to 1.1 times"]),
    ],
)  # fmt: skip
def test_findings_say_what_the_paper_found(report: Report, code: str, texts: list[str]) -> None:
    finding = next(f for f in report.findings if f.code == f"paper/{code}")
    for text in texts:
        assert text in finding.why
    assert finding.evidence


def test_findings_follow_the_numbers(report: Report, rows: pl.DataFrame) -> None:
    """Twice the launches must move the launch finding: nothing is typed in."""
    doubled = rows.with_columns(pl.col("overhead_time_s") * 2)
    assert report.machine is not None
    changed = {f.code: f.why for f in paper_findings(doubled, report.machine)}
    same = {f.code: f.why for f in report.findings}
    assert changed["paper/launch"] != same["paper/launch"]
    assert "TF1 190 % to 229 %" in changed["paper/launch"]
    assert changed["paper/locality"] == same["paper/locality"]


def test_the_authors_twelve_figures_and_more() -> None:
    figures = paper_figures()
    assert len({f.name for f in figures}) == len(figures) == 44
    assert sum(f.drawn_by_authors for f in figures) == 12
    assert {"lstm_time_batch", "conv2d_time_batch_backward"} <= {f.name for f in figures}
    assert [f.name for f in chosen_figures(["lstm_time_batch", "lstm_time_batch"])] == [
        "lstm_time_batch"
    ]


def test_the_folder_has_everything(report: Report, tmp_path: Path) -> None:
    chosen = chosen_figures(["conv2d_hierarchy_forward", "lstm_complexity_backward",
                             "conv2d_timeplane_forward", "lstm_roofline_batch"])  # fmt: skip
    seen: list[str] = []
    made = paper_page(report, TITLE, chosen)
    page = write_folder(report, tmp_path, chosen, "png", seen.append, page=made)
    assert seen == [f.name for f in chosen]
    assert {p.name for p in tmp_path.iterdir()} == {
        *(f"{f.name}.png" for f in chosen),
        "index.html", "findings.md", "passes.csv", "paper.json", "paper.troof", "report.html",
    }  # fmt: skip
    html = page.read_text("utf-8")
    for finding in report.findings:
        sentence = escape(finding.title.partition(": ")[2])
        assert sentence in html
        assert len(sentence.split()) <= 25
        assert f'data-chart="factor-{finding.code.partition("/")[2]}"' in html
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in html
    assert pl.read_csv(tmp_path / "passes.csv", infer_schema_length=None).height == 264
